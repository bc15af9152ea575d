"""The classifiers' loss."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from engine.loop import Batch
from engine.slim_net import SlimNet


def classification_losses(
    class_logits: tf.Tensor,
    auxiliary_logits: Sequence[tf.Tensor],
    labels: tf.Tensor,
    *,
    label_smoothing: float = 0.0,
    auxiliary_weight: float = 0.4,
    counts: dict[str, tf.Tensor] | None = None,
) -> dict[str, tf.Tensor]:
    """Mean cross-entropy of class_logits [B, C] with labels [B], and of each of the auxiliary logits, times a weight.

    With `counts`, those of a whole batch of which this is a part, the terms are the part's share of its means.

    label_smoothing: this part of the target is spread evenly over all classes (Szegedy et al. 2015, arXiv:1512.00567,
    section 7). The auxiliary heads' targets are smoothed as well.

    Returns:
        {"class_loss"} and, where there are auxiliary logits, "auxiliary_loss"; scalars, whose sum is minimised.
    """
    examples = tf.constant(labels.shape[0], tf.float32) if counts is None else counts["examples"]
    losses = {"class_loss": _cross_entropy(class_logits, labels, label_smoothing) / examples}
    if auxiliary_logits:
        terms = [_cross_entropy(logits, labels, label_smoothing) / examples for logits in auxiliary_logits]
        losses["auxiliary_loss"] = auxiliary_weight * tf.add_n(terms)
    return losses


def _cross_entropy(logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float) -> tf.Tensor:
    classes = logits.shape[1]
    targets = tf.one_hot(
        labels, classes, on_value=1 - label_smoothing + label_smoothing / classes, off_value=label_smoothing / classes
    )
    return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(targets, tf.cast(logits, tf.float32)))


def count_examples(batch: Batch) -> dict[str, tf.Tensor]:
    """What the terms are divided by: {"examples"}, a float32 scalar."""
    return {"examples": tf.constant(batch["label"].shape[0], tf.float32)}


def make_losses(
    net: SlimNet, normalise: Callable[[tf.Tensor], tf.Tensor], *, label_smoothing: float = 0.0, auxiliary_weight: float = 0.4
) -> Callable[..., dict[str, tf.Tensor]]:
    """The function from a batch {"image" [B, S, S, 3] in 0-255, "label" [B], ...} to the terms of its loss."""

    def losses(batch: Batch, *, is_training: bool = True, counts: dict[str, tf.Tensor] | None = None) -> dict[str, tf.Tensor]:
        class_logits, auxiliary_logits = net(normalise(batch["image"]), is_training=is_training)
        return classification_losses(
            class_logits,
            auxiliary_logits,
            batch["label"],
            label_smoothing=label_smoothing,
            auxiliary_weight=auxiliary_weight,
            counts=counts,
        )

    return losses
