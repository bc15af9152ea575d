"""From objects to what each anchor should predict (`encode`), and from predictions back to boxes (`decode`)."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from engine.errors import UserError
from ssd.boxes import center_to_yxyx, pairwise_iou, yxyx_to_center

CENTER_SCALE = 0.1  # the variances of SSD's box coding
SIZE_SCALE = 0.2
MIN_BOUND_IOU = 1e-6  # an object that overlaps its best anchor no more than this stays without one
MAX_LOG_RATIO = 10.0  # a decoded side is at most exp(10) = 22,026 anchor sides: no real box comes near, no float overflows


def encode(
    boxes: tf.Tensor,
    labels: tf.Tensor,
    anchors: np.ndarray | tf.Tensor,
    *,
    matching: str,
    match_threshold: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The targets of every anchor for the objects of one image.

    `matching` decides which anchors are positive:

    - "bipartite", the paper's (section 2.2; ties as in its Caffe release): the best pair of a free object and a free
      anchor is bound, again and again, until no free pair overlaps by more than 1e-6; then each free anchor takes the
      object it overlaps most if their IoU is at least `match_threshold`. So every object that touches an anchor gets
      one, unless there are more objects than anchors. Ties: the lowest anchor, then the lowest object.
    - "argmax": each anchor takes the object it overlaps most (the first on ties) if their IoU is above
      `match_threshold`. Small objects may stay without an anchor.

    A row of `boxes` counts as an object if its label is above 0 and its height and width are finite and above 0;
    others, padding (label 0, a box of zeros) among them, have no effect. N may be 0 or unknown.

    Args:
        boxes: float32 [N, 4] (ymin, xmin, ymax, xmax) in [0, 1].
        labels: integer [N].
        anchors: float32 [A, 4] (cy, cx, h, w).
        matching: "argmax" or "bipartite".
        match_threshold: IoU in [0, 1].

    Returns:
        target_labels: int64 [A], 0 where the anchor is not positive.
        target_offsets: float32 [A, 4] (cx, cy, w, h) scaled by (.1, .1, .2, .2); zeros where the anchor is not positive.
        target_ious: float32 [A], the anchor's highest IoU with any object, positive or not (an anchor that was bound
            to one object may overlap another more).

    Raises:
        UserError: `matching` is unknown.
    """
    if matching not in MATCHERS:
        raise UserError(f"matching: {matching!r} is unknown, choose one of {', '.join(sorted(MATCHERS))}")
    anchors = tf.convert_to_tensor(anchors, tf.float32)
    boxes, labels = _with_empty_row(boxes, labels)
    ious = pairwise_iou(boxes, center_to_yxyx(anchors))  # [1 + N, A]
    nearest, target_ious = _nearest_objects(ious, labels)
    matches = MATCHERS[matching](ious, nearest, target_ious, match_threshold)  # [A]
    return tf.gather(labels, matches), _offsets(matches, yxyx_to_center(boxes), anchors), target_ious


def decode(box_offsets: tf.Tensor, anchors: np.ndarray | tf.Tensor) -> tf.Tensor:
    """Boxes of predicted offsets: the inverse of the coding in `encode`.

    Exact for boxes with sides up to exp(10) times their anchor's; larger ones are cut to that, so that any finite
    offsets give finite boxes.

    Args:
        box_offsets: [..., A, 4] (cx, cy, w, h), scaled; computed in float32 whatever their type.
        anchors: float32 [A, 4] (cy, cx, h, w).

    Returns:
        float32 [..., A, 4] (ymin, xmin, ymax, xmax), not clipped to the image.
    """
    dx, dy, dw, dh = tf.unstack(tf.cast(box_offsets, tf.float32), axis=-1)  # [..., A]
    cy, cx, height, width = tf.unstack(tf.convert_to_tensor(anchors, tf.float32), axis=-1)  # [A]
    centers = [
        cy + CENTER_SCALE * dy * height,
        cx + CENTER_SCALE * dx * width,
        tf.exp(tf.minimum(SIZE_SCALE * dh, MAX_LOG_RATIO)) * height,
        tf.exp(tf.minimum(SIZE_SCALE * dw, MAX_LOG_RATIO)) * width,
    ]
    return center_to_yxyx(tf.stack(centers, axis=-1))


def _offsets(matches: tf.Tensor, centers: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
    """Scaled offsets [A, 4] (cx, cy, w, h) from each anchor to its match, a row of `centers` [1 + N, 4]; zeros for row 0."""
    anchor_sides = tf.unstack(anchors, axis=-1)
    matched_sides = tf.unstack(tf.gather(centers, matches), axis=-1)
    anchor_cy, anchor_cx, anchor_height, anchor_width = anchor_sides
    cy, cx, height, width = (tf.where(matches > 0, *sides) for sides in zip(matched_sides, anchor_sides, strict=True))
    offsets = [
        (cx - anchor_cx) / anchor_width / CENTER_SCALE,
        (cy - anchor_cy) / anchor_height / CENTER_SCALE,
        tf.math.log(width / anchor_width) / SIZE_SCALE,
        tf.math.log(height / anchor_height) / SIZE_SCALE,
    ]
    return tf.stack(offsets, axis=-1)


def _with_empty_row(boxes: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Boxes [1 + N, 4] and labels [1 + N], all zeros in row 0, which stands for "no object", and in rows that are no object."""
    sizes = boxes[:, 2:] - boxes[:, :2]
    is_object = (labels > 0) & tf.reduce_all((sizes > 0) & tf.math.is_finite(sizes), axis=1)
    boxes = tf.where(is_object[:, None], boxes, 0.0)
    labels = tf.where(is_object, tf.cast(labels, tf.int64), 0)
    return tf.pad(boxes, [[1, 0], [0, 0]]), tf.pad(labels, [[1, 0]])


def _nearest_objects(ious: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """For every anchor the row of the object it overlaps most, the first on ties, 0 for none (int32 [A]), and that IoU [A]."""
    rows = tf.range(tf.shape(labels)[0])
    last_object = tf.reduce_max(tf.where(labels > 0, rows, 0))  # padding stands at the end and costs no turn

    def compare(row: tf.Tensor, nearest: tf.Tensor, best: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        iou = ious[row]
        return row + 1, tf.where(iou > best, row, nearest), tf.maximum(iou, best)

    start = (tf.constant(1), tf.zeros_like(ious[0], tf.int32), tf.zeros_like(ious[0]))
    _, nearest, best = tf.while_loop(lambda row, *_: row <= last_object, compare, start)
    return nearest, best


def _match_argmax(ious: tf.Tensor, nearest: tf.Tensor, nearest_iou: tf.Tensor, threshold: float) -> tf.Tensor:
    del ious  # only the bipartite rule looks at the other objects
    return tf.where(nearest_iou > threshold, nearest, 0)


def _match_bipartite(ious: tf.Tensor, nearest: tf.Tensor, nearest_iou: tf.Tensor, threshold: float) -> tf.Tensor:
    bound = _bind_objects(ious)
    return tf.where((bound == 0) & (nearest_iou >= threshold), nearest, bound)


MATCHERS: dict[str, Callable[..., tf.Tensor]] = {"argmax": _match_argmax, "bipartite": _match_bipartite}


def _bind_objects(ious: tf.Tensor) -> tf.Tensor:
    """Greedy one-to-one matching: the row bound to each anchor, 0 for none (int32 [A]).

    Each object remembers its favourite anchor. Every turn takes the object with the highest remembered IoU and binds
    it, or, if its favourite is gone, lets it look for another among the free ones. A remembered IoU is never below the
    true one, so the order is that of a search over all pairs, at [A] work a turn instead of [N, A]. On ties the lowest
    object chooses its lowest anchor; letting the lowest anchor choose its lowest object would end in the same pairs.
    """

    def turn(bound: tf.Tensor, favourite: tf.Tensor, best: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        _, row = _first_maximum(best)
        anchor = favourite[row]

        def bind() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            return _replace(bound, anchor, row), favourite, _replace(best, row, 0.0)

        def look_again() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            next_best, next_favourite = _first_maximum(tf.where(bound == 0, ious[row], 0.0))
            return bound, _replace(favourite, row, next_favourite), _replace(best, row, next_best)

        return tf.cond(bound[anchor] == 0, bind, look_again)

    best, favourite = _first_maximum(ious)  # [1 + N]
    start = (tf.zeros_like(ious[0], tf.int32), favourite, best)
    bound, _, _ = tf.while_loop(lambda bound, favourite, best: tf.reduce_max(best) > MIN_BOUND_IOU, turn, start)
    return bound


def _first_maximum(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Highest value along the last axis and its index (int32), the first on ties."""
    return tf.reduce_max(values, axis=-1), tf.argmax(values, axis=-1, output_type=tf.int32)


def _replace(vector: tf.Tensor, index: tf.Tensor, value: tf.Tensor | float) -> tf.Tensor:
    return tf.tensor_scatter_nd_update(vector, [[index]], [value])
