"""Colour ops on float32 images in 0..1, with the meaning of `tf.image.adjust_*`.

Between the ops values may leave 0..1, as they may in TensorFlow; the saturation and hue formulas hold there too.
"""

from functools import partial

import cv2
import numpy as np

from engine.augmentation.ops import Op, Sample, one_of


def to_unit_range(sample: Sample, rng: np.random.Generator) -> Sample:
    """uint8 0-255 to float32 0..1."""
    return sample | {"image": sample["image"] * np.float32(1 / 255)}


def to_uint8(sample: Sample, rng: np.random.Generator) -> Sample:
    """Float 0..1 to the nearest level of uint8 0-255; what lies outside is clipped."""
    return sample | {"image": cv2.convertScaleAbs(np.maximum(sample["image"], 0), alpha=255)}


def jitter_brightness(sample: Sample, rng: np.random.Generator, *, max_delta: float) -> Sample:
    """Adds U(-max_delta, max_delta)."""
    return sample | {"image": sample["image"] + np.float32(rng.uniform(-max_delta, max_delta))}


def jitter_contrast(sample: Sample, rng: np.random.Generator, *, low: float, high: float) -> Sample:
    """Multiplies each channel's distance from its mean by U(low, high)."""
    factor = rng.uniform(low, high)
    means = np.array(cv2.mean(sample["image"])[:3])
    return sample | {"image": cv2.transform(sample["image"], np.column_stack([factor * np.eye(3), (1 - factor) * means]))}


def jitter_saturation(sample: Sample, rng: np.random.Generator, *, low: float, high: float) -> Sample:
    """Multiplies the HSV saturation by U(low, high), at most to 1."""
    return sample | {"image": scale_saturation(sample["image"], rng.uniform(low, high))}


def jitter_hue(sample: Sample, rng: np.random.Generator, *, max_delta: float) -> Sample:
    """Turns the hue by U(-max_delta, max_delta) of a full circle."""
    return sample | {"image": rotate_hue(sample["image"], rng.uniform(-max_delta, max_delta))}


def scale_saturation(image: np.ndarray, factor: float) -> np.ndarray:
    """The image [H, W, 3] float32 with its saturation (max - min) / max times `factor`, clipped to 0..1.

    At constant hue and value each channel's distance from the largest one grows as the saturation does,
    so no trip through HSV is needed. A pixel without a positive channel has saturation 0 and turns grey.
    """
    smallest, value = extremes(image)
    growth = np.clip(value / np.maximum(value - smallest, np.finfo(np.float32).tiny), 0, np.float32(factor))
    value = cv2.merge([value] * 3)
    return value - (value - image) * cv2.merge([growth] * 3)


def rotate_hue(image: np.ndarray, turns: float) -> np.ndarray:
    """The image [H, W, 3] float32 with its hue turned; the largest and the smallest channel keep their values."""
    smallest = cv2.merge([extremes(image)[0]] * 3)
    hsv = cv2.cvtColor(image - smallest, cv2.COLOR_RGB2HSV)
    hsv[..., 0] += 360 * (turns % 1)  # OpenCV takes angles beyond 360, not below 0
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB) + smallest


def extremes(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest channel [H, W] of each pixel, much faster than a reduction over an axis of three."""
    red, green, blue = np.moveaxis(image, 2, 0)
    return np.minimum(np.minimum(red, green), blue), np.maximum(np.maximum(red, green), blue)


_BRIGHTNESS = partial(jitter_brightness, max_delta=32 / 255)
_SATURATION = partial(jitter_saturation, low=0.5, high=1.5)
_HUE = partial(jitter_hue, max_delta=0.2)
_CONTRAST = partial(jitter_contrast, low=0.5, high=1.5)
# The jitter of TF-slim's Inception preprocessing.
INCEPTION_JITTER: Op = one_of(
    [_BRIGHTNESS, _SATURATION, _HUE, _CONTRAST],
    [_SATURATION, _BRIGHTNESS, _CONTRAST, _HUE],
    [_CONTRAST, _HUE, _BRIGHTNESS, _SATURATION],
    [_HUE, _SATURATION, _CONTRAST, _BRIGHTNESS],
)
