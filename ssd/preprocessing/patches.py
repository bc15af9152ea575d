"""Ops that choose the patch of the picture to train on, looking at the objects in it.

All trials are drawn at once as rows of an array: [T, 4] patches against [N, 4] boxes, both (ymin, xmin,
ymax, xmax) in pixels, instead of a Python loop of up to hundreds of trials.
"""

from collections.abc import Sequence

import numpy as np

from engine.augmentation.ops import Sample
from ssd.preprocessing.geometry import boxes_in_pixels, look_through, window_of

Range = tuple[float, float]


def sample_patch(
    sample: Sample, rng: np.random.Generator, *, iou_ranges: Sequence[Range], trials: int, scale: Range, aspect: Range
) -> Sample:
    """SSD's batch samplers (section 2.2 of arXiv:1512.02325, with the numbers of its code).

    One sampler per IoU range: the first of its `trials` random patches that has an IoU within the range
    with any object, bounds included. A sampler without such a patch drops out. The whole window and the
    patches found are equally likely. An object stays if its centre lies in the patch, border included, and
    something of it is left; its box is clipped. Patches are cut to whole pixels before they are judged, so
    that the boxes returned fit the pixels returned.
    """
    window = np.array(window_of(sample))
    boxes = boxes_in_pixels(sample)
    patches = draw_patches(rng, window, len(iou_ranges) * trials, scale, aspect)
    ious = pairwise_iou(patches, boxes).reshape(len(iou_ranges), trials, len(boxes))
    low, high = np.array(iou_ranges).T[:, :, None, None]
    good = ((low <= ious) & (ious <= high)).any(axis=2)  # [sampler, trial]
    first_good = good.argmax(axis=1) + np.arange(len(iou_ranges)) * trials
    candidates = np.concatenate([window[None], patches[first_good[good.any(axis=1)]]])
    chosen = candidates[rng.integers(len(candidates))]
    return look_through(sample, tuple(chosen.tolist()), keep=centre_inside(boxes, chosen))


def draw_patches(rng: np.random.Generator, window: np.ndarray, count: int, scale: Range, aspect: Range) -> np.ndarray:
    """Random patches [count, 4] int64 of the window: height and width are fractions scale/sqrt(a), scale*sqrt(a) of its own."""
    scales = rng.uniform(*scale, count)
    # The bounds keep both sides within the window.
    ratios = np.sqrt(rng.uniform(np.maximum(aspect[0], scales**2), np.minimum(aspect[1], scales**-2)))
    fractions = np.stack([scales / ratios, scales * ratios], axis=1)
    offsets = rng.uniform(size=(count, 2)) * (1 - fractions)
    extent = window[2:] - window[:2]
    # Rounding can take a fraction, or a side of 1/sqrt(a)*sqrt(a), a hair beyond 1.
    sides = np.clip(fractions * extent, 1, extent).astype(np.int64)
    starts = window[:2] + np.clip(offsets * extent, 0, extent - sides).astype(np.int64)
    return np.concatenate([starts, starts + sides], axis=1)


def sample_covering_patch(
    sample: Sample,
    rng: np.random.Generator,
    *,
    min_covered: float,
    aspect: Range,
    area: Range,
    attempts: int,
    min_inside: float,
) -> Sample:
    """The distorted bounding box crop, in the manner of `tf.image.sample_distorted_bounding_box`.

    The first of `attempts` random patches that covers at least the fraction `min_covered` of any object; the
    whole window if there is none. Without objects the whole window counts as one. `aspect` is width over
    height in pixels, `area` a fraction of the window's. An object stays if more than the fraction
    `min_inside` of it lies in the patch; its box is clipped.
    """
    window = np.array(window_of(sample))
    boxes = boxes_in_pixels(sample)
    patches = draw_patches_by_area(rng, window, attempts, aspect, area)
    covered = fraction_inside(boxes if len(boxes) else window[None], patches)
    good = patches[(covered >= min_covered).any(axis=1)]
    chosen = good[0] if len(good) else window
    return look_through(sample, tuple(chosen.tolist()), keep=fraction_inside(boxes, chosen[None])[0] > min_inside)


def draw_patches_by_area(rng: np.random.Generator, window: np.ndarray, count: int, aspect: Range, area: Range) -> np.ndarray:
    """Random patches [<= count, 4] int64 of the window; draws whose rounding breaks a limit are left out.

    The aspect ratio is uniform, then the height is uniform among the heights that the ratio and the area allow.
    """
    extent = window[2:] - window[:2]
    ratios = rng.uniform(*aspect, count)
    least, most = (np.sqrt(fraction * extent.prod() / ratios) for fraction in area)
    most = np.minimum(np.rint(most), np.minimum(extent[0], (extent[1] + 0.5) // ratios))
    least = np.minimum(np.rint(least), most)
    heights = rng.integers(least.astype(np.int64), most.astype(np.int64), endpoint=True)
    sides = np.stack([heights, np.rint(heights * ratios).astype(np.int64)], axis=1)
    areas = sides.prod(axis=1) / extent.prod()
    sides = sides[(areas >= max(area[0], np.finfo(float).tiny)) & (areas <= area[1]) & (sides <= extent).all(axis=1)]
    starts = window[:2] + rng.integers(0, extent - sides, endpoint=True)
    return np.concatenate([starts, starts + sides], axis=1)


def pairwise_iou(patches: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Intersection over union [T, N] float64."""
    shared = intersection(patches, boxes)
    return shared / (areas_of(patches)[:, None] + areas_of(boxes) - shared)


def fraction_inside(boxes: np.ndarray, patches: np.ndarray) -> np.ndarray:
    """The fraction [T, N] float64 of each box's area that lies inside each patch; 0 for a box without area."""
    return intersection(patches, boxes) / np.maximum(areas_of(boxes), np.finfo(float).tiny)


def intersection(patches: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Shared area [T, N]."""
    height, width = (
        np.minimum(patches[:, None, axis + 2], boxes[:, axis + 2]) - np.maximum(patches[:, None, axis], boxes[:, axis])
        for axis in (0, 1)
    )
    return np.maximum(height, 0) * np.maximum(width, 0)


def areas_of(boxes: np.ndarray) -> np.ndarray:
    """Areas [N]."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def centre_inside(boxes: np.ndarray, patch: np.ndarray) -> np.ndarray:
    """A mask [N]: the box's centre lies in the patch or on its border, and their common part has an area."""
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside = ((centres >= patch[:2]) & (centres <= patch[2:])).all(axis=1)
    return inside & (intersection(patch[None], boxes)[0] > 0)
