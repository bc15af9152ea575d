import numpy as np
import pytest
import tensorflow as tf

from classify.losses import classification_losses, count_examples

LOGITS = np.array([[2.0, 0.0, -1.0], [0.5, 0.5, 0.5]], np.float32)
LABELS = np.array([0, 2])


def by_hand(logits, targets):
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -(targets * log_probabilities).sum(axis=1).mean()


def test_mean_cross_entropy_by_hand():
    losses = classification_losses(LOGITS, (), LABELS)
    assert list(losses) == ["class_loss"]
    expected = (np.log(np.e**2 + 1 + np.e**-1) - 2 + np.log(3)) / 2
    assert float(losses["class_loss"]) == pytest.approx(expected, rel=1e-6)


def test_smoothing_spreads_part_of_the_target():
    losses = classification_losses(LOGITS, (), LABELS, label_smoothing=0.3)
    assert float(losses["class_loss"]) == pytest.approx(by_hand(LOGITS, np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])), rel=1e-6)


def test_auxiliary_logits_weigh_less():
    losses = classification_losses(LOGITS, (LOGITS, -LOGITS), LABELS, auxiliary_weight=0.4)
    expected = 0.4 * (by_hand(LOGITS, np.eye(3)[LABELS]) + by_hand(-LOGITS, np.eye(3)[LABELS]))
    assert float(losses["auxiliary_loss"]) == pytest.approx(expected, rel=1e-6)


def test_half_precision_logits_give_a_float32_loss():
    loss = classification_losses(tf.cast(LOGITS, tf.float16), (), LABELS)["class_loss"]
    assert loss.dtype == tf.float32


def test_parts_of_a_batch_add_up_to_the_whole():
    whole = classification_losses(LOGITS, (LOGITS,), LABELS, label_smoothing=0.1)
    rows = (slice(0, 1), slice(1, 2))
    counts = {"examples": sum(count_examples({"label": LABELS[row]})["examples"] for row in rows)}
    parts = [classification_losses(LOGITS[r], (LOGITS[r],), LABELS[r], label_smoothing=0.1, counts=counts) for r in rows]
    for name, value in whole.items():
        assert float(parts[0][name] + parts[1][name]) == pytest.approx(float(value), rel=1e-6)
