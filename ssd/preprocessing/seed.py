"""The seed's augmentation: a distorted bounding box crop and the colour jitter of TF-slim's Inception preprocessing.

The jitter works on float images in 0..1; its result is rounded to uint8, as all recipes return, which moves
a value by at most half a level of 255.
"""

from functools import partial

import cv2

from engine.augmentation.colour_float import (
    jitter_brightness,
    jitter_contrast,
    jitter_hue,
    jitter_saturation,
    to_uint8,
    to_unit_range,
)
from engine.augmentation.ops import Op, maybe, one_of
from ssd.preprocessing.geometry import crop, flip, resize
from ssd.preprocessing.patches import sample_covering_patch

BRIGHTNESS = partial(jitter_brightness, max_delta=32 / 255)
SATURATION = partial(jitter_saturation, low=0.5, high=1.5)
HUE = partial(jitter_hue, max_delta=0.2)
CONTRAST = partial(jitter_contrast, low=0.5, high=1.5)


def seed(size: int) -> list[Op]:
    """The ops in order; `size` is the side of the net's input in pixels."""
    return [
        partial(sample_covering_patch, min_covered=0.25, aspect=(0.6, 1.67), area=(0.1, 1), attempts=200, min_inside=0.5),
        crop,
        partial(resize, size=size, interpolations=(cv2.INTER_LINEAR,)),
        maybe(0.5, flip),
        to_unit_range,
        one_of(
            [BRIGHTNESS, SATURATION, HUE, CONTRAST],
            [SATURATION, BRIGHTNESS, CONTRAST, HUE],
            [CONTRAST, HUE, BRIGHTNESS, SATURATION],
            [HUE, SATURATION, CONTRAST, BRIGHTNESS],
        ),
        to_uint8,
    ]
