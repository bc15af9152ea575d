"""COCO average precision (Lin et al. 2014), computed by pycocotools itself.

A class is handed over alone: its numbers do not depend on other classes, and the mean over classes of AP is COCO's
overall AP. So the dictionaries that pycocotools works on exist for one class at a time. Only the parts of the
settings that these two numbers use are computed: all areas, at most 100 detections of a class and image.
"""

import contextlib
import io

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from ssd.metrics import Detections, GroundTruths

CATEGORY = 1
MAX_DETECTIONS = 100


def coco_average_precision(detections: Detections, ground_truths: GroundTruths) -> tuple[float, float]:
    """AP over the IoUs .5, .55, ... .95 and AP at IoU .5, of one class.

    Boxes are in pixels, (ymin, xmin, ymax, xmax), sides max - min (no + 1 here). Difficult objects are passed as crowd
    regions: they are not counted, and detections that match nothing else but lie in them are ignored.

    Returns:
      (AP, AP50), both NaN when there is no object that is not difficult.
    """
    image_ids = np.union1d(detections.images, ground_truths.images).tolist()
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its progress
        evaluation = COCOeval(
            _dataset(image_ids, _annotations(ground_truths, iscrowd=ground_truths.difficult.astype(int))),
            _dataset(image_ids, _annotations(detections, score=detections.scores.astype(float))),
            "bbox",
        )
        evaluation.params.maxDets = [MAX_DETECTIONS]
        evaluation.params.areaRng = evaluation.params.areaRng[:1]
        evaluation.evaluate()
        evaluation.accumulate()
    precision = evaluation.eval["precision"][:, :, 0, 0, 0]  # [10 IoUs, 101 recalls]
    if precision.max() < 0:  # pycocotools marks what has no value with -1
        return float("nan"), float("nan")
    return float(precision.mean()), float(precision[0].mean())


def _annotations(rows: Detections | GroundTruths, **columns: np.ndarray) -> list[dict]:
    """Rows as pycocotools' dictionaries. Ids start at 1: it reads id 0 as "not matched"."""
    ymin, xmin, ymax, xmax = rows.boxes.astype(np.float64).T
    heights, widths = ymax - ymin, xmax - xmin
    corners = np.stack([xmin, ymin, widths, heights], axis=1)
    names = ("id", "image_id", "category_id", "bbox", "area", *columns)
    values = (np.arange(1, len(corners) + 1), rows.images, np.full(len(corners), CATEGORY), corners, heights * widths)
    table = zip(*(column.tolist() for column in (*values, *columns.values())), strict=True)
    return [dict(zip(names, row, strict=True)) for row in table]


def _dataset(image_ids: list[int], annotations: list[dict]) -> COCO:
    coco = COCO()
    coco.dataset = {
        "images": [{"id": image_id} for image_id in image_ids],
        "categories": [{"id": CATEGORY}],
        "annotations": annotations,
    }
    coco.createIndex()
    return coco
