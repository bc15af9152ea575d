"""What sits on top of every backbone: scores and box offsets at each cell of each source."""

from collections.abc import Callable, Sequence

import tensorflow as tf
import tf_slim as slim


def multibox_heads(
    sources: Sequence[tuple[str, tf.Tensor]],
    kinds: Sequence[int],
    num_classes: int,
    convolve: Callable[[tf.Tensor, int, str], tf.Tensor] | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """One 3x3 convolution for class scores and one for box offsets on each source.

    Args:
        sources: (scope, [B, H, W, D]) of each source, in the order of the anchors' layers.
        kinds: anchors at a cell of each source.
        convolve: (source, channels, scope) -> [B, H, W, channels], in place of a plain 3x3 convolution.

    Returns:
        class_logits [B, A, C] and box_offsets [B, A, 4]; A in the order layer, row, column, kind.
    """
    convolve = convolve or _dense
    class_logits, box_offsets = [], []
    for (scope, source), k in zip(sources, kinds, strict=True):
        with tf.compat.v1.variable_scope(scope):
            offsets = convolve(source, 4 * k, "conv_loc")
            logits = convolve(source, num_classes * k, "conv_cls")
        cells = source.shape[1] * source.shape[2]
        box_offsets.append(tf.reshape(offsets, [-1, cells * k, 4]))  # [B, H*W*K, 4]
        class_logits.append(tf.reshape(logits, [-1, cells * k, num_classes]))  # [B, H*W*K, C]
    return tf.concat(class_logits, axis=1), tf.concat(box_offsets, axis=1)


def _dense(source: tf.Tensor, channels: int, scope: str) -> tf.Tensor:
    return slim.conv2d(source, channels, 3, activation_fn=None, scope=scope)
