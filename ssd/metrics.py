"""Pascal VOC average precision, by the rules of the VOC development kit (Everingham et al. 2010, section 4.2).

Boxes here are in pixels, (ymin, xmin, ymax, xmax), of any float or int type. As in the kit a box contains its last
pixel: side = max - min + 1. NaN stands for "no ground truth, hence no value" and never enters a mean. No TensorFlow.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

MATCH_IOU = 0.5
NO_OBJECT = -1


class Detections(NamedTuple):
    """Detections of a set of images, one row each; rows in any order."""

    images: np.ndarray  # [D] int, number of the image
    boxes: np.ndarray  # [D, 4]
    scores: np.ndarray  # [D] float
    labels: np.ndarray  # [D] int, 1 is the first class


class GroundTruths(NamedTuple):
    """Labelled objects of a set of images, one row each; rows in any order."""

    images: np.ndarray  # [G] int, number of the image
    boxes: np.ndarray  # [G, 4]
    labels: np.ndarray  # [G] int, 1 is the first class
    difficult: np.ndarray  # [G] bool


Rows = TypeVar("Rows", Detections, GroundTruths)


def of_class(rows: Rows, label: int) -> Rows:
    """Returns the rows of one class, in their order."""
    chosen = rows.labels == label
    return type(rows)(*(column[chosen] for column in rows))


def voc_average_precision(
    detections: Iterable[tuple[Hashable, float, Sequence[float]]],
    ground_truths: Mapping[Hashable, Sequence[tuple[Sequence[float], bool]]],
    *,
    eleven_point: bool,
) -> float:
    """Average precision of one class.

    Args:
      detections: (image, score, box) each, in any order. Images without ground truth count: what is detected there is wrong.
      ground_truths: image -> [(box, difficult)]. Boxes as above: pixels, (ymin, xmin, ymax, xmax).
      eleven_point: VOC 2007's mean over eleven recall levels; otherwise the area under the curve (VOC 2010 and later).

    Returns:
      A value in [0, 1]: NaN when there is no object that is not difficult, else 0 when there is no detection.
    """
    numbers = {image: number for number, image in enumerate(ground_truths)}
    objects = [(numbers[image], box, difficult) for image, rows in ground_truths.items() for box, difficult in rows]
    # Which image without objects it is does not matter: all of them get the number after the last.
    found = [(numbers.get(image, len(numbers)), score, box) for image, score, box in detections]
    truths = _one_class_ground_truths(objects)
    hits = rank_hits(_one_class_detections(found), truths)
    return average_precision(hits, num_counted(truths), eleven_point=eleven_point)


def _one_class_detections(rows: list[tuple[int, float, Sequence[float]]]) -> Detections:
    return Detections(
        images=np.array([image for image, _, _ in rows], np.int64),
        boxes=np.array([box for _, _, box in rows], np.float64).reshape(-1, 4),
        scores=np.array([score for _, score, _ in rows], np.float64),
        labels=np.ones(len(rows), np.int64),
    )


def _one_class_ground_truths(rows: list[tuple[int, Sequence[float], bool]]) -> GroundTruths:
    return GroundTruths(
        images=np.array([image for image, _, _ in rows], np.int64),
        boxes=np.array([box for _, box, _ in rows], np.float64).reshape(-1, 4),
        labels=np.ones(len(rows), np.int64),
        difficult=np.array([difficult for _, _, difficult in rows], bool),
    )


def num_counted(ground_truths: GroundTruths) -> int:
    """Returns how many objects count: difficult ones do not."""
    return int(np.count_nonzero(~ground_truths.difficult))


def rank_hits(detections: Detections, ground_truths: GroundTruths) -> np.ndarray:
    """Tells right from wrong detections of one class, best score first.

    A detection stands for the object it overlaps most, and for no other: with IoU >= .5 the first one of an object is
    right, each further one wrong. Detections of difficult objects are left out. Equal scores keep their given order.

    Returns:
      [R] bool in rank order, R <= D.
    """
    order = np.argsort(-detections.scores, kind="stable")
    best, ious = best_objects(detections.images[order], detections.boxes[order], ground_truths)
    matched = ious >= MATCH_IOU
    # The appended value is what NO_OBJECT, as an index, reads.
    ignored = matched & np.append(ground_truths.difficult, False)[best]
    rivals = np.flatnonzero(matched & ~ignored)
    _, first = np.unique(best[rivals], return_index=True)
    hits = np.zeros(len(order), bool)
    hits[rivals[first]] = True
    return hits[~ignored]


def best_objects(images: np.ndarray, boxes: np.ndarray, ground_truths: GroundTruths) -> tuple[np.ndarray, np.ndarray]:
    """Finds for each box [D, 4] the object of its image [D] with the largest IoU; of equal ones the first.

    Returns:
      Rows of `ground_truths` [D] int64, NO_OBJECT where nothing overlaps, and the IoUs [D] float64.
    """
    by_image = np.argsort(ground_truths.images, kind="stable")
    first = np.searchsorted(ground_truths.images[by_image], images, "left")
    num_objects = np.searchsorted(ground_truths.images[by_image], images, "right") - first
    best = np.full(len(images), NO_OBJECT, np.int64)
    best_ious = np.zeros(len(images))
    # The k-th object of every image at once: as many rounds as the fullest image has objects, whatever the set's size.
    for k in range(num_objects.max(initial=0)):
        rows = np.flatnonzero(num_objects > k)
        objects = by_image[first[rows] + k]
        ious = pixel_iou(boxes[rows], ground_truths.boxes[objects])
        better = ious > best_ious[rows]
        best[rows[better]] = objects[better]
        best_ious[rows[better]] = ious[better]
    return best, best_ious


def pixel_iou(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """IoU of boxes [N, 4] with others [N, 4], row by row, sides counted as max - min + 1. Returns [N] float64."""
    boxes, others = boxes.astype(np.float64), others.astype(np.float64)
    common = _areas(np.maximum(boxes[:, :2], others[:, :2]), np.minimum(boxes[:, 2:], others[:, 2:]))
    union = _areas(boxes[:, :2], boxes[:, 2:]) + _areas(others[:, :2], others[:, 2:]) - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def _areas(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    sides = np.maximum(high - low + 1.0, 0.0)
    return sides[:, 0] * sides[:, 1]


def average_precision(hits: np.ndarray, num_objects: int, *, eleven_point: bool) -> float:
    """Average precision of ranked hits [R] bool, as `rank_hits` gives them, among `num_objects` objects that count.

    The precision at a recall is the best one at that recall or a larger one. Recall levels are compared as whole
    numbers, tp * 10 >= k * num_objects: in floats 3 of 10 objects would miss the level 3 * .1.
    """
    if num_objects == 0:
        return float("nan")
    true_positives = np.cumsum(hits)
    precision = true_positives / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    if eleven_point:
        needed = (np.arange(11) * num_objects + 9) // 10
        reached = np.searchsorted(true_positives, needed)
        return float(np.append(envelope, 0.0)[reached].mean())
    # Recall grows by one object at each hit and nowhere else.
    return float(envelope[hits].sum() / num_objects)


def mean_over_classes(values: Iterable[float]) -> float:
    """Returns the mean of the values that are not NaN; NaN when there is none."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
