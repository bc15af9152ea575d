"""The paper's augmentation (section 2.2 of arXiv:1512.02325 and its "expand" data), numbers of the authors' code.

Differences from that code. It distorts the colours of the whole picture first; here only the pixels that stay are
distorted, which gives the same result, as distortion looks at one pixel at a time and leaves the canvas alone. It
stores the picture as JPEG again between its steps; that is left out. It cuts pixels, but not boxes, to whole pixels; here
a patch is whole pixels before it is judged. Pictures with a side beyond four times the net's input are made smaller first.
"""

from functools import partial

import cv2

from engine.augmentation.ops import Op, maybe, one_of
from ssd.preprocessing.colour_uint8 import scale_contrast, scale_saturation, shift_brightness, shift_hue
from ssd.preprocessing.geometry import crop, expand, flip, resize, shrink
from ssd.preprocessing.patches import sample_patch

BRIGHTNESS = maybe(0.5, partial(shift_brightness, max_delta=32))
CONTRAST = maybe(0.5, partial(scale_contrast, low=0.5, high=1.5))
SATURATION = maybe(0.5, partial(scale_saturation, low=0.5, high=1.5))
HUE = maybe(0.5, partial(shift_hue, max_delta=18))
# The last sampler of the paper takes any patch, whatever it shows of an object.
IOU_RANGES = ((0.1, 1), (0.3, 1), (0.5, 1), (0.7, 1), (0.9, 1), (0, 1))
INTERPOLATIONS = (cv2.INTER_LINEAR, cv2.INTER_AREA, cv2.INTER_NEAREST, cv2.INTER_CUBIC, cv2.INTER_LANCZOS4)


def paper(size: int) -> list[Op]:
    """The ops in order; `size` is the side of the net's input in pixels."""
    return [
        # Keeps a zoomed-out picture of 12 megapixels from taking half a gigabyte. The smallest patch, .3 of a side,
        # still has the net's resolution.
        partial(shrink, longest_side=4 * size),
        maybe(0.5, partial(expand, max_ratio=4)),
        partial(sample_patch, iou_ranges=IOU_RANGES, trials=50, scale=(0.3, 1), aspect=(0.5, 2)),
        crop,
        one_of([BRIGHTNESS, CONTRAST, SATURATION, HUE], [BRIGHTNESS, SATURATION, HUE, CONTRAST]),
        partial(resize, size=size, interpolations=INTERPOLATIONS),
        maybe(0.5, flip),
    ]
