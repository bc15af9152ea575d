"""What sits on top of every backbone: scores and box offsets at each cell of each source."""

from collections.abc import Sequence

import tensorflow as tf
import tf_slim as slim


def multibox_heads(
    sources: Sequence[tuple[str, tf.Tensor]], kinds: Sequence[int], num_classes: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """One 3x3 convolution for class scores and one for box offsets on each source.

    Args:
        sources: (scope, [B, H, W, D]) of each source, in the order of the anchors' layers.
        kinds: anchors at a cell of each source.

    Returns:
        class_logits [B, A, C] and box_offsets [B, A, 4]; A in the order layer, row, column, kind.
    """
    class_logits, box_offsets = [], []
    for (scope, source), k in zip(sources, kinds, strict=True):
        with tf.compat.v1.variable_scope(scope):
            offsets = slim.conv2d(source, 4 * k, 3, activation_fn=None, normalizer_fn=None, scope="conv_loc")
            logits = slim.conv2d(source, num_classes * k, 3, activation_fn=None, normalizer_fn=None, scope="conv_cls")
        cells = source.shape[1] * source.shape[2]
        box_offsets.append(tf.reshape(offsets, [-1, cells * k, 4]))  # [B, H*W*K, 4]
        class_logits.append(tf.reshape(logits, [-1, cells * k, num_classes]))  # [B, H*W*K, C]
    return tf.concat(class_logits, axis=1), tf.concat(box_offsets, axis=1)
