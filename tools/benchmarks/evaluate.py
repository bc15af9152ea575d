"""Time that the numbers of an evaluation take, ours and pycocotools', on the same made-up detections."""

import time
from collections.abc import Callable

import numpy as np

from ssd.coco_metrics import coco_average_precision
from ssd.metrics import Detections, GroundTruths, average_precision, num_counted, of_class, rank_hits

IMAGE_SIZE = 500
OBJECTS_PER_PICTURE = 3


def benchmark_evaluate(pictures: int = 5000, detections: int = 200, classes: int = 20) -> dict[str, float]:
    """Times all numbers of all classes. Memory: about 1.5 kB for each detection of one class, at a time.

    Returns:
      Seconds: {"voc": VOC 2007 and VOC 2012 together, "coco": COCO AP and AP50 by pycocotools}.
    """
    found, objects = made_up_results(pictures, detections, classes, seed=0)
    pairs = [(of_class(found, label), of_class(objects, label)) for label in range(1, classes + 1)]
    return {"voc": _seconds(_voc, pairs), "coco": _seconds(coco_average_precision, pairs)}


def made_up_results(pictures: int, detections: int, classes: int, *, seed: int) -> tuple[Detections, GroundTruths]:
    """Makes a split's worth of results: objects anywhere, half of the detections close to one of their picture."""
    rng = np.random.default_rng(seed)
    images = np.repeat(np.arange(pictures), OBJECTS_PER_PICTURE)
    objects = GroundTruths(
        images, _boxes(rng, len(images)), rng.integers(1, classes + 1, len(images)), rng.random(len(images)) < 0.1
    )
    images = np.repeat(np.arange(pictures), detections)
    near = images * OBJECTS_PER_PICTURE + rng.integers(0, OBJECTS_PER_PICTURE, len(images))
    is_near = rng.random(len(images)) < 0.5
    boxes = np.where(is_near[:, None], objects.boxes[near] + rng.normal(0, 8, (len(images), 4)), _boxes(rng, len(images)))
    labels = np.where(is_near, objects.labels[near], rng.integers(1, classes + 1, len(images)))
    return Detections(images, boxes, rng.random(len(images)), labels), objects


def _boxes(rng: np.random.Generator, number: int) -> np.ndarray:
    corners = rng.uniform(0, 0.6 * IMAGE_SIZE, (number, 2))
    return np.concatenate([corners, corners + rng.uniform(0.1, 0.4, (number, 2)) * IMAGE_SIZE], axis=1)


def _voc(detections: Detections, ground_truths: GroundTruths) -> None:
    hits, num_objects = rank_hits(detections, ground_truths), num_counted(ground_truths)
    for eleven_point in (True, False):
        average_precision(hits, num_objects, eleven_point=eleven_point)


def _seconds(compute: Callable, pairs: list[tuple[Detections, GroundTruths]]) -> float:
    started = time.perf_counter()
    for detections, ground_truths in pairs:
        compute(detections, ground_truths)
    return time.perf_counter() - started
