"""A detector's detections on every picture of a split, beside what is there."""

from collections.abc import Callable

import numpy as np

from engine import pipelines
from engine.progress import progress
from ssd import input_pipeline, report
from ssd.dataset import Record, Split
from ssd.detector import Detector

# Average precision needs the many weak detections.
THRESHOLDS = {"score_threshold": 0.01, "nms_threshold": 0.45, "top_k": 400, "keep_top_k": 200}


def detect_split(
    detector: Detector,
    split: Split,
    *,
    batch_size: int,
    labels_offset: int,
    num_preprocessing_threads: int,
    look: Callable[[int, Record, np.ndarray, np.ndarray, np.ndarray], None] | None = None,
) -> report.Results:
    """Detects on every example of the split, each once.

    Args:
        batch_size: pictures at a time; the results do not depend on it.
        look: called for each example with its number, what its record says, and the boxes [D, 4] in [0, 1], scores [D] and
            labels [D] that were found.
    """
    batches = input_pipeline.evaluation_batches(
        split.records,
        image_size=detector.image_size,
        batch_size=batch_size,
        num_preprocessing_threads=num_preprocessing_threads,
    )
    results = report.Results()
    with progress(None, "evaluating", total=len(split.records), unit="picture") as bar:
        for batch in pipelines.iterate(batches):
            found = [tensor.numpy() for tensor in detector.detect(batch["image"])]
            for number, boxes, scores, labels, count in zip(batch["example"].numpy().tolist(), *found, strict=True):
                if number < 0:
                    continue
                truth = split.parse(number, num_classes=len(detector.class_names) + 1, labels_offset=labels_offset)
                detections = boxes[:count], scores[:count], labels[:count]
                add(results, truth, *detections)
                if look is not None:
                    look(number, truth, *detections)
                bar.update()
    return results


def add(results: report.Results, truth: Record, boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> None:
    """Adds an example's detections, boxes [D, 4] in [0, 1], in pixels of its picture."""
    to_pixels = np.array([truth.height, truth.width, truth.height, truth.width], np.float32)
    results.add(
        boxes=boxes * to_pixels,
        scores=scores,
        labels=labels,
        true_boxes=truth.boxes * to_pixels,
        true_labels=truth.labels,
        difficult=truth.difficult,
    )
