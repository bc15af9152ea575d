"""VGG-16 (Simonyan & Zisserman 2014, arXiv:1409.1556, configuration D), under the names of TF-slim's vgg_16."""

import tensorflow as tf
import tf_slim as slim

from engine.slim_net import ACTIVATIONS

# Of R, G and B, subtracted from pictures in 0-255.
IMAGENET_MEANS = (123.68, 116.779, 103.939)
# (name, convolutions, channels) of the five stages.
STAGES = (("conv1", 2, 64), ("conv2", 2, 128), ("conv3", 3, 256), ("conv4", 3, 512), ("conv5", 3, 512))

# Trained from scratch, 13 rectified layers need He's variance of 2 / fan_in, or the signal dies on the way up. The first
# one also brings pixels, which spread over some 64 levels around their mean, to a scale of 1.
HE = slim.variance_scaling_initializer(factor=2.0, mode="FAN_IN", uniform=True)
_FROM_PIXELS = slim.variance_scaling_initializer(factor=2.0 / 64**2, mode="FAN_IN", uniform=True)
# The poolings raise the signal some sevenfold up to fc8: small weights there let training start from even probabilities.
_SMALL = tf.compat.v1.truncated_normal_initializer(stddev=0.005)


def vgg_16_stages(images: tf.Tensor) -> dict[str, tf.Tensor]:
    """images [B, H, W, 3] in 0-255 less the means -> the output of each stage before its pooling, by stage name.

    Stage i (from 0) is of size ceil(H / 2^i): pooling rounds up. conv5 is not pooled.
    """
    outputs, net = {}, images
    for name, convolutions, channels in STAGES:
        if outputs:
            net = slim.max_pool2d(net, 2, stride=2, padding="SAME", scope=f"pool{len(outputs)}")
        for i in range(1, convolutions + 1):
            initializer = _FROM_PIXELS if net is images else HE
            net = slim.conv2d(net, channels, 3, weights_initializer=initializer, scope=f"{name}/{name}_{i}")
        outputs[name] = net
    return outputs


def vgg_16(images: tf.Tensor, num_classes: int, is_training: bool) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
    """images [B, S, S, 3] in 0-255 less the means -> class_logits [B, C] and no auxiliary ones.

    The fully connected layers are convolutions, averaged over their positions where pictures are larger than 224.
    In smaller ones fc6, made for a map of 7x7, sees zeros around the map.
    """
    with slim.arg_scope([slim.conv2d], outputs_collections=ACTIVATIONS):
        net = slim.max_pool2d(vgg_16_stages(images)["conv5"], 2, stride=2, padding="SAME", scope="pool5")
        net = _fc6(net)
        net = slim.dropout(net, 0.5, is_training=is_training, scope="dropout6")
        net = slim.conv2d(net, 4096, 1, weights_initializer=HE, scope="fc7")
        net = slim.dropout(net, 0.5, is_training=is_training, scope="dropout7")
        class_logits = slim.conv2d(net, num_classes, 1, activation_fn=None, weights_initializer=_SMALL, scope="fc8")
    return tf.reduce_mean(class_logits, [1, 2]), ()


def _fc6(net: tf.Tensor) -> tf.Tensor:
    """A convolution by 7x7; on a map smaller than that one that sees zeros around it, [B, h, w, C] -> [B, h, w, 4096]."""
    height, width, channels = net.shape[1:]
    # He's variance for the part of the kernel that lies on the map.
    factor = 2.0 * 49 / (min(7, height) * min(7, width))
    he = slim.variance_scaling_initializer(factor=factor, mode="FAN_IN", uniform=True)
    with tf.compat.v1.variable_scope("fc6"):
        weights = slim.model_variable("weights", [7, 7, channels, 4096], initializer=he)
        biases = slim.model_variable("biases", [4096], initializer=tf.zeros_initializer())
        if min(height, width) < 4:
            # The middle is all that ever meets the map. On 1x1 a CPU takes 0.15 s with it, 12 s with the whole.
            weights = weights[max(0, 4 - height) : 3 + height, max(0, 4 - width) : 3 + width]
        padding = "VALID" if min(height, width) >= 7 else "SAME"
        outputs = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(net, weights, 1, padding), biases))
    tf.compat.v1.add_to_collection(ACTIVATIONS, outputs)
    return outputs
