"""SSD300 and SSD512 on the reduced VGG-16 (arXiv:1512.02325, section 3.1 and figure 2).

Names and shapes of the variables are those of the published TF-slim checkpoints, where the paper's conv6_1 and
conv6_2 are block8/conv1x1 and block8/conv3x3, and so on.
"""

from functools import partial

import tensorflow as tf
import tf_slim as slim

from classify.nets.layers import BATCH_NORM_DECAY, batch_norm
from classify.nets.vgg import HE, vgg_16_stages
from engine.slim_net import ACTIVATIONS
from ssd.nets.heads import multibox_heads

_NORM_SCALE, _NORM_EPSILON = 20.0, 1e-10
# Caffe's "xavier": uniform with variance 1 / fan_in, for every layer that VGG-16 does not have.
_XAVIER = slim.variance_scaling_initializer(factor=1.0, mode="FAN_IN", uniform=True)


def ssd_300_vgg(images: tf.Tensor, num_classes: int, is_training: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """images [B, 300, 300, 3] -> class_logits [B, 8732, C], box_offsets [B, 8732, 4]."""
    blocks = (("block8", 256, 512, 3, 2), ("block9", 128, 256, 3, 2), ("block10", 128, 256, 3, 1), ("block11", 128, 256, 3, 1))
    return _ssd_vgg(images, num_classes, blocks, kinds=(4, 6, 6, 6, 4, 4))


def ssd_300_vgg_bn(images: tf.Tensor, num_classes: int, is_training: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """ssd_300_vgg with batch normalisation after every convolution, the heads' included: it learns from scratch.

    ScratchDet (arXiv:1810.08425, section 3.1): normalised gradients allow learning rates ten times as high, with which a
    detector without pretraining comes to where the pretrained one does.
    """
    with slim.arg_scope([slim.conv2d], normalizer_fn=partial(batch_norm, is_training=is_training, decay=BATCH_NORM_DECAY)):
        return ssd_300_vgg(images, num_classes, is_training)


def ssd_512_vgg(images: tf.Tensor, num_classes: int, is_training: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """images [B, 512, 512, 3] -> class_logits [B, 24564, C], box_offsets [B, 24564, 4]."""
    blocks = (
        ("block8", 256, 512, 3, 2),
        ("block9", 128, 256, 3, 2),
        ("block10", 128, 256, 3, 2),
        ("block11", 128, 256, 3, 2),
        ("block12", 128, 256, 4, 1),
    )
    return _ssd_vgg(images, num_classes, blocks, kinds=(4, 6, 6, 6, 6, 4, 4))


def _ssd_vgg(
    images: tf.Tensor, num_classes: int, blocks: tuple[tuple[str, int, int, int, int], ...], kinds: tuple[int, ...]
) -> tuple[tf.Tensor, tf.Tensor]:
    """blocks: (scope, channels of the 1x1, channels, kernel and stride of the following convolution).

    No layer behaves differently in training, unless the caller's scope says so.
    """
    with slim.arg_scope([slim.conv2d], weights_initializer=_XAVIER, outputs_collections=ACTIVATIONS):
        stages = vgg_16_stages(images)
        net = slim.max_pool2d(stages["conv5"], 3, stride=1, padding="SAME", scope="pool5")
        net = slim.conv2d(net, 1024, 3, rate=6, weights_initializer=HE, scope="conv6")
        net = slim.conv2d(net, 1024, 1, weights_initializer=HE, scope="conv7")
        sources = [("block4_box", stages["conv4"]), ("block7_box", net)]
        for scope, squeezed, channels, kernel, stride in blocks:
            net = _block(net, scope, squeezed, channels, kernel, stride)
            sources.append((f"{scope}_box", net))
        sources[0] = ("block4_box", _l2_normalise(stages["conv4"], "block4_box"))
        return multibox_heads(sources, kinds, num_classes)


def _block(net: tf.Tensor, scope: str, squeezed: int, channels: int, kernel: int, stride: int) -> tf.Tensor:
    """A 1x1 convolution and one that shrinks the map: by stride 2, or by leaving out the padding."""
    with tf.compat.v1.variable_scope(scope):
        net = slim.conv2d(net, squeezed, 1, scope="conv1x1")
        if stride == 2 or kernel == 4:
            # Caffe pads one pixel on each side; TensorFlow's SAME would put both of an even map on one side.
            net = tf.pad(net, [[0, 0], [1, 1], [1, 1], [0, 0]])
        return slim.conv2d(net, channels, kernel, stride=stride, padding="VALID", scope=f"conv{kernel}x{kernel}")


def _l2_normalise(net: tf.Tensor, scope: str) -> tf.Tensor:
    """gamma * x / |x| over the channels of each position (ParseNet, arXiv:1506.04579); gamma starts at 20.

    conv4_3's activations are an order of magnitude larger than the other sources'.
    """
    with tf.compat.v1.variable_scope(scope), tf.compat.v1.variable_scope("L2Normalization"):
        gamma = slim.model_variable("gamma", [net.shape[-1]], initializer=tf.constant_initializer(_NORM_SCALE))
    squares = tf.reduce_sum(tf.square(net), axis=-1, keepdims=True)
    return gamma * net * tf.math.rsqrt(squares + _NORM_EPSILON)
