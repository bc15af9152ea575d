"""Box geometry on tensors. Boxes are float32 (ymin, xmin, ymax, xmax) in [0, 1]; centre form is (cy, cx, h, w)."""

import tensorflow as tf


def yxyx_to_center(boxes: tf.Tensor) -> tf.Tensor:
    """Corners [..., 4] (ymin, xmin, ymax, xmax) to centre form [..., 4] (cy, cx, h, w)."""
    low, high = tf.split(boxes, 2, axis=-1)
    return tf.concat([(low + high) / 2, high - low], axis=-1)


def center_to_yxyx(centers: tf.Tensor) -> tf.Tensor:
    """Centre form [..., 4] (cy, cx, h, w) to corners [..., 4] (ymin, xmin, ymax, xmax)."""
    middle, size = tf.split(centers, 2, axis=-1)
    return tf.concat([middle - size / 2, middle + size / 2], axis=-1)


def clip_boxes(boxes: tf.Tensor) -> tf.Tensor:
    """Boxes [..., 4] cut to the image, that is to [0, 1]."""
    return tf.clip_by_value(boxes, 0.0, 1.0)


def pairwise_iou(boxes: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """Intersection over union of every box with every other.

    Args:
        boxes: [..., N, 4] corners.
        others: [..., M, 4] corners.

    Returns:
        [..., N, M] in [0, 1]; 0 where the two do not overlap and where both are without area.
    """
    ymin, xmin, ymax, xmax = (side[..., :, None] for side in tf.unstack(boxes, axis=-1))  # [..., N, 1]
    other_ymin, other_xmin, other_ymax, other_xmax = (side[..., None, :] for side in tf.unstack(others, axis=-1))
    height = tf.nn.relu(tf.minimum(ymax, other_ymax) - tf.maximum(ymin, other_ymin))  # [..., N, M]
    width = tf.nn.relu(tf.minimum(xmax, other_xmax) - tf.maximum(xmin, other_xmin))
    intersection = height * width
    area = (ymax - ymin) * (xmax - xmin)
    other_area = (other_ymax - other_ymin) * (other_xmax - other_xmin)
    return tf.math.divide_no_nan(intersection, area + other_area - intersection)
