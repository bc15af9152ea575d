"""Colour ops on uint8 images, as the original SSD's code does them with OpenCV.

Every op multiplies channels and adds to them, rounds to the nearest level and saturates at 0 and 255.
"""

import cv2
import numpy as np

from engine.augmentation.ops import Sample


def shift_brightness(sample: Sample, rng: np.random.Generator, *, max_delta: float) -> Sample:
    """Adds U(-max_delta, max_delta) levels to all channels."""
    delta = rng.uniform(-max_delta, max_delta)
    return sample | {"image": map_channels(sample["image"], offsets=(delta, delta, delta))}


def scale_contrast(sample: Sample, rng: np.random.Generator, *, low: float, high: float) -> Sample:
    """Multiplies all channels by U(low, high): contrast about black, not about the mean."""
    factor = rng.uniform(low, high)
    return sample | {"image": map_channels(sample["image"], factors=(factor, factor, factor))}


def scale_saturation(sample: Sample, rng: np.random.Generator, *, low: float, high: float) -> Sample:
    """Multiplies the saturation by U(low, high)."""
    hsv = cv2.cvtColor(sample["image"], cv2.COLOR_RGB2HSV)
    hsv = map_channels(hsv, factors=(1, rng.uniform(low, high), 1))
    return sample | {"image": cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)}


def shift_hue(sample: Sample, rng: np.random.Generator, *, max_delta: float) -> Sample:
    """Adds U(-max_delta, max_delta) to the hue on OpenCV's scale of 0-180, that is in steps of two degrees.

    A hue pushed below 0 becomes 0, as in the original; one beyond 180 goes on around the circle.
    """
    hsv = cv2.cvtColor(sample["image"], cv2.COLOR_RGB2HSV)
    hsv = map_channels(hsv, offsets=(rng.uniform(-max_delta, max_delta), 0, 0))
    return sample | {"image": cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)}


def map_channels(
    image: np.ndarray, factors: tuple[float, float, float] = (1, 1, 1), offsets: tuple[float, float, float] = (0, 0, 0)
) -> np.ndarray:
    """channel * factor + offset for each of the three channels, in float32, rounded and saturated to uint8."""
    return cv2.transform(image, np.column_stack([np.diag(factors), offsets]))
