import functools
import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from engine.errors import UserError
from ssd.losses import MININGS, NORMALIZERS, choose_highest, count_anchors, multibox_loss
from tests import oracles

FORMS = list(itertools.product(MININGS, NORMALIZERS))
PAPER = {"mining": "image", "normalizer": "positives"}
PLAIN = {}
TUNED = {"negative_ratio": 2.5, "min_negatives_per_image": 3, "loss_alpha": 0.5, "label_smoothing": 0.1}
TERMS = ["positive_loss", "negative_loss", "box_loss"]
B, A, C = 3, 16, 4


@functools.cache
def traced_loss(mining: str, normalizer: str, **options: float):
    """Terms and gradients of their sum, traced once for shapes (B, A, C)."""
    predictions = [tf.TensorSpec([None, None, C]), tf.TensorSpec([None, None, 4])]
    targets = [tf.TensorSpec([None, None], tf.int64), tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None])]

    def run(class_logits, box_offsets, *targets):
        with tf.GradientTape() as tape:
            tape.watch([class_logits, box_offsets])
            terms = multibox_loss(class_logits, box_offsets, *targets, mining=mining, normalizer=normalizer, **options)
            total = tf.add_n(list(terms.values()))
        return terms, tape.gradient(total, [class_logits, box_offsets])

    return tf.function(run, input_signature=[*predictions, *targets])


def random_batch(rng: np.random.Generator, shape=(B, A, C), share: float = 0.2) -> list[np.ndarray]:
    """Class logits, box offsets, target labels, offsets and IoUs; offsets and IoUs are sensible for positives only."""
    batch, anchors, classes = shape
    labels = np.where(rng.uniform(size=(batch, anchors)) < share, rng.integers(1, classes, (batch, anchors)), 0)
    ious = np.where(labels > 0, rng.uniform(0.3, 1, labels.shape), rng.uniform(0, 0.7, labels.shape))
    target_offsets = np.where(labels[..., None] > 0, rng.normal(0, 2, (batch, anchors, 4)), 0)
    logits, offsets = rng.normal(0, 2, shape), rng.normal(0, 1, (batch, anchors, 4))
    floats = [array.astype(np.float32) for array in (logits, offsets, target_offsets, ious)]
    return [*floats[:2], labels.astype(np.int64), *floats[2:]]


def check_terms(terms: dict[str, tf.Tensor], expected: dict[str, float]) -> None:
    assert list(terms) == TERMS
    for name, value in terms.items():
        assert value.dtype == tf.float32
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


def total_of(batch: list[np.ndarray], **options) -> float:
    return float(sum(multibox_loss(*batch, **options).values()))


# --- Hand-computed ---


@pytest.mark.parametrize(
    ("mining", "normalizer", "expected"),
    [
        ("image", "positives", [0.693147, 1.386294, 1.625]),  # ln 2, two candidates of three wanted, .125 + 1.5
        ("image", "count", [0.630134, 0.660140, 1.477273]),  # over 1.1, 2.1, 1.1
        ("batch", "positives", [0.693147, 2.079442, 1.625]),  # the anchor of IoU .6 is a negative as well
        ("batch", "count", [0.630134, 0.670788, 1.477273]),  # over 1.1, 3.1, 1.1
    ],
)
def test_known_loss(mining, normalizer, expected):
    logits = np.zeros((1, 4, 2), np.float32)
    offsets = np.zeros((1, 4, 4), np.float32)
    offsets[0, 1] = [0.5, -2, 0, 0]
    labels, ious = np.int64([[0, 1, 0, 0]]), np.float32([[0.1, 0.8, 0.6, 0.0]])
    terms = multibox_loss(logits, offsets, labels, np.zeros_like(offsets), ious, mining=mining, normalizer=normalizer)
    check_terms(terms, dict(zip(TERMS, expected, strict=True)))


def test_hardest_negatives_are_those_surest_of_an_object():
    """One positive, ratio 1: the one negative is the anchor with background probability .1, and costs -ln .1."""
    background = np.array([0.5, 0.9, 0.1, 0.4])
    logits = np.log(np.stack([background, 1 - background], axis=1))[None].astype(np.float32)
    labels, zeros = np.int64([[1, 0, 0, 0]]), np.zeros((1, 4, 4), np.float32)
    terms = multibox_loss(logits, zeros, labels, zeros, np.zeros((1, 4), np.float32), **PAPER, negative_ratio=1.0)
    assert float(terms["negative_loss"]) == pytest.approx(2.302585, abs=1e-5)


def test_label_smoothing_moves_weight_to_all_classes():
    logits = np.log(np.float32([[[0.2, 0.5, 0.3]]]))
    zeros = np.zeros((1, 1, 4), np.float32)
    terms = multibox_loss(logits, zeros, np.int64([[1]]), zeros, np.ones((1, 1), np.float32), **PAPER, label_smoothing=0.3)
    expected = -(0.1 * math.log(0.2) + 0.8 * math.log(0.5) + 0.1 * math.log(0.3))
    assert float(terms["positive_loss"]) == pytest.approx(expected, abs=1e-5)


# --- Against the literal rules ---


@pytest.mark.parametrize("options", [PLAIN, TUNED], ids=["plain", "tuned"])
@pytest.mark.parametrize(("mining", "normalizer"), FORMS)
def test_random_batches(mining, normalizer, options):
    rng = np.random.default_rng(0)
    for _ in range(30):
        batch = random_batch(rng, share=rng.choice([0.0, 0.05, 0.2, 0.6]))
        terms, _ = traced_loss(mining, normalizer, **options)(*batch)
        check_terms(terms, oracles.multibox_loss(*batch, mining=mining, normalizer=normalizer, **options))


@pytest.mark.parametrize(("mining", "normalizer"), FORMS)
def test_equally_hard_negatives_are_counted_exactly(mining, normalizer):
    rng = np.random.default_rng(1)
    for _ in range(20):
        batch = random_batch(rng, share=0.1)
        batch[0] = rng.integers(0, 2, batch[0].shape).astype(np.float32)
        terms, _ = traced_loss(mining, normalizer)(*batch)
        check_terms(terms, oracles.multibox_loss(*batch, mining=mining, normalizer=normalizer))


@pytest.mark.parametrize("options", [PLAIN, TUNED], ids=["plain", "tuned"])
@pytest.mark.parametrize(("mining", "normalizer"), FORMS)
def test_gradients_against_differences(mining, normalizer, options):
    """Central differences of the literal loss, in double precision, for every prediction of a small batch."""
    batch = random_batch(np.random.default_rng(2), (2, 5, C), share=0.3)
    _, gradients = traced_loss(mining, normalizer, **options)(*batch)
    for k in range(2):
        expected = np.zeros(batch[k].shape)
        for index in np.ndindex(expected.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [array.astype(np.float64) for array in batch[:2]] + batch[2:]
                moved[k][index] += step
                ends.append(sum(oracles.multibox_loss(*moved, mining=mining, normalizer=normalizer, **options).values()))
            expected[index] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(gradients[k], expected, atol=1e-5)


@pytest.mark.parametrize("mining", MININGS)
def test_compiled(mining):
    batch = random_batch(np.random.default_rng(3), (2, 2000, 6), share=0.004)
    options = {"mining": mining, "normalizer": "positives"}
    terms = tf.function(functools.partial(multibox_loss, **options), jit_compile=True)(*map(tf.constant, batch))
    expected = oracles.multibox_loss(*batch, **options)
    np.testing.assert_allclose([terms[name] for name in TERMS], [expected[name] for name in TERMS], rtol=1e-4)


# --- Empty images, scale, precision ---


@pytest.mark.parametrize(("mining", "normalizer"), FORMS)
@pytest.mark.parametrize("ious", [0.0, 0.6], ids=["background", "no_candidates"])
def test_batch_without_a_positive(mining, normalizer, ious):
    batch = random_batch(np.random.default_rng(4), share=0.0)
    batch[4][:] = ious
    for options in (PLAIN, TUNED):
        terms, gradients = traced_loss(mining, normalizer, **options)(*batch)
        assert all(np.isfinite(gradient).all() for gradient in gradients)
        assert float(terms["positive_loss"]) == float(terms["box_loss"]) == 0
        learns = mining == "batch" or (options is TUNED and ious < 0.5)
        assert (float(terms["negative_loss"]) > 0) == learns
        assert np.any(gradients[0]) == learns


def test_empty_image_in_the_batch_adds_only_the_minimum():
    rng = np.random.default_rng(5)
    full, empty = random_batch(rng, (1, A, C), share=0.4), random_batch(rng, (1, A, C), share=0.0)
    both = [np.concatenate(pair) for pair in zip(full, empty, strict=True)]
    assert total_of(both, **PAPER) == pytest.approx(total_of(full, **PAPER), rel=1e-5)
    assert total_of(both, **PAPER, min_negatives_per_image=3) > total_of(full, **PAPER, min_negatives_per_image=3)


def test_same_image_once_and_eight_times():
    batch = random_batch(np.random.default_rng(6), (1, 500, 21), share=0.02)
    eight = [np.repeat(array, 8, axis=0) for array in batch]
    for minimum in (0, 3):
        options = {**PAPER, "min_negatives_per_image": minimum}
        assert total_of(eight, **options) == pytest.approx(total_of(batch, **options), rel=1e-4)


@pytest.mark.parametrize("mining", MININGS)
def test_gradients_reach_chosen_anchors_only(mining):
    batch = random_batch(np.random.default_rng(7), share=0.1)
    _, (class_gradient, box_gradient) = traced_loss(mining, "positives")(*batch)
    positives = batch[2] > 0
    np.testing.assert_array_equal(np.any(box_gradient, axis=-1), positives)
    pulled = np.any(class_gradient, axis=-1)
    assert pulled[positives].all()
    negatives = 3 * positives.sum(axis=1) if mining == "image" else 3 * positives.sum() + B
    assert np.all((pulled & ~positives).sum(axis=1 if mining == "image" else None) == negatives)


def test_extreme_predictions_stay_finite():
    batch = random_batch(np.random.default_rng(8))
    batch[0] *= 1e4
    batch[1][:] = 1e30
    terms, gradients = traced_loss("image", "positives")(*batch)
    assert all(np.isfinite(value).all() for value in (*terms.values(), *gradients))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    batch = random_batch(np.random.default_rng(9), (2, 400, C))
    halves = [tf.cast(array, dtype) for array in batch[:2]]
    expected = multibox_loss(*[tf.cast(half, tf.float32) for half in halves], *batch[2:], **PAPER)
    check_terms(multibox_loss(*halves, *batch[2:], **PAPER), {name: float(value) for name, value in expected.items()})


def test_unknown_names_are_the_users_mistake():
    batch = random_batch(np.random.default_rng(10))
    with pytest.raises(UserError, match=r"mining: 'none'.*batch, image"):
        multibox_loss(*batch, mining="none", normalizer="count")
    with pytest.raises(UserError, match=r"normalizer: 'mean'.*count, positives"):
        multibox_loss(*batch, mining="batch", normalizer="mean")


# --- The choice of the highest ---


def test_choose_highest_against_sorting():
    rng = np.random.default_rng(11)
    choose = tf.function(
        choose_highest, input_signature=[tf.TensorSpec([4, 30]), tf.TensorSpec([4, 30], tf.bool), tf.TensorSpec([4], tf.int32)]
    )
    for scale in [0, 1, 3, 1e-30, 1e30] * 20:
        values = (rng.integers(0, 6, (4, 30)) * scale).astype(np.float32)
        candidates = rng.uniform(size=(4, 30)) < rng.choice([0, 0.5, 1])
        counts = rng.integers(0, 35, 4).astype(np.int32)
        expected = np.zeros((4, 30), bool)
        for row in range(4):
            order = [n for n in np.argsort(-values[row], kind="stable") if candidates[row, n]]
            expected[row, order[: counts[row]]] = True
        np.testing.assert_array_equal(choose(values, candidates, counts), expected)


def test_choose_highest_takes_minus_zero_for_zero():
    chosen = choose_highest(np.float32([[-0.0, 0.0, -0.0]]), np.ones((1, 3), bool), np.int32([2]))
    assert chosen.numpy().tolist() == [[True, True, False]]


# --- In parts ---


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_parts_of_a_batch_add_up_to_the_whole(normalizer, share):
    """Also where a part has no positive (padding alone), and where one has all of them."""
    batch = random_batch(np.random.default_rng(3), (4, A, C), share)
    batch[2][:2] = 0  # the first part is all background
    options = {"mining": "image", "normalizer": normalizer, **TUNED}
    rules = {"negative_ratio": 2.5, "min_negatives_per_image": 3}
    parts = [[array[:2] for array in batch], [array[2:] for array in batch]]
    counts = [count_anchors(part[2], part[4], **rules) for part in parts]
    total = {name: counts[0][name] + counts[1][name] for name in counts[0]}
    terms = [multibox_loss(*part, **options, counts=total) for part in parts]
    check_terms(
        {name: terms[0][name] + terms[1][name] for name in TERMS},
        {name: float(value) for name, value in multibox_loss(*batch, **options).items()},
    )


def test_counts_by_hand():
    labels = np.int64([[1, 2, 0, 0, 0], [0, 0, 0, 0, 0]])
    ious = np.float32([[0.9, 0.8, 0.6, 0.1, 0.0], [0.1, 0.2, 0.3, 0.7, 0.0]])
    counts = count_anchors(labels, ious, negative_ratio=3.0, min_negatives_per_image=3)
    # The first picture wants 6 negatives and has 2 candidates; the second wants 3 of 4.
    assert {name: float(value) for name, value in counts.items()} == {"positives": 2, "negatives": 2 + 3}
