"""Ops that move image and boxes: the window, zoom out, crop, shrink, resize, flip.

A sample may carry a "window": (ymin, xmin, ymax, xmax) in whole pixels of its image, the part of the
plane that the net will see. It may reach beyond the image, where the canvas colour is seen. Boxes always
count in windows: (0, 0, 1, 1) is the whole window. A sample without one is seen through its whole image.
Choosing what to see is therefore arithmetic on a few numbers, and pixels are touched once it is settled.
"""

from collections.abc import Sequence

import cv2
import numpy as np

from engine.augmentation.ops import Sample

Window = tuple[int, int, int, int]

# What lies outside the image: the means in RGB, so that it is 0 once they are subtracted.
CANVAS_RGB = (123, 117, 104)


def window_of(sample: Sample) -> Window:
    """(ymin, xmin, ymax, xmax) of the sample's window in pixels of its image."""
    height, width = sample["image"].shape[:2]
    return sample.get("window", (0, 0, height, width))


def boxes_in_pixels(sample: Sample) -> np.ndarray:
    """The boxes [N, 4] float64 in pixels of the sample's image."""
    ymin, xmin, ymax, xmax = window_of(sample)
    scale = np.array([ymax - ymin, xmax - xmin] * 2, np.float64)
    return sample["boxes"] * scale + (ymin, xmin, ymin, xmin)


def look_through(sample: Sample, window: Window, keep: np.ndarray | None = None) -> Sample:
    """The sample seen through another window: boxes clipped to it, objects outside `keep` dropped.

    `keep` is a mask [N]. Every array that is neither the image nor the window has one row per object and
    loses the same rows as the boxes; scalars (a file name) are carried along.
    """
    ymin, xmin, ymax, xmax = window
    corners = boxes_in_pixels(sample) - (ymin, xmin, ymin, xmin)
    boxes = np.clip(corners / ([ymax - ymin, xmax - xmin] * 2), 0, 1).astype(np.float32)
    seen = sample | {"boxes": boxes, "window": window}
    if keep is None:
        return seen
    rows = [name for name, value in seen.items() if name not in ("image", "window") and np.ndim(value)]
    return seen | {name: seen[name][keep] for name in rows}


def expand(sample: Sample, rng: np.random.Generator, *, max_ratio: float) -> Sample:
    """Zoom out: the window grows by a ratio drawn from U(1, max_ratio) and lies at random around the image."""
    ymin, xmin, ymax, xmax = window_of(sample)
    ratio = rng.uniform(1, max_ratio)
    height, width = int((ymax - ymin) * ratio), int((xmax - xmin) * ratio)
    top = ymin - int(rng.uniform(0, height - (ymax - ymin)))
    left = xmin - int(rng.uniform(0, width - (xmax - xmin)))
    return look_through(sample, (top, left, top + height, left + width))


def crop(sample: Sample, rng: np.random.Generator) -> Sample:
    """Drops the pixels outside the window, so that later ops do not work on them; what is seen stays the same.

    One pixel is kept even where the window lies wholly outside the image: OpenCV refuses empty ones.
    """
    height, width = sample["image"].shape[:2]
    ymin, xmin, ymax, xmax = window_of(sample)
    top, bottom = min(max(ymin, 0), height - 1), max(min(ymax, height), 1)
    left, right = min(max(xmin, 0), width - 1), max(min(xmax, width), 1)
    window = (ymin - top, xmin - left, ymax - top, xmax - left)
    return sample | {"image": sample["image"][top:bottom, left:right], "window": window}


def shrink(sample: Sample, rng: np.random.Generator, *, longest_side: int) -> Sample:
    """A picture with a side beyond `longest_side` pixels, made smaller to fit; a sample still without a window."""
    height, width = sample["image"].shape[:2]
    scale = longest_side / max(height, width)
    if scale >= 1:
        return sample
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return sample | {"image": cv2.resize(sample["image"], size, interpolation=cv2.INTER_AREA)}


def resize(sample: Sample, rng: np.random.Generator, *, size: int, interpolations: Sequence[int]) -> Sample:
    """The window as an image [size, size, 3], aspect ratio not kept, by one of OpenCV's INTER_* at random."""
    interpolation = interpolations[rng.integers(len(interpolations))]
    image = render(sample["image"], window_of(sample), size, interpolation)
    return {name: value for name, value in sample.items() if name != "window"} | {"image": image}


def render(image: np.ndarray, window: Window, size: int, interpolation: int) -> np.ndarray:
    """What the window shows, [size, size, 3] uint8: the image pasted on the canvas, cut out and warped."""
    height, width = image.shape[:2]
    ymin, xmin, ymax, xmax = window
    inside = image[max(ymin, 0) : max(ymax, 0), max(xmin, 0) : max(xmax, 0)]
    if inside.size == 0:
        return np.full((size, size, 3), CANVAS_RGB, np.uint8)
    margins = (max(-ymin, 0), max(ymax - height, 0), max(-xmin, 0), max(xmax - width, 0))
    if any(margins):
        inside = cv2.copyMakeBorder(inside, *margins, cv2.BORDER_CONSTANT, value=CANVAS_RGB)
    return cv2.resize(inside, (size, size), interpolation=interpolation)


def flip(sample: Sample, rng: np.random.Generator) -> Sample:
    """The mirror image, left and right exchanged."""
    ymin, xmin, ymax, xmax = np.split(sample["boxes"], 4, axis=1)
    boxes = np.concatenate([ymin, 1 - xmax, ymax, 1 - xmin], axis=1)
    return sample | {"image": cv2.flip(sample["image"], 1), "boxes": boxes}


def resize_for_evaluation(image: np.ndarray, size: int) -> np.ndarray:
    """The image [H, W, 3] uint8 warped to [size, size, 3] uint8 bilinearly: what evaluation and detection feed the net."""
    return cv2.resize(image, (size, size), interpolation=cv2.INTER_LINEAR)
