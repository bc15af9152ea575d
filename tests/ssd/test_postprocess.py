import functools

import numpy as np
import pytest
import tensorflow as tf

from ssd.anchors import SSD_300_VOC, make_anchors
from ssd.postprocess import detect
from tests import oracles

RULES = {"score_threshold": 0.01, "nms_threshold": 0.45, "top_k": 400, "keep_top_k": 200}
TIGHT = {"score_threshold": 0.2, "nms_threshold": 0.3, "top_k": 6, "keep_top_k": 8}
B, A, C = 2, 30, 4


@functools.cache
def traced_detect(**rules: float):
    signature = [tf.TensorSpec([None, A, C]), tf.TensorSpec([None, A, 4]), tf.TensorSpec([A, 4])]
    return tf.function(functools.partial(detect, **rules), input_signature=signature)


def centers_of(boxes: list[list[float]]) -> np.ndarray:
    """Anchors that stand exactly on the given (ymin, xmin, ymax, xmax)."""
    low, high = np.split(np.float32(boxes), 2, axis=1)
    return np.concatenate([(low + high) / 2, high - low], axis=1)


def detections_on(boxes: list[list[float]], scores: list[list[float]], **rules) -> tuple[list, list, list, int]:
    """What `detect` finds in one image whose anchors are `boxes`; `scores` [A, C - 1], the background takes the rest."""
    scores = np.array(scores, np.float64)
    logits = np.log(np.concatenate([1 - scores.sum(axis=1, keepdims=True), scores], axis=1)).astype(np.float32)
    found = detect(logits[None], np.zeros((1, len(boxes), 4)), centers_of(boxes), **{**RULES, **rules})
    count = int(found[3][0])
    return (*(result.numpy()[0, :count].tolist() for result in found[:3]), count)


def check_against_oracle(found, class_logits, box_offsets, anchors, **rules) -> int:
    boxes, scores, labels, count = (result.numpy() for result in found)
    assert boxes.shape == (len(class_logits), rules["keep_top_k"], 4)
    for b in range(len(class_logits)):
        expected = oracles.detect(class_logits[b], box_offsets[b], anchors, **rules)
        assert count[b] == len(expected)
        np.testing.assert_array_equal(labels[b, : count[b]], [label for _, label, _ in expected])
        np.testing.assert_allclose(scores[b, : count[b]], [score for score, _, _ in expected], atol=1e-6)
        np.testing.assert_allclose(
            boxes[b, : count[b]].reshape(-1, 4), np.reshape([b for *_, b in expected], (-1, 4)), atol=1e-5
        )
        assert not boxes[b, count[b] :].any()
        assert not scores[b, count[b] :].any()
        assert not labels[b, count[b] :].any()
    return int(count.sum())


# --- Hand-computed ---

ROW_OF_THREE = [[0, 0, 0.5, 0.5], [0, 0.125, 0.5, 0.625], [0, 0.25, 0.5, 0.75]]  # IoU .6 between neighbours, 1/3 at two steps


def test_suppressed_box_suppresses_nothing():
    boxes, scores, labels, count = detections_on(ROW_OF_THREE, [[0.9], [0.8], [0.7]])
    assert count == 2
    assert boxes == [ROW_OF_THREE[0], ROW_OF_THREE[2]]
    np.testing.assert_allclose(scores, [0.9, 0.7], atol=1e-6)
    assert labels == [1, 1]


def test_best_score_comes_first_whatever_its_anchor():
    boxes, scores, _, _ = detections_on(ROW_OF_THREE, [[0.7], [0.9], [0.8]])
    assert boxes == [ROW_OF_THREE[1]]
    np.testing.assert_allclose(scores, [0.9], atol=1e-6)


def test_classes_do_not_suppress_each_other():
    boxes, scores, labels, _ = detections_on(ROW_OF_THREE[:2], [[0.6, 0.3], [0.2, 0.7]])
    assert labels == [2, 1]
    np.testing.assert_allclose(scores, [0.7, 0.6], atol=1e-6)
    assert boxes == [ROW_OF_THREE[1], ROW_OF_THREE[0]]


def test_overlap_and_score_must_be_above_their_thresholds():
    halves = [[0, 0, 1, 1], [0, 0, 0.5, 1]]  # IoU exactly .5
    assert detections_on(halves, [[0.75], [0.6]], nms_threshold=0.5)[3] == 2
    assert detections_on(halves, [[0.75], [0.6]], nms_threshold=0.49)[3] == 1
    assert detections_on(halves, [[0.5], [0.5]], score_threshold=0.5, nms_threshold=1.0)[3] == 0


def test_boxes_are_clipped_after_suppression():
    """Clipped, the two are the same box; as predicted their IoU is 1/3."""
    boxes, _, _, _ = detections_on([[-1, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]], [[0.9], [0.8]])
    assert boxes == [[0, 0, 0.5, 0.5]] * 2


def test_equal_scores_keep_the_first_anchor():
    boxes, _, _, _ = detections_on(ROW_OF_THREE, [[0.5]] * 3)
    assert boxes == [ROW_OF_THREE[0], ROW_OF_THREE[2]]


def test_limits_per_class_and_per_image():
    apart = [[0.1 * k, 0, 0.1 * k + 0.05, 1] for k in range(8)]
    scores = [[0.1 + 0.05 * k, 0.45 - 0.05 * k] for k in range(8)]
    _, _, labels, count = detections_on(apart, scores, top_k=3)
    assert count == 6
    assert sorted(labels) == [1, 1, 1, 2, 2, 2]
    _, kept, _, count = detections_on(apart, scores, keep_top_k=5)
    assert count == 5
    np.testing.assert_allclose(kept, [0.45, 0.45, 0.4, 0.4, 0.35], atol=1e-6)


# --- Against the literal rules ---


@pytest.mark.parametrize("rules", [RULES, TIGHT], ids=["paper", "tight"])
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_random_images(rules, spread):
    rng = np.random.default_rng(0)
    total = 0
    for _ in range(30):
        anchors = np.concatenate([rng.uniform(0.2, 0.8, (A, 2)), rng.uniform(0.1, 0.6, (A, 2))], axis=1).astype(np.float32)
        logits = rng.normal(0, spread, (B, A, C)).astype(np.float32)
        offsets = rng.normal(0, 1, (B, A, 4)).astype(np.float32)
        found = traced_detect(**rules)(logits, offsets, anchors)
        total += check_against_oracle(found, logits, offsets, anchors, **rules)
    assert total > 200


@pytest.mark.parametrize("rules", [RULES, TIGHT], ids=["paper", "tight"])
def test_random_images_full_of_ties(rules):
    """All scores are 1, 1/2, 1/3 or 1/4, and so equal in any precision; corners lie on a grid of quarters."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        sides = np.sort(rng.integers(0, 5, (A, 2, 2)), axis=1) / 4
        sides[:, 1] += 0.25
        anchors = centers_of(sides.reshape(A, 4))
        logits = np.where(rng.uniform(size=(B, A, C)) < 0.5, 0, -1000).astype(np.float32)
        offsets = np.zeros((B, A, 4), np.float32)
        found = traced_detect(**rules)(logits, offsets, anchors)
        check_against_oracle(found, logits, offsets, anchors, **rules)


def test_real_size_compiled_and_traced():
    rng = np.random.default_rng(2)
    anchors = make_anchors(SSD_300_VOC)
    logits = rng.normal(0, 0.5, (1, 8732, 21)).astype(np.float32)
    logits[..., 0] += 9
    logits[0, rng.integers(0, 8732, 300), rng.integers(1, 21, 300)] += rng.uniform(6, 12, 300).astype(np.float32)
    offsets = rng.normal(0, 1, (1, 8732, 4)).astype(np.float32)
    for compiled in (False, True):
        run = tf.function(functools.partial(detect, anchors=anchors, **RULES), jit_compile=compiled)
        assert check_against_oracle(run(logits, offsets), logits, offsets, anchors, **RULES) > 50


# --- Nothing, types, hostile values ---


def test_nothing_found_gives_zeros():
    logits = np.zeros((2, A, C), np.float32)
    logits[..., 0] = 20
    found = detect(logits, np.zeros((2, A, 4)), np.full((A, 4), 0.5, np.float32), **RULES)
    assert [result.dtype for result in found] == [tf.float32, tf.float32, tf.int64, tf.int32]
    assert [tuple(result.shape) for result in found] == [(2, 200, 4), (2, 200), (2, 200), (2,)]
    assert not any(np.any(result) for result in found)


def test_half_precision_is_computed_in_float32():
    rng = np.random.default_rng(3)
    logits, offsets = (tf.cast(rng.normal(0, 2, (B, A, size)), tf.float16) for size in (C, 4))
    anchors = np.tile(np.float32([[0.5, 0.5, 0.3, 0.4]]), (A, 1))
    found = detect(logits, offsets, anchors, **RULES)
    assert check_against_oracle(found, logits.numpy(), offsets.numpy(), anchors, **RULES) > 0


@pytest.mark.parametrize("value", [1e4, 1e30, -1e30])
def test_huge_offsets_give_finite_detections(value):
    logits = np.random.default_rng(4).normal(size=(1, A, C)).astype(np.float32)
    anchors = np.tile(np.float32([[0.5, 0.5, 0.3, 0.4]]), (A, 1))
    boxes, scores, _, count = detect(logits, np.full((1, A, 4), value), anchors, **RULES)
    assert int(count[0]) > 0
    assert np.isfinite(boxes).all()
    assert np.isfinite(scores).all()
