"""From a net's outputs to detections: scores, per-class non-maximum suppression, the best of each image."""

import numpy as np
import tensorflow as tf

from ssd.boxes import clip_boxes, pairwise_iou
from ssd.encoding import decode


def detect(
    class_logits: tf.Tensor,
    box_offsets: tf.Tensor,
    anchors: np.ndarray | tf.Tensor,
    *,
    score_threshold: float,
    nms_threshold: float,
    top_k: int,
    keep_top_k: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The detections of a batch of images (arXiv:1512.02325, section 3; the rules of its Caffe release).

    Each anchor can be detected once for each class whose softmax score is above `score_threshold`. Of every class the
    `top_k` best go through non-maximum suppression, of the survivors of all classes the `keep_top_k` best remain. Boxes
    are clipped to the image after that, not before. Of equal scores the lower class, then the lower anchor comes first.

    Args:
        class_logits: [B, A, C], background at index 0; any float type, computed in float32.
        box_offsets: [B, A, 4] (cx, cy, w, h), scaled as by `ssd.encoding.encode`.
        anchors: float32 [A, 4] (cy, cx, h, w).
        score_threshold: a score must be above it.
        nms_threshold: a box goes if its IoU with a better one that stays is above it.
        top_k: candidates of one class of an image.
        keep_top_k: K, rows of the result.

    Returns:
        boxes: float32 [B, K, 4] (ymin, xmin, ymax, xmax) in [0, 1].
        scores: float32 [B, K], descending.
        labels: int64 [B, K], 1 to C - 1.
        count: int32 [B], detections of each image; the rows from there on are zeros.
    """
    scores = tf.nn.softmax(tf.cast(class_logits, tf.float32))[..., 1:]  # [B, A, C - 1]
    scores = tf.where(scores > score_threshold, scores, 0.0)
    top_scores, top_anchors = _top_k(tf.transpose(scores, [0, 2, 1]), top_k)  # [B, C - 1, T]
    boxes = tf.gather(decode(box_offsets, anchors), top_anchors, batch_dims=1)  # [B, C - 1, T, 4]
    kept = suppress(boxes, top_scores, nms_threshold=nms_threshold, max_kept=keep_top_k)
    return _best_of_image(boxes, tf.where(kept, top_scores, 0.0), keep_top_k)


def suppress(boxes: tf.Tensor, scores: tf.Tensor, *, nms_threshold: float, max_kept: int) -> tf.Tensor:
    """Greedy non-maximum suppression of many independent rows at once.

    Args:
        boxes: float32 [..., T, 4].
        scores: float32 [..., T], descending; 0 marks a place without a box.
        nms_threshold: a box goes if its IoU with a better one that stays is above it.
        max_kept: boxes to keep of a row at most.

    Returns:
        bool [..., T], true where the box stays.
    """

    def keep_best(turn: tf.Tensor, kept: tf.Tensor, alive: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        best = tf.argmax(tf.cast(alive, tf.int32), axis=-1)  # the first that is alive, as scores descend; 0 if none is
        is_best = alive & (tf.one_hot(best, tf.shape(alive)[-1], dtype=tf.int32) > 0)
        best_box = tf.gather(boxes, best[..., None], batch_dims=boxes.shape.rank - 2)  # [..., 1, 4]
        overlaps = pairwise_iou(best_box, boxes)[..., 0, :] > nms_threshold
        return turn + 1, kept | is_best, alive & ~overlaps & ~is_best

    def goes_on(turn: tf.Tensor, kept: tf.Tensor, alive: tf.Tensor) -> tf.Tensor:
        del kept
        return (turn < max_kept) & tf.reduce_any(alive)

    start = (tf.constant(0), tf.zeros_like(scores, tf.bool), scores > 0)
    _, kept, _ = tf.while_loop(goes_on, keep_best, start)
    return kept


def _best_of_image(boxes: tf.Tensor, scores: tf.Tensor, keep_top_k: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The highest scores above 0 over all classes, from [B, C - 1, T, 4] and [B, C - 1, T] to what `detect` returns."""
    _, num_classes, per_class = scores.shape
    num_places = num_classes * per_class
    scores, places = _top_k(tf.reshape(scores, [-1, num_places]), keep_top_k)  # [B, min(K, num_places)]
    boxes = tf.gather(tf.reshape(boxes, [-1, num_places, 4]), places, batch_dims=1)
    labels = tf.cast(places // per_class + 1, tf.int64)
    found = scores > 0
    missing = [[0, 0], [0, max(keep_top_k - num_places, 0)]]
    return (
        tf.pad(tf.where(found[..., None], clip_boxes(boxes), 0.0), [*missing, [0, 0]]),
        tf.pad(scores, missing),
        tf.pad(tf.where(found, labels, 0), missing),
        tf.reduce_sum(tf.cast(found, tf.int32), axis=1),
    )


def _top_k(values: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The k highest of the last axis, or all of them if there are fewer, with their places; of equals the first comes first."""
    return tf.math.top_k(values, min(k, values.shape[-1]))
