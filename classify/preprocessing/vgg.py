"""VGG's training input (Simonyan & Zisserman 2014, arXiv:1409.1556, section 3.1): one crop of a picture of random scale."""

import numpy as np

from classify.preprocessing.geometry import central_crop, flip, random_crop, resize_shortest
from engine.augmentation.ops import Op, Sample, maybe

# Shorter side of the picture for a net that takes 224: random in training, fixed in evaluation.
_SCALES, _EVALUATED, _FOR = (256, 512), 256, 224


def vgg(size: int) -> list[Op]:
    """The ops in order; `size` is the side of the net's input in pixels."""

    def scale(sample: Sample, rng: np.random.Generator) -> Sample:
        side = rng.integers(_SCALES[0], _SCALES[1] + 1) * size // _FOR
        return sample | {"image": resize_shortest(sample["image"], int(side))}

    def crop(sample: Sample, rng: np.random.Generator) -> Sample:
        return random_crop(sample, rng, size=size)

    return [scale, crop, maybe(0.5, flip)]


def resize(image: np.ndarray, size: int) -> np.ndarray:
    """The middle square of the picture at the smallest training scale, [size, size, 3] uint8."""
    return central_crop(resize_shortest(image, _EVALUATED * size // _FOR), size, size)
