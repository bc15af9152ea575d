import contextlib
import io
import math
import warnings

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from ssd.coco_metrics import coco_average_precision
from ssd.metrics import Detections, GroundTruths, of_class
from tools.benchmarks.evaluate import made_up_results

BOX = (0, 0, 100, 100)
FAR = (300, 300, 400, 400)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def detections(*rows):
    images, scores, boxes = zip(*rows, strict=True) if rows else ((), (), ())
    return Detections(np.array(images, int), np.array(boxes, float).reshape(-1, 4), np.array(scores), np.ones(len(rows), int))


def objects(*rows):
    images, boxes, difficult = zip(*rows, strict=True) if rows else ((), (), ())
    return GroundTruths(
        np.array(images, int), np.array(boxes, float).reshape(-1, 4), np.ones(len(rows), int), np.array(difficult, bool)
    )


def test_iou_of_62_hundredths_passes_three_of_ten_thresholds():
    found = detections((0, 0.9, (0, 0, 62, 100)))
    assert coco_average_precision(found, objects((0, BOX, False))) == pytest.approx((0.3, 1.0))


def test_one_of_two_objects_fills_51_of_101_recalls():
    truths = objects((0, BOX, False), (1, BOX, False))
    assert coco_average_precision(detections((0, 0.9, BOX)), truths) == pytest.approx((51 / 101, 51 / 101))


def test_box_order_is_y_before_x():
    truths = objects((0, (0, 0, 100, 10), False))
    assert coco_average_precision(detections((0, 0.9, (0, 0, 60, 10))), truths)[1] == pytest.approx(1.0)
    assert coco_average_precision(detections((0, 0.9, (0, 0, 10, 60))), truths)[1] == 0.0


def test_difficult_objects_neither_count_nor_punish():
    truths = objects((0, BOX, True), (0, FAR, False))
    found = detections((0, 0.9, BOX), (0, 0.8, BOX), (0, 0.7, FAR))
    assert coco_average_precision(found, truths) == pytest.approx((1.0, 1.0))


def test_no_objects_give_no_value():
    for truths in (objects(), objects((0, BOX, True))):
        for found in (detections(), detections((0, 0.9, BOX))):
            assert all(map(math.isnan, coco_average_precision(found, truths)))


def test_no_detections_give_zero():
    assert coco_average_precision(detections(), objects((0, BOX, False))) == (0.0, 0.0)


def test_detections_in_images_without_objects_count():
    found = detections((5, 0.9, BOX), (0, 0.8, BOX))
    assert coco_average_precision(found, objects((0, BOX, False))) == pytest.approx((0.5, 0.5))


def test_prints_nothing(capfd):
    coco_average_precision(detections((0, 0.9, BOX)), objects((0, BOX, False)))
    assert capfd.readouterr() == ("", "")


def official_summary(found, truths, num_classes):
    """AP and AP50 as the tool's own summary of all classes at once, loaded the way its users load files."""

    def xywh(box):
        return [box[1], box[0], box[3] - box[1], box[2] - box[0]]

    coco = COCO()
    coco.dataset = {
        "images": [{"id": int(image)} for image in np.union1d(found.images, truths.images)],
        "categories": [{"id": label} for label in range(1, num_classes + 1)],
        "annotations": [
            {"id": n, "image_id": image, "category_id": label, "bbox": xywh(box), "area": 1000.0, "iscrowd": int(difficult)}
            for n, (image, box, label, difficult) in enumerate(zip(*(column.tolist() for column in truths), strict=True), 1)
        ],
    }
    coco.createIndex()
    rows = zip(*(column.tolist() for column in found), strict=True)
    loaded = coco.loadRes(
        [{"image_id": image, "category_id": label, "bbox": xywh(box), "score": score} for image, box, score, label in rows]
    )
    evaluation = COCOeval(coco, loaded, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation.stats[:2].tolist()


def test_mean_over_classes_is_the_official_summary():
    found, truths = made_up_results(pictures=30, detections=60, classes=4, seed=1)
    values = [coco_average_precision(of_class(found, label), of_class(truths, label)) for label in range(1, 5)]
    with contextlib.redirect_stdout(io.StringIO()):
        expected = official_summary(found, truths, num_classes=4)
    assert 0.1 < expected[0] < expected[1] < 0.95
    np.testing.assert_allclose(np.mean(values, axis=0), expected, atol=1e-12)
