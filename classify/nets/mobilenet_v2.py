"""MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381), under the names of TF-slim's MobilenetV2."""

import tensorflow as tf
import tf_slim as slim

from classify.nets.layers import BATCH_NORM_DECAY, batch_norm
from engine.slim_net import ACTIVATIONS

# (expansion, channels, blocks, stride of the first block): t, c, n and s of the paper's table 2.
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
_INITIALIZER = tf.compat.v1.truncated_normal_initializer(stddev=0.09)


def is_decayed(name: str) -> bool:
    """As in TF-slim: a depthwise filter has nine weights a channel, too few to overfit with (arXiv:1704.04861, section 3.1)."""
    return name.endswith("/weights")


def mobilenet_v2(
    images: tf.Tensor, num_classes: int, is_training: bool, depth_multiplier: float = 1.0
) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
    """images [B, S, S, 3] in [-1, 1] -> class_logits [B, C] and no auxiliary ones."""
    net = mobilenet_v2_layers(images, is_training, depth_multiplier)["layer_19"]
    net = tf.reduce_mean(net, [1, 2], keepdims=True)  # [B, 1, 1, D]
    net = slim.dropout(net, 0.8, is_training=is_training)
    with tf.compat.v1.variable_scope("Logits"):
        class_logits = slim.conv2d(
            net,
            num_classes,
            1,
            activation_fn=None,
            weights_initializer=_INITIALIZER,
            outputs_collections=ACTIVATIONS,
            scope="Conv2d_1c_1x1",
        )
    return tf.squeeze(class_logits, [1, 2]), ()


def mobilenet_v2_layers(images: tf.Tensor, is_training: bool, depth_multiplier: float = 1.0) -> dict[str, tf.Tensor]:
    """images [B, H, W, 3] in [-1, 1] -> outputs [B, h, w, D] by TF-slim's names.

    layer_1 is the first convolution, layer_2 to layer_18 are the blocks, layer_19 is the last convolution. The map is
    halved by layer_1, 3, 5, 8 and 15. layer_N/expansion_output is block N before its depthwise convolution: a widened map
    of the size that enters the block, so layer_15's is the last one of stride 16.
    """

    def normalise(inputs: tf.Tensor) -> tf.Tensor:
        return batch_norm(inputs, is_training=is_training, decay=BATCH_NORM_DECAY, epsilon=0.001)

    layers = {}
    with slim.arg_scope(
        [slim.conv2d, slim.separable_conv2d],
        weights_initializer=_INITIALIZER,
        normalizer_fn=normalise,
        activation_fn=tf.nn.relu6,
        outputs_collections=ACTIVATIONS,
    ):
        net = layers["layer_1"] = slim.conv2d(images, _scaled(32, depth_multiplier), 3, stride=2, scope="Conv")
        for i, (expansion, channels, stride) in enumerate(_blocks()):
            with tf.compat.v1.variable_scope(f"expanded_conv_{i}" if i else "expanded_conv"):
                expanded, net = _block(net, expansion, _scaled(channels, depth_multiplier), stride)
            layers |= {f"layer_{i + 2}/expansion_output": expanded, f"layer_{i + 2}": net}
        # Narrow nets keep the paper's 1280 features.
        layers["layer_19"] = slim.conv2d(net, _scaled(1280, max(1.0, depth_multiplier)), 1, scope="Conv_1")
    return layers


def _blocks() -> list[tuple[int, int, int]]:
    """(expansion, channels, stride) of the 17 blocks."""
    return [(t, c, 1 if repeated else s) for t, c, n, s in _STAGES for repeated in range(n)]


def _block(net: tf.Tensor, expansion: int, channels: int, stride: int) -> tuple[tf.Tensor, tf.Tensor]:
    """An inverted residual with a linear bottleneck (the paper's figure 4): its expansion, and its output."""
    expanded = net
    if expansion > 1:
        expanded = slim.conv2d(net, expansion * net.shape[-1], 1, scope="expand")
    # Without a number of outputs slim's separable convolution ends after its depthwise half.
    filtered = slim.separable_conv2d(expanded, None, 3, depth_multiplier=1, stride=stride, scope="depthwise")
    outputs = slim.conv2d(filtered, channels, 1, activation_fn=None, scope="project")
    return expanded, net + outputs if net.shape == outputs.shape else outputs


def _scaled(channels: int, depth_multiplier: float) -> int:
    """The nearest multiple of 8, at least 8, that is not more than a tenth below channels * depth_multiplier."""
    wanted = channels * depth_multiplier
    nearest = max(8, int(wanted + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * wanted else nearest + 8
