import math
import warnings

import numpy as np
import pytest

from ssd.metrics import (
    NO_OBJECT,
    Detections,
    GroundTruths,
    average_precision,
    best_objects,
    mean_over_classes,
    of_class,
    pixel_iou,
    voc_average_precision,
)
from tests import oracles

BOX = (10, 10, 49, 29)
FAR = (200, 200, 239, 219)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def both(detections, ground_truths):
    return [voc_average_precision(detections, ground_truths, eleven_point=kind) for kind in (True, False)]


def random_case(seed):
    """A few images of integer boxes on a coarse grid, so that ties, duplicates and IoUs of exactly .5 happen."""
    rng = np.random.default_rng(seed)

    def box():
        low = rng.integers(0, 12, 2)
        return (*low.tolist(), *(low + rng.integers(0, 8, 2)).tolist())

    names = [f"image {number}" for number in range(rng.integers(1, 5))]
    difficult_rate = rng.choice([0.0, 0.3])
    ground_truths = {name: [(box(), bool(rng.random() < difficult_rate)) for _ in range(rng.integers(0, 5))] for name in names}
    known = [(name, object_box) for name, objects in ground_truths.items() for object_box, _ in objects]
    detections = []
    for _ in range(rng.integers(0, 25)):
        near = known and rng.random() < 0.6
        name, base = known[rng.integers(len(known))] if near else (rng.choice([*names, "unlabelled"]).item(), box())
        moved = np.array(base) + rng.integers(-1, 2, 4)
        detections.append(
            (name, round(float(rng.random()), 1), (*moved[:2].tolist(), *np.maximum(moved[:2], moved[2:]).tolist()))
        )
    return detections, ground_truths


@pytest.mark.parametrize("eleven_point", [True, False])
def test_agrees_with_the_literal_rules(eleven_point):
    values = []
    for seed in range(600):
        detections, ground_truths = random_case(seed)
        value = voc_average_precision(detections, ground_truths, eleven_point=eleven_point)
        expected = oracles.voc_average_precision(detections, ground_truths, eleven_point=eleven_point)
        np.testing.assert_allclose(value, expected, atol=1e-12, err_msg=f"seed {seed}")
        values.append(value)
    known = np.array(values)[~np.isnan(values)]
    assert len(known) > 500
    assert np.count_nonzero((known > 0.1) & (known < 0.9)) > 200  # the cases are not all trivial


def test_right_wrong_right_of_two_objects():
    ground_truths = {"a": [(BOX, False)], "b": [(BOX, False)]}
    detections = [("a", 0.9, BOX), ("a", 0.8, FAR), ("b", 0.7, BOX)]
    assert both(detections, ground_truths) == pytest.approx([(6 + 5 * 2 / 3) / 11, (1 + 2 / 3) / 2])
    assert both(detections, ground_truths) == pytest.approx([0.8485, 0.8333], abs=5e-5)


def test_rank_is_by_score_not_by_order_given():
    ground_truths = {"a": [(BOX, False)]}
    assert both([("a", 0.2, FAR), ("a", 0.9, BOX)], ground_truths) == [1.0, 1.0]
    assert both([("a", 0.9, FAR), ("a", 0.2, BOX)], ground_truths) == [0.5, 0.5]


def test_equal_scores_keep_their_order():
    ground_truths = {"a": [(BOX, False)]}
    assert both([("a", 0.5, BOX), ("a", 0.5, FAR)], ground_truths) == [1.0, 1.0]
    assert both([("a", 0.5, FAR), ("a", 0.5, BOX)], ground_truths) == [0.5, 0.5]


def test_second_detection_of_an_object_is_wrong():
    ground_truths = {"a": [(BOX, False)], "b": [(BOX, False)]}
    detections = [("a", 0.9, BOX), ("a", 0.8, BOX), ("b", 0.7, BOX)]
    assert both(detections, ground_truths)[1] == pytest.approx((1 + 2 / 3) / 2)


def test_detection_is_held_to_its_best_object_only():
    """The second detection overlaps a free object by 7/13 too, but overlaps the taken one more."""
    objects = [((0, 0, 9, 9), False), ((0, 4, 9, 13), False)]
    detections = [("a", 0.9, (0, 0, 9, 9)), ("a", 0.8, (0, 1, 9, 10))]
    assert oracles.voc_pixel_iou(objects[1][0], detections[1][2]) == pytest.approx(7 / 13)
    assert both(detections, {"a": objects}) == pytest.approx([6 / 11, 0.5])


def test_difficult_objects_neither_count_nor_punish():
    ground_truths = {"a": [(BOX, True), (FAR, False)]}
    assert both([("a", 0.9, BOX), ("a", 0.8, BOX), ("a", 0.7, FAR)], ground_truths) == [1.0, 1.0]
    assert all(map(math.isnan, both([("a", 0.9, BOX)], {"a": [(BOX, True)]})))


def test_detections_in_images_without_objects_count():
    ground_truths = {"a": [(BOX, False)], "empty": []}
    assert both([("empty", 0.9, BOX), ("never seen", 0.8, BOX), ("a", 0.7, BOX)], ground_truths) == pytest.approx([1 / 3] * 2)


def test_no_objects_and_no_detections():
    assert all(map(math.isnan, both([], {})))
    assert all(map(math.isnan, both([("a", 0.9, BOX)], {"a": []})))
    assert both([], {"a": [(BOX, False)]}) == [0.0, 0.0]


@pytest.mark.parametrize("number", [1, 3, 7, 10, 49, 100])
def test_objects_as_detections_give_exactly_one(number):
    ground_truths = {image: [((y, 0, y + 9, 9), False) for y in range(0, 20 * image, 20)] for image in range(1, number + 1)}
    detections = [(image, 1.0, box) for image, objects in ground_truths.items() for box, _ in objects]
    assert both(detections, ground_truths) == [1.0, 1.0]


def test_recall_levels_are_exact():
    """3 of 10 objects reach recall .3, whatever 3 * .1 is in floats."""
    ground_truths = {image: [(BOX, False)] for image in range(10)}
    assert both([(image, 0.9, BOX) for image in range(3)], ground_truths) == pytest.approx([4 / 11, 0.3])


def test_iou_counts_the_last_pixel_and_half_is_enough():
    ten_by_ten, upper_half = (0, 0, 9, 9), (0, 0, 4, 9)
    assert pixel_iou(np.array([upper_half]), np.array([ten_by_ten])).tolist() == [0.5]
    assert both([("a", 0.9, upper_half)], {"a": [(ten_by_ten, False)]}) == [1.0, 1.0]
    assert both([("a", 0.9, (0, 0, 3, 9))], {"a": [(ten_by_ten, False)]}) == [0.0, 0.0]


def test_box_order_is_y_before_x():
    tall, wide = (0, 0, 99, 9), (0, 0, 9, 99)
    assert pixel_iou(np.array([tall]), np.array([(0, 0, 99, 19)])).tolist() == [0.5]
    assert both([("a", 0.9, wide)], {"a": [(tall, False)]}) == [0.0, 0.0]


def test_boxes_turned_inside_out_overlap_nothing():
    boxes = np.array([(9, 9, 0, 0), (9, 9, 8, 8)])
    assert pixel_iou(boxes, np.array([(0, 0, 9, 9)] * 2)).tolist() == [0.0, 0.0]
    assert pixel_iou(boxes, boxes).tolist() == [0.0, 0.0]


def test_best_object_is_the_first_of_equal_ones_of_the_same_image():
    objects = GroundTruths(
        images=np.array([1, 0, 1, 1]), boxes=np.array([FAR, BOX, BOX, BOX]), labels=np.ones(4, int), difficult=np.zeros(4, bool)
    )
    best, ious = best_objects(np.array([1, 0, 2, 0]), np.array([BOX, BOX, BOX, FAR]), objects)
    assert best.tolist() == [2, 1, NO_OBJECT, NO_OBJECT]
    assert ious.tolist() == [1.0, 1.0, 0.0, 0.0]


def test_of_class_keeps_rows_together():
    rows = Detections(np.array([0, 1, 2]), np.arange(12).reshape(3, 4), np.array([0.1, 0.2, 0.3]), np.array([2, 1, 2]))
    chosen = of_class(rows, 2)
    assert chosen.images.tolist() == [0, 2]
    assert chosen.boxes.tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert chosen.scores.tolist() == [0.1, 0.3]
    assert of_class(rows, 3).boxes.shape == (0, 4)


def test_mean_leaves_out_classes_without_a_value():
    assert mean_over_classes([1.0, float("nan"), 0.5]) == 0.75
    assert math.isnan(mean_over_classes([float("nan")]))
    assert math.isnan(mean_over_classes([]))


def test_average_precision_of_ranked_hits():
    assert average_precision(np.array([True, False, True]), 4, eleven_point=False) == pytest.approx((1 + 2 / 3) / 4)
    assert average_precision(np.zeros(0, bool), 4, eleven_point=True) == 0.0
