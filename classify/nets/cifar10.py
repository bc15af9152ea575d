"""The net of TensorFlow's CIFAR-10 tutorial: two convolutions with local response normalisation (Krizhevsky et al. 2012,
section 3.3), two fully connected layers and a linear one. Names, shapes and initial values are the tutorial's."""

import tensorflow as tf
import tf_slim as slim

from engine.slim_net import ACTIVATIONS

IMAGE_SIZE = 24
# What the tutorial's L2 penalty applies to.
DECAYED = ("local3/weights", "local4/weights")


def cifar10(images: tf.Tensor, num_classes: int, is_training: bool) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
    """images [B, 24, 24, 3] standardised -> class_logits [B, C] and no auxiliary ones. Nothing depends on is_training."""
    with slim.arg_scope([slim.conv2d, slim.fully_connected], outputs_collections=ACTIVATIONS):
        net = slim.conv2d(images, 64, 5, weights_initializer=_normal(0.05), scope="conv1")  # 24x24
        net = slim.max_pool2d(net, 3, stride=2, padding="SAME", scope="pool1")  # 12x12
        net = _local_response_normalise(net)
        net = slim.conv2d(
            net, 64, 5, weights_initializer=_normal(0.05), biases_initializer=tf.constant_initializer(0.1), scope="conv2"
        )
        net = _local_response_normalise(net)
        net = slim.max_pool2d(net, 3, stride=2, padding="SAME", scope="pool2")  # 6x6
        net = tf.reshape(net, [-1, net.shape[1] * net.shape[2] * net.shape[3]])  # [B, 2304]
        for scope, width in (("local3", 384), ("local4", 192)):
            net = slim.fully_connected(
                net, width, weights_initializer=_normal(0.04), biases_initializer=tf.constant_initializer(0.1), scope=scope
            )
        class_logits = slim.fully_connected(
            net, num_classes, activation_fn=None, weights_initializer=_normal(1 / 192), scope="softmax_linear"
        )
    return class_logits, ()


def _normal(stddev: float) -> tf.compat.v1.truncated_normal_initializer:
    return tf.compat.v1.truncated_normal_initializer(stddev=stddev)


def _local_response_normalise(net: tf.Tensor) -> tf.Tensor:
    """x / (1 + alpha * sum of x^2 over the 9 channels around it)^.75, alpha = .001 / 9."""
    wide = tf.cast(net, tf.float32)
    wide = tf.nn.local_response_normalization(wide, depth_radius=4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)
    return tf.cast(wide, net.dtype)
