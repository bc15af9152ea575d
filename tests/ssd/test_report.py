import json
import warnings

import numpy as np
import pytest

from engine.errors import UserError
from engine.files import write_json
from ssd.report import Results, compute_metrics, format_table

NAMES = ["RBC", "WBC", "猫"]
KINDS = ("voc2007", "voc2012", "coco", "coco50")
SETTINGS = {"score_threshold": 0.01, "nms_threshold": 0.45, "top_k": 400, "keep_top_k": 200}
BOX = (10.0, 20.0, 60.0, 80.0)
FAR = (200.0, 200.0, 290.0, 280.0)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def add(results, found=(), true=()):
    """found: (box, score, label) each; true: (box, label, difficult) each."""
    boxes, scores, labels = zip(*found, strict=True) if found else ((), (), ())
    true_boxes, true_labels, difficult = zip(*true, strict=True) if true else ((), (), ())
    results.add(
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        scores=np.array(scores, np.float32),
        labels=np.array(labels, np.int64),
        true_boxes=np.array(true_boxes, np.float32).reshape(-1, 4),
        true_labels=np.array(true_labels, np.int64),
        difficult=np.array(difficult, np.int64),
    )


def three_classes():
    """Class 1 found, class 2 missed, class 3 absent but detected; a last picture without objects."""
    results = Results()
    add(results, [(BOX, 0.9, 1), (FAR, 0.8, 3)], [(BOX, 1, 0), (FAR, 2, 0)])
    add(results, [(BOX, 0.7, 1)], [(BOX, 1, 1)])
    add(results)
    return results


def test_class_without_objects_is_none_and_not_in_the_mean():
    metrics = compute_metrics(three_classes(), NAMES)
    assert metrics == {
        "images": 3,
        "mAP": dict.fromkeys(KINDS, 0.5),
        "classes": {
            "RBC": {**dict.fromkeys(KINDS, 1.0), "ground_truths": 1, "detections": 2},
            "WBC": {**dict.fromkeys(KINDS, 0.0), "ground_truths": 1, "detections": 0},
            "猫": {**dict.fromkeys(KINDS), "ground_truths": 0, "detections": 1},
        },
    }


def test_nothing_at_all():
    metrics = compute_metrics(Results(), NAMES)
    assert metrics["images"] == 0
    assert metrics["mAP"] == dict.fromkeys(KINDS)
    assert metrics["classes"]["WBC"] == {**dict.fromkeys(KINDS), "ground_truths": 0, "detections": 0}
    assert "n/a" in format_table(metrics, SETTINGS)


def test_objects_as_detections_give_one_everywhere():
    rng = np.random.default_rng(0)
    results = Results()
    for number in range(20):
        low = rng.uniform(0, 300, (number % 7, 2))
        boxes = np.concatenate([low, low + rng.uniform(5, 100, low.shape)], axis=1)
        labels = rng.integers(1, 4, len(boxes))
        difficult = rng.random(len(boxes)) < 0.2
        results.add(
            boxes=boxes, scores=np.ones(len(boxes)), labels=labels, true_boxes=boxes, true_labels=labels, difficult=difficult
        )
    metrics = compute_metrics(results, NAMES)
    assert metrics["images"] == 20
    for row in (metrics["mAP"], *metrics["classes"].values()):
        assert [row[kind] for kind in KINDS] == [1.0] * 4
    counted = [row["ground_truths"] for row in metrics["classes"].values()]
    assert sum(counted) < sum(row["detections"] for row in metrics["classes"].values())


def test_wrong_detections_in_pictures_without_objects_count():
    results = Results()
    add(results, [(BOX, 0.9, 1)])
    add(results, [(BOX, 0.8, 1)], [(BOX, 1, 0)])
    assert compute_metrics(results, NAMES)["mAP"] == dict.fromkeys(KINDS, 0.5)


def test_padding_is_left_out():
    padded, plain = Results(), Results()
    nothing = (0.0, 0.0, 0.0, 0.0)
    add(padded, [(BOX, 0.9, 1), (nothing, 0.0, 0)], [(BOX, 1, 0), (nothing, 0, 0), (nothing, 0, 0)])
    add(padded, [(nothing, 0.0, 0)] * 3, [(nothing, 0, 0)] * 3)
    add(plain, [(BOX, 0.9, 1)], [(BOX, 1, 0)])
    add(plain)
    assert compute_metrics(padded, NAMES) == compute_metrics(plain, NAMES)
    assert padded.detections().boxes.tolist() == [list(BOX)]


def test_same_picture_twice_counts_twice():
    results = Results()
    for score in (0.9, 0.8):
        add(results, [(BOX, score, 1)], [(BOX, 1, 0)])
    metrics = compute_metrics(results, NAMES)
    assert (metrics["images"], metrics["classes"]["RBC"]["ground_truths"], metrics["mAP"]["voc2007"]) == (2, 2, 1.0)


def test_rows_are_kept_compactly_and_not_as_views():
    results = Results()
    boxes = np.array([BOX, FAR])
    results.add(
        boxes=boxes,
        scores=np.array([0.9, 0.8]),
        labels=np.array([1, 2]),
        true_boxes=boxes,
        true_labels=[1, 2],
        difficult=[0, 1],
    )
    boxes[:] = 0
    rows = results.detections()
    assert rows.boxes.tolist() == [list(BOX), list(FAR)]
    assert {column.dtype.itemsize for column in rows} == {4}
    assert results.ground_truths().difficult.tolist() == [False, True]


@pytest.mark.parametrize("kind", ["found", "true"])
def test_label_without_a_name_is_a_clear_error(kind):
    results = Results()
    add(results, **{kind: [(BOX, 0.9, 4) if kind == "found" else (BOX, 4, 0)]})
    with pytest.raises(UserError, match="label 4 has no class name: there are 3 classes"):
        compute_metrics(results, NAMES)


def test_table_shows_every_class_the_mean_and_the_settings():
    lines = format_table(compute_metrics(three_classes(), NAMES), SETTINGS).splitlines()
    head, _, red, white, cat, _, mean, settings = lines
    assert head.split() == ["class", "VOC", "2007", "VOC", "2012", "COCO", "AP", "AP50", "ground", "truths", "detections"]
    assert red.split() == ["RBC", "1.0000", "1.0000", "1.0000", "1.0000", "1", "2"]
    assert white.split() == ["WBC", "0.0000", "0.0000", "0.0000", "0.0000", "1", "0"]
    assert cat.split() == ["猫", "n/a", "n/a", "n/a", "n/a", "0", "1"]
    assert mean.split() == ["mean", "0.5000", "0.5000", "0.5000", "0.5000", "2", "3"]
    assert settings == "images 3, score_threshold 0.01, nms_threshold 0.45, top_k 400, keep_top_k 200"
    assert len({len(line) for line in (head, red, white, mean)}) == 1
    assert len(cat) == len(head) - 1  # the cat takes two columns


def test_json_survives_the_round_trip_in_utf8(tmp_path):
    metrics = compute_metrics(three_classes(), NAMES)
    path = tmp_path / "new" / "metrics.json"
    write_json(path, {"old": 1})
    write_json(path, metrics)
    assert json.loads(path.read_text(encoding="utf-8")) == metrics
    assert "猫" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["metrics.json"]
