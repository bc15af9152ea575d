"""The seed's augmentation: a distorted bounding box crop and the colour jitter of TF-slim's Inception preprocessing.

The jitter works on float images in 0..1; its result is rounded to uint8, as all recipes return, which moves
a value by at most half a level of 255.
"""

from functools import partial

import cv2

from engine.augmentation.colour_float import INCEPTION_JITTER, to_uint8, to_unit_range
from engine.augmentation.ops import Op, maybe
from ssd.preprocessing.geometry import crop, flip, resize
from ssd.preprocessing.patches import sample_covering_patch


def seed(size: int) -> list[Op]:
    """The ops in order; `size` is the side of the net's input in pixels."""
    return [
        partial(sample_covering_patch, min_covered=0.25, aspect=(0.6, 1.67), area=(0.1, 1), attempts=200, min_inside=0.5),
        crop,
        partial(resize, size=size, interpolations=(cv2.INTER_LINEAR,)),
        maybe(0.5, flip),
        to_unit_range,
        INCEPTION_JITTER,
        to_uint8,
    ]
