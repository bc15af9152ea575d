"""How well a net's anchors fit the objects of a data set. No TensorFlow here."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ssd.anchors import AnchorLayer, AnchorSpec

# More pictures than this would not change what is told, and take longer to read.
SAMPLE = 2000
# Share of objects without an anchor from which on something should be done about it.
TOO_MANY = 0.02
# Pictures that are looked at together: enough for numpy, and crowds of objects still fit into memory.
_PICTURES_AT_A_TIME = 100


class Coverage(NamedTuple):
    """What anchors make of N objects.

    Attributes:
        best_ious: [N] float64, the highest IoU that each object has with an anchor.
        uncovered: [N] bool, whether that is below the threshold.
        num_near: pairs of a picture and an anchor whose IoU with one of its objects is at least the threshold.
    """

    best_ious: np.ndarray
    uncovered: np.ndarray
    num_near: int

    def is_poor(self) -> bool:
        """Whether so many objects are uncovered that other anchors are called for."""
        return bool(len(self.uncovered)) and self.uncovered.mean() > TOO_MANY

    def num_positives(self, *, every_object: bool) -> int:
        """Anchors that are trained to find an object, over all pictures.

        Args:
            every_object: one without an anchor at the threshold gets its best one all the same, as by the paper's matching.
                (Where several such objects want the same anchor each counts as having it.)
        """
        return self.num_near + every_object * np.count_nonzero(self.uncovered & (self.best_ious > 0))


def measure(spec: AnchorSpec, boxes: np.ndarray, pictures: np.ndarray, threshold: float) -> Coverage:
    """The coverage of objects by anchors.

    Args:
        spec: the anchors.
        boxes: [N, 4] (ymin, xmin, ymax, xmax) in [0, 1], with area.
        pictures: [N] number of each object's picture, not falling.
        threshold: IoU above 0.
    """
    sides = np.asarray(boxes, np.float64) * spec.image_size
    num_pictures = int(pictures[-1]) + 1 if len(pictures) else 0
    ends = np.searchsorted(pictures, np.arange(_PICTURES_AT_A_TIME, num_pictures, _PICTURES_AT_A_TIME))
    parts = zip(np.split(sides, ends), np.split(pictures, ends), strict=True)
    found = [_measure_some(spec, *part, threshold) for part in parts]
    best_ious = np.concatenate([ious for ious, _ in found])
    return Coverage(best_ious, best_ious < threshold, sum(num_near for _, num_near in found))


def sample_pictures(num_pictures: int) -> np.ndarray:
    """Numbers of pictures to measure a data set by: all, or `SAMPLE` of them from its beginning to its end."""
    return np.linspace(0, num_pictures - 1, min(num_pictures, SAMPLE)).astype(np.int64)


def describe(coverage: Coverage, name: str, *, threshold: float, every_object: bool, measured: int, num_pictures: int) -> str:
    """One line on how the anchors called `name` fit the objects in `measured` of `num_pictures` pictures."""
    sampled = f" ({measured:,} of {num_pictures:,} pictures looked at)" if measured < num_pictures else ""
    if not len(coverage.best_ious):
        return f"anchors: there are no objects for the set {name}{sampled}"
    positives = coverage.num_positives(every_object=every_object) / measured
    return (
        f"anchors: {100 * coverage.uncovered.mean():.1f} % of {len(coverage.best_ious):,} objects have no anchor at IoU"
        f" {shown_iou(threshold)} in the set {name}; {positives:.1f} positives a picture{sampled}"
    )


def shown_iou(value: float) -> str:
    """0.5 as .5"""
    return f"{value:g}".replace("0.", ".", 1)


def _measure_some(spec: AnchorSpec, boxes: np.ndarray, pictures: np.ndarray, threshold: float) -> tuple[np.ndarray, int]:
    """best_ious and num_near of boxes in pixels, all cells of a kind for all objects at once."""
    best_ious, num_near = np.zeros(len(boxes)), 0
    for layer in spec.layers:
        for heights, widths, area in _overlaps(layer, boxes):
            # Along each side the overlap depends on the row or the column alone, so the best cell has the best of both.
            common = heights.max(axis=1) * widths.max(axis=1)
            ious = common / (area - common)
            best_ious = np.maximum(best_ious, ious)
            near = ious >= threshold
            cells = heights[near, :, None] * widths[near, None, :]  # [n, map_size, map_size]
            # IoU >= t where common / (area - common) >= t.
            objects, rows, columns = np.nonzero(cells >= threshold * (area[near, None, None] - cells))
            anchors = (pictures[near][objects] * layer.map_size + rows) * layer.map_size + columns
            num_near += len(np.unique(anchors))  # an anchor near two objects of a picture counts once
    return best_ious, num_near


def _overlaps(layer: AnchorLayer, boxes: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each kind the heights [N, map_size] by which the anchors of each row overlap the boxes, the widths likewise of
    each column, and the areas [N] of box and anchor together."""
    ymin, xmin, ymax, xmax = boxes.T
    centers, areas = layer.centers(), (ymax - ymin) * (xmax - xmin)
    for height, width in layer.shapes:
        yield _common(ymin, ymax, centers, height), _common(xmin, xmax, centers, width), areas + height * width


def _common(low: np.ndarray, high: np.ndarray, centers: np.ndarray, length: float) -> np.ndarray:
    """How much of each span [N] lies within `length` around each centre [map_size]: [N, map_size]."""
    within = np.minimum(high[:, None], centers + length / 2) - np.maximum(low[:, None], centers - length / 2)
    return np.maximum(within, 0)
