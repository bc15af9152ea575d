"""The multibox loss: class loss of positives and mined negatives, and box loss of positives (arXiv:1512.02325, eq. 1 to 3).

Positives are the anchors with a label above 0. The negatives are the candidates with the highest cross-entropy
against background, which is to say the lowest background probability; of equals the first in anchor order.

- mining "image" (the paper, section 2.2): in each image max(int(negative_ratio * positives), min_negatives_per_image)
  of the anchors that are not positive and overlap no object by .5 or more. The paper's minimum is 0: an image
  without a positive then adds nothing.
- mining "batch": over the whole batch int(negative_ratio * positives) + B of all anchors that are not positive.
  `min_negatives_per_image` plays no part, since the B extra ones already serve empty images.
- normalizer "positives" (eq. 1): every term is a sum divided by max(1, positives in the batch).
- normalizer "count": the two class terms are divided by the number of anchors in them + .1, the box term by
  positives + .1.

Everything is computed in float32, whatever the type of the predictions. Gradients reach the chosen anchors only.
"""

import tensorflow as tf

from engine.errors import UserError

MININGS = ("batch", "image")
NORMALIZERS = ("count", "positives")
NEGATIVE_MAX_IOU = 0.5  # an anchor that overlaps an object this much is no example of background
COUNT_OFFSET = 0.1  # keeps the mean of an empty term at 0


def multibox_loss(
    class_logits: tf.Tensor,
    box_offsets: tf.Tensor,
    target_labels: tf.Tensor,
    target_offsets: tf.Tensor,
    target_ious: tf.Tensor,
    *,
    mining: str,
    normalizer: str,
    negative_ratio: float = 3.0,
    min_negatives_per_image: int = 0,
    loss_alpha: float = 1.0,
    label_smoothing: float = 0.0,
    counts: dict[str, tf.Tensor] | None = None,
) -> dict[str, tf.Tensor]:
    """The three terms of the loss of one batch; what is minimised is their sum.

    The module's docstring tells what mining and normalizer do. A batch can be computed in parts, whose terms add up to the
    whole's: give each part the sums of the parts' `count_anchors` as `counts`. Not with mining "batch", which compares all
    anchors of the batch.

    Args:
        class_logits: [B, A, C], background at index 0.
        box_offsets: [B, A, 4] (cx, cy, w, h), scaled as by `ssd.encoding.encode`.
        target_labels: integer [B, A] in [0, C), 0 where not positive.
        target_offsets: float32 [B, A, 4].
        target_ious: float32 [B, A], highest IoU with any object.
        mining: "batch" or "image".
        normalizer: "count" or "positives".
        negative_ratio: negatives per positive.
        min_negatives_per_image: fewest negatives of an image, where it has that many candidates.
        loss_alpha: weight of the box term.
        label_smoothing: share of the class targets' weight that is spread evenly over all C classes.
        counts: of the whole batch, where this is a part of one.

    Returns:
        {"positive_loss", "negative_loss", "box_loss"}: float32 scalars.

    Raises:
        UserError: `mining` or `normalizer` is unknown.
    """
    _check_choice("mining", mining, MININGS)
    _check_choice("normalizer", normalizer, NORMALIZERS)
    class_logits = tf.cast(class_logits, tf.float32)
    positives = target_labels > 0  # [B, A]
    # Where an anchor is not positive its label is background, so one cross-entropy serves both the loss and the ranking.
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(target_labels, class_logits)  # [B, A]
    if mining == "image":
        negatives = _mine_images(cross_entropy, positives, target_ious, negative_ratio, min_negatives_per_image)
    else:
        negatives = _mine_batch(cross_entropy, positives, negative_ratio)
    class_loss = _smoothed(cross_entropy, class_logits, label_smoothing)
    counts = counts or {"positives": _size(positives), "negatives": _size(negatives)}
    of_positives = _divisor(normalizer, counts, "positives")
    return {
        "positive_loss": _masked_sum(class_loss, positives) / of_positives,
        "negative_loss": _masked_sum(class_loss, negatives) / _divisor(normalizer, counts, "negatives"),
        "box_loss": _masked_sum(loss_alpha * _smooth_l1(box_offsets, target_offsets, positives), positives) / of_positives,
    }


def count_anchors(
    target_labels: tf.Tensor, target_ious: tf.Tensor, *, negative_ratio: float, min_negatives_per_image: int
) -> dict[str, tf.Tensor]:
    """How many positives and, with mining "image", negatives `multibox_loss` will find: the targets alone decide it.

    Returns:
        {"positives", "negatives"}: float32 scalars.
    """
    positives = target_labels > 0
    candidates = _count(_candidates(positives, target_ious))
    negatives = tf.minimum(_wanted_negatives(positives, negative_ratio, min_negatives_per_image), candidates)
    return {"positives": _size(positives), "negatives": tf.cast(tf.reduce_sum(negatives), tf.float32)}


def choose_highest(values: tf.Tensor, candidates: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """In each row the `counts` highest candidates, or all of them where there are fewer; of equals the first.

    The lowest chosen value is found by bisection on its bits, which order like integers because no value is negative:
    31 counts over the row, exact, and on CPUs several times faster than the sort of long rows.

    Args:
        values: float32 [R, M], not negative.
        candidates: bool [R, M].
        counts: int32 [R].

    Returns:
        bool [R, M].
    """
    bits = tf.maximum(tf.bitcast(tf.stop_gradient(values), tf.int32), 0)  # minus zero has the sign bit set
    keys = tf.where(candidates, bits, -1)
    counts = tf.minimum(counts, _count(candidates))[:, None]

    def settle_bit(bit: tf.Tensor, threshold: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        raised = threshold + tf.bitwise.left_shift(1, bit)
        is_enough = _count(keys >= raised)[:, None] >= counts
        return bit - 1, tf.where(is_enough, raised, threshold)

    # Ends at the largest threshold that `counts` keys reach, which is the lowest chosen key.
    _, threshold = tf.while_loop(lambda bit, _: bit >= 0, settle_bit, (tf.constant(30), tf.zeros_like(counts)))
    above = keys > threshold
    equal = keys == threshold
    places = tf.cumsum(tf.cast(equal, tf.int32), axis=1)
    return above | (equal & (places <= counts - _count(above)[:, None]))


def _mine_images(
    cross_entropy: tf.Tensor, positives: tf.Tensor, target_ious: tf.Tensor, negative_ratio: float, fewest: int
) -> tf.Tensor:
    wanted = _wanted_negatives(positives, negative_ratio, fewest)
    return choose_highest(cross_entropy, _candidates(positives, target_ious), wanted)


def _candidates(positives: tf.Tensor, target_ious: tf.Tensor) -> tf.Tensor:
    return ~positives & (target_ious < NEGATIVE_MAX_IOU)


def _wanted_negatives(positives: tf.Tensor, negative_ratio: float, fewest: int) -> tf.Tensor:
    return tf.maximum(_scaled_count(positives, negative_ratio), fewest)  # [B]


def _mine_batch(cross_entropy: tf.Tensor, positives: tf.Tensor, negative_ratio: float) -> tf.Tensor:
    row = tf.reshape(positives, [1, -1])  # [1, B * A]
    wanted = _scaled_count(row, negative_ratio) + tf.shape(positives)[0]
    chosen = choose_highest(tf.reshape(cross_entropy, [1, -1]), ~row, wanted)
    return tf.reshape(chosen, tf.shape(positives))


def _smoothed(cross_entropy: tf.Tensor, class_logits: tf.Tensor, label_smoothing: float) -> tf.Tensor:
    if not label_smoothing:
        return cross_entropy
    uniform = tf.reduce_logsumexp(class_logits, axis=-1) - tf.reduce_mean(class_logits, axis=-1)
    return (1 - label_smoothing) * cross_entropy + label_smoothing * uniform


def _smooth_l1(box_offsets: tf.Tensor, target_offsets: tf.Tensor, positives: tf.Tensor) -> tf.Tensor:
    """[B, A], 0 where not positive: sum over the offsets of d^2 / 2 where |d| < 1, else |d| - 1/2 (Girshick 2015, eq. 3)."""
    difference = tf.abs(tf.cast(box_offsets, tf.float32) - target_offsets)
    difference = tf.where(positives[..., None], difference, 0.0)
    capped = tf.minimum(difference, 1.0)
    return tf.reduce_sum(capped * (difference - capped / 2), axis=-1)


def _masked_sum(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.where(mask, values, 0.0))


def _divisor(normalizer: str, counts: dict[str, tf.Tensor], counted: str) -> tf.Tensor:
    if normalizer == "positives":
        return tf.maximum(counts["positives"], 1.0)
    return counts[counted] + COUNT_OFFSET


def _size(mask: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(mask, tf.float32))


def _scaled_count(mask: tf.Tensor, ratio: float) -> tf.Tensor:
    """int(ratio * number of true values) of each row: int32 [R]."""
    return tf.cast(ratio * tf.cast(_count(mask), tf.float32), tf.int32)


def _count(mask: tf.Tensor) -> tf.Tensor:
    """Number of true values of each row: int32 [R]."""
    return tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"{name}: {value!r} is unknown, choose one of {', '.join(known)}")
