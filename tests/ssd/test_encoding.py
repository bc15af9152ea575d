import functools

import numpy as np
import pytest
import tensorflow as tf

from engine.errors import UserError
from ssd.anchors import SSD_300_VOC, SSD_512_COCO, make_anchors
from ssd.encoding import decode, encode
from tests import oracles

MATCHINGS = ["argmax", "bipartite"]
ANCHOR = np.float32([[0.5, 0.4, 0.2, 0.4]])


@functools.cache
def traced_encode(matching: str, threshold: float = 0.5):
    """One trace for any number of objects and anchors."""
    signature = [tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 4])]

    def run(boxes: tf.Tensor, labels: tf.Tensor, anchors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return encode(boxes, labels, anchors, matching=matching, match_threshold=threshold)

    return tf.function(run, input_signature=signature)


def encoded(boxes, labels, anchors, matching: str, threshold: float = 0.5) -> list[np.ndarray]:
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    results = traced_encode(matching, threshold)(boxes, np.asarray(labels, np.int64), anchors)
    return [result.numpy() for result in results]


def check_against_oracle(boxes, labels, anchors, matching: str, threshold: float = 0.5) -> np.ndarray:
    target_labels, target_offsets, target_ious = encoded(boxes, labels, anchors, matching, threshold)
    expected_labels, expected_offsets, expected_ious = oracles.encode(boxes, labels, anchors, matching, threshold)
    np.testing.assert_array_equal(target_labels, expected_labels)
    np.testing.assert_allclose(target_offsets, expected_offsets, atol=2e-3, rtol=1e-4)
    np.testing.assert_allclose(target_ious, expected_ious, atol=1e-6)
    return target_labels


def random_objects(rng: np.random.Generator, count: int, smallest: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    low = rng.uniform(0, 0.7, (count, 2))
    boxes = np.concatenate([low, np.minimum(low + rng.uniform(smallest, 0.5, (count, 2)), 1)], axis=1)
    return boxes.astype(np.float32), rng.integers(1, 21, count)


def random_anchors(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.concatenate([rng.uniform(0, 1, (count, 2)), rng.uniform(0.05, 0.6, (count, 2))], axis=1).astype(np.float32)


def with_padding(boxes: np.ndarray, labels: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    return np.pad(boxes, [(0, rows), (0, 0)]), np.pad(labels, (0, rows))


# --- Hand-computed ---


@pytest.mark.parametrize("matching", MATCHINGS)
def test_offsets_of_a_known_box(matching):
    box = [[0.36, 0.19, 0.66, 0.69]]  # center (.51, .44), .3 high, .5 wide; IoU .08 / .15
    labels, offsets, ious = encoded(box, [7], ANCHOR, matching)
    assert labels.tolist() == [7]
    np.testing.assert_allclose(offsets, [[1.0, 0.5, 1.115718, 2.027326]], atol=1e-4)  # (cx, cy, w, h)
    np.testing.assert_allclose(ious, [0.533333], atol=1e-6)


def test_known_offsets_decode_to_the_box():
    boxes = decode([[1.0, 0.5, 1.115718, 2.027326]], ANCHOR)
    np.testing.assert_allclose(boxes, [[0.36, 0.19, 0.66, 0.69]], atol=1e-6)


def test_threshold_is_reached_by_bipartite_and_must_be_passed_by_argmax():
    anchors = np.float32([[0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1]])
    box = [[0, 0, 0.5, 1]]  # IoU exactly .5
    assert encoded(box, [3], anchors, "argmax")[0].tolist() == [0, 0]
    assert encoded(box, [3], anchors, "bipartite")[0].tolist() == [3, 3]


def test_same_anchor_wanted_twice():
    """The better overlap wins the anchor, the other object takes its second choice although it is a poor one."""
    anchors = np.float32([[0.5, 0.5, 0.5, 0.5], [0.5, 0.75, 0.5, 0.5]])
    boxes = [[0.25, 0.25, 0.75, 0.625], [0.25, 0.25, 0.75, 0.75]]  # IoU .75 and 1 with the first anchor
    assert encoded(boxes, [1, 2], anchors, "bipartite")[0].tolist() == [2, 1]
    assert encoded(boxes, [1, 2], anchors, "argmax")[0].tolist() == [2, 0]


def test_bound_anchor_may_overlap_another_object_more():
    anchors = np.float32([[0.5, 0.5, 0.5, 0.5], [0.5, 0.75, 0.5, 0.5]])
    boxes = [[0.25, 0.25, 0.75, 0.5], [0.25, 0.25, 0.75, 0.75]]  # object 1 touches only the first anchor
    labels, _, ious = encoded(boxes, [1, 2], anchors, "bipartite")
    assert labels.tolist() == [2, 0]  # nothing is left for object 1
    np.testing.assert_allclose(ious, [1, 1 / 3], atol=1e-6)


# --- Against the literal rules ---


@pytest.mark.parametrize("matching", MATCHINGS)
@pytest.mark.parametrize("threshold", [0.5, 0.35])
def test_random_images(matching, threshold):
    rng = np.random.default_rng(2)
    positives = 0
    for _ in range(150):
        boxes, labels = random_objects(rng, int(rng.integers(0, 8)))
        boxes, labels = with_padding(boxes, labels, int(rng.integers(0, 4)))
        positives += np.count_nonzero(check_against_oracle(boxes, labels, random_anchors(rng, 40), matching, threshold))
    assert positives > 50


@pytest.mark.parametrize("matching", MATCHINGS)
def test_random_images_full_of_ties(matching):
    """Corners on a grid of eighths: equal overlaps are common, and exact in float32."""
    rng = np.random.default_rng(3)
    for _ in range(150):
        boxes = np.sort(rng.integers(0, 9, (int(rng.integers(1, 9)), 2, 2)), axis=1).reshape(-1, 4) / np.float32(8)
        sides = np.sort(rng.integers(0, 9, (30, 2, 2)), axis=1) / np.float32(8)
        sides[:, 1] += np.float32(1 / 8)
        anchors = np.concatenate([(sides[:, 0] + sides[:, 1]) / 2, sides[:, 1] - sides[:, 0]], axis=1)
        check_against_oracle(boxes, rng.integers(0, 4, len(boxes)), anchors, matching)


@pytest.mark.parametrize("matching", MATCHINGS)
@pytest.mark.parametrize("count", [0, 1, 4])
def test_real_anchors(matching, count):
    boxes, labels = with_padding(*random_objects(np.random.default_rng(count), count), 2)
    check_against_oracle(boxes, labels, make_anchors(SSD_300_VOC), matching)


@pytest.mark.parametrize("matching", MATCHINGS)
def test_hundred_objects_on_few_anchors(matching):
    rng = np.random.default_rng(5)
    boxes, labels = random_objects(rng, 100)
    check_against_oracle(boxes, labels, random_anchors(rng, 120), matching)


def test_more_objects_than_anchors():
    rng = np.random.default_rng(6)
    anchors = np.float32([[0.5, 0.5, 1, 1], [0.5, 0.5, 0.8, 0.9], [0.4, 0.5, 0.8, 0.8]])
    labels = check_against_oracle(*random_objects(rng, 9), anchors, "bipartite")
    assert (labels > 0).all()


# --- Properties ---


def test_every_object_gets_an_anchor():
    boxes, _ = random_objects(np.random.default_rng(7), 100, smallest=0.005)
    boxes[50:60] = boxes[:10]  # doubles want the same anchors
    labels, _, ious = encoded(boxes, np.arange(1, 101), make_anchors(SSD_300_VOC), "bipartite")
    assert set(labels[labels > 0]) == set(range(1, 101))
    assert np.count_nonzero((labels > 0) & (ious < 0.5)) <= 100  # below the threshold only one for each object


def test_small_object_has_its_best_anchor_only():
    boxes = np.float32([[100 / 563, 200 / 1000, 111 / 563, 209 / 1000]])  # 9 x 11 pixels
    anchors = make_anchors(SSD_300_VOC)
    assert not encoded(boxes, [1], anchors, "argmax")[0].any()
    labels, _, ious = encoded(boxes, [1], anchors, "bipartite")
    assert np.flatnonzero(labels).tolist() == [int(np.argmax(ious))]
    assert 0 < ious.max() < 0.5


@pytest.mark.parametrize("matching", MATCHINGS)
def test_first_of_identical_boxes_wins(matching):
    boxes = np.float32([[0.4, 0.2, 0.6, 0.6]] * 3)
    anchors = np.repeat(ANCHOR, 5, axis=0)
    labels, _, _ = encoded(boxes, [4, 5, 6], anchors, matching)
    assert labels.tolist() == ([4, 4, 4, 4, 4] if matching == "argmax" else [4, 5, 6, 4, 4])


@pytest.mark.parametrize("matching", MATCHINGS)
@pytest.mark.parametrize("threshold", [0.5, 0.0])
@pytest.mark.parametrize(
    ("boxes", "labels"),
    [
        ([], []),
        ([[0, 0, 0, 0]] * 3, [0, 0, 0]),
        ([[0.1, 0.1, 0.9, 0.9]], [0]),
        ([[0, 0, 0, 0]], [1]),
        ([[0.5, 0.5, 0.5, 0.5]], [1]),
        ([[0.6, 0.6, 0.4, 0.4]], [1]),
        ([[0.2, 0.3, 0.8, 0.3]], [1]),
        ([[np.nan, 0.1, 0.5, 0.5]], [1]),
        ([[0.1, 0.1, np.inf, 0.5]], [1]),
    ],
)
def test_rows_that_are_no_object(boxes, labels, matching, threshold):
    target_labels, target_offsets, target_ious = encoded(boxes, labels, make_anchors(SSD_300_VOC), matching, threshold)
    assert not target_labels.any()
    assert not target_offsets.any()
    assert not target_ious.any()


@pytest.mark.parametrize("matching", MATCHINGS)
def test_broken_rows_do_not_disturb_the_others(matching):
    rng = np.random.default_rng(8)
    boxes, labels = random_objects(rng, 5)
    anchors = random_anchors(rng, 60)
    plain = encoded(boxes, labels, anchors, matching)
    broken = np.float32([[0.6, 0.6, 0.4, 0.4], [np.nan] * 4])
    mixed = encoded(np.insert(boxes, [0, 3], broken, axis=0), np.insert(labels, [0, 3], [9, 9]), anchors, matching)
    for one, other in zip(plain, mixed, strict=True):
        np.testing.assert_array_equal(one, other)


def test_unknown_matching_is_the_users_mistake():
    with pytest.raises(UserError, match=r"'greedy'.*argmax, bipartite"):
        encode(tf.zeros([1, 4]), tf.zeros([1], tf.int64), ANCHOR, matching="greedy", match_threshold=0.5)


# --- Ways of running ---


@pytest.mark.parametrize(("matching", "count"), [("argmax", 3), ("bipartite", 0), ("bipartite", 3)])
def test_compiled_eager_and_traced_agree(matching, count):
    boxes, labels = with_padding(*random_objects(np.random.default_rng(9), count), count)
    anchors = make_anchors(SSD_300_VOC)
    run = functools.partial(encode, anchors=anchors, matching=matching, match_threshold=0.5)
    traced = encoded(boxes, labels, anchors, matching)
    for results in (run(boxes, labels), tf.function(run, jit_compile=True)(tf.constant(boxes), tf.constant(labels))):
        assert [result.dtype for result in results] == [tf.int64, tf.float32, tf.float32]
        for result, expected in zip(results, traced, strict=True):
            np.testing.assert_allclose(result, expected, atol=1e-3)


def test_inside_a_dataset_of_varying_numbers_of_objects():
    anchors = make_anchors(SSD_300_VOC)
    images = [random_objects(np.random.default_rng(seed), seed) for seed in range(4)]
    signature = (tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int32))
    dataset = tf.data.Dataset.from_generator(lambda: images, output_signature=signature)
    dataset = dataset.map(lambda boxes, labels: encode(boxes, labels, anchors, matching="bipartite", match_threshold=0.5))
    found = [np.unique(labels[labels > 0]).tolist() for labels, _, _ in dataset.as_numpy_iterator()]
    assert found == [np.unique(labels).tolist() for _, labels in images]


# --- Decoding ---


@pytest.mark.parametrize("spec", [SSD_300_VOC, SSD_512_COCO])
def test_decode_undoes_encode(spec):
    anchors = make_anchors(spec)
    boxes, _ = random_objects(np.random.default_rng(10), 40, smallest=0.004)
    labels, offsets, _ = encoded(boxes, np.arange(1, 41), anchors, "bipartite")
    positive = labels > 0
    np.testing.assert_allclose(decode(offsets, anchors).numpy()[positive], boxes[labels[positive] - 1], atol=1e-5)


def test_decode_of_zeros_is_the_anchors():
    anchors = make_anchors(SSD_300_VOC)
    boxes = decode(tf.zeros([2, 1, *anchors.shape], tf.float16), anchors)
    assert boxes.dtype == tf.float32
    expected = [oracles.corners(anchor) for anchor in anchors.tolist()]
    np.testing.assert_allclose(boxes, np.broadcast_to(expected, (2, 1, 8732, 4)), atol=1e-6)


def test_decode_against_the_literal_one():
    rng = np.random.default_rng(11)
    for _ in range(100):
        anchors = random_anchors(rng, 6)
        offsets = rng.normal(0, 3, (6, 4)).astype(np.float32)
        expected = [oracles.decode_one(*pair) for pair in zip(offsets.tolist(), anchors.tolist(), strict=True)]
        np.testing.assert_allclose(decode(offsets, anchors), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("value", [60.0, 1e4, 1e30, -60.0, -1e4, -1e30])
def test_huge_offsets_give_finite_boxes(value):
    anchors = make_anchors(SSD_300_VOC)
    assert np.isfinite(decode(tf.fill(anchors.shape, value), anchors)).all()
