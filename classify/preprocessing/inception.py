"""Inception's training input (Szegedy et al. 2014, arXiv:1409.4842, section 6), as TF-slim trains MobileNets and others."""

from functools import partial

import numpy as np

from classify.preprocessing.geometry import central_crop, flip, warp
from engine.augmentation.colour_float import INCEPTION_JITTER, to_uint8, to_unit_range
from engine.augmentation.ops import Op, Sample, maybe

_ATTEMPTS = 10
_EVALUATED = 0.875


def inception(size: int) -> list[Op]:
    """The ops in order: a patch of 5-100 % of the area and aspect ratio 3/4-4/3, flip, colours in one of four orders."""
    return [
        partial(crop_patch, area=(0.05, 1.0), aspect=(3 / 4, 4 / 3)),
        lambda sample, rng: sample | {"image": warp(sample["image"], size)},
        maybe(0.5, flip),
        to_unit_range,
        INCEPTION_JITTER,
        to_uint8,
    ]


def crop_patch(sample: Sample, rng: np.random.Generator, *, area: tuple[float, float], aspect: tuple[float, float]) -> Sample:
    """A patch whose share of the area and aspect ratio (width / height) are drawn uniformly; the whole if none fits."""
    height, width = sample["image"].shape[:2]
    for _ in range(_ATTEMPTS):
        pixels, ratio = rng.uniform(*area) * height * width, rng.uniform(*aspect)
        patch_height, patch_width = round((pixels / ratio) ** 0.5), round((pixels * ratio) ** 0.5)
        if 0 < patch_height <= height and 0 < patch_width <= width:
            top, left = rng.integers(height - patch_height + 1), rng.integers(width - patch_width + 1)
            return sample | {"image": sample["image"][top : top + patch_height, left : left + patch_width]}
    return sample


def resize(image: np.ndarray, size: int) -> np.ndarray:
    """The middle 87.5 % of each side, warped to [size, size, 3] uint8."""
    height, width = (max(1, round(_EVALUATED * side)) for side in image.shape[:2])
    return warp(central_crop(image, height, width), size)
