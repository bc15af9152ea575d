"""Cropping and resizing of pictures [H, W, 3] uint8."""

import cv2
import numpy as np

from engine.augmentation.ops import Sample


def warp(image: np.ndarray, size: int) -> np.ndarray:
    """[size, size, 3], the aspect ratio not kept: bilinear to enlarge, area means to shrink without aliasing."""
    height, width = image.shape[:2]
    interpolation = cv2.INTER_AREA if min(height, width) > size else cv2.INTER_LINEAR
    return cv2.resize(image, (size, size), interpolation=interpolation)


def resize_shortest(image: np.ndarray, side: int) -> np.ndarray:
    """The picture with its shorter side of `side` pixels, the aspect ratio kept."""
    height, width = image.shape[:2]
    scale = side / min(height, width)
    size = (max(side, round(width * scale)), max(side, round(height * scale)))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)


def central_crop(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """[height, width, 3] from the middle."""
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    return image[top : top + height, left : left + width]


def random_crop(sample: Sample, rng: np.random.Generator, *, size: int) -> Sample:
    """A square of `size` pixels, each place equally likely; the picture must be as large."""
    image = sample["image"]
    top, left = rng.integers(image.shape[0] - size + 1), rng.integers(image.shape[1] - size + 1)
    return sample | {"image": image[top : top + size, left : left + size]}


def flip(sample: Sample, rng: np.random.Generator) -> Sample:
    """Left and right exchanged."""
    return sample | {"image": cv2.flip(sample["image"], 1)}
