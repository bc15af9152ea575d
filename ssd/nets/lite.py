"""A light SSD300 for CPUs that learns from scratch: dense, thin, normalised, its fine maps enriched from the coarse ones.

CPUs run a dense 3x3 convolution at three to five times the rate of a depthwise one. Small objects are found on the map of
stride 8, which alone sees little around them: it and the map of stride 16 get what the next coarser one knows, scaled up
and added (feature pyramid networks, arXiv:1612.03144).
"""

import tensorflow as tf
import tf_slim as slim

from ssd.anchors import SSD_300_VOC
from ssd.nets.heads import multibox_heads
from ssd.nets.layers import XAVIER, batch_norm_scope


def ssd_300_lite(images: tf.Tensor, num_classes: int, is_training: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """images [B, 300, 300, 3] -> class_logits [B, 8732, C], box_offsets [B, 8732, 4]; the maps are those of ssd_300_vgg."""
    with batch_norm_scope(is_training, decay=0.98):
        net = slim.conv2d(images / 64.0, 16, 3, stride=2, scope="conv1")  # 150x150
        net = slim.conv2d(net, 32, 3, stride=2, scope="conv2")  # 75x75
        net = slim.conv2d(net, 64, 3, stride=2, scope="conv3_1")  # 38x38
        stride_8 = slim.conv2d(net, 64, 3, scope="conv3_2")
        net = slim.conv2d(stride_8, 128, 3, stride=2, scope="conv4_1")  # 19x19
        net = slim.conv2d(net, 128, 3, scope="conv4_2")
        stride_16 = slim.conv2d(net, 128, 3, scope="conv4_3")
        net = slim.conv2d(stride_16, 256, 3, stride=2, scope="conv5_1")  # 10x10
        stride_32 = slim.conv2d(net, 256, 3, scope="conv5_2")
        stride_64 = slim.conv2d(stride_32, 128, 3, stride=2, scope="conv6")  # 5x5
        stride_100 = slim.conv2d(stride_64, 128, 3, stride=2, scope="conv7")  # 3x3
        whole = slim.conv2d(stride_100, 128, 3, padding="VALID", scope="conv8")  # 1x1
        stride_16 = _enriched(stride_16, stride_32, 128, "conv4_up")
        stride_8 = _enriched(stride_8, stride_16, 64, "conv3_up")
    sources = (
        ("conv3_box", stride_8),
        ("conv4_box", stride_16),
        ("conv5_box", stride_32),
        ("conv6_box", stride_64),
        ("conv7_box", stride_100),
        ("conv8_box", whole),
    )
    with slim.arg_scope([slim.conv2d], weights_initializer=XAVIER):
        return multibox_heads(sources, [len(layer.shapes) for layer in SSD_300_VOC.layers], num_classes)


def _enriched(fine: tf.Tensor, coarse: tf.Tensor, channels: int, scope: str) -> tf.Tensor:
    """fine [B, H, W, _], coarse [B, h, w, _] -> [B, H, W, channels]: both brought to `channels`, added, and convolved."""
    with tf.compat.v1.variable_scope(scope):
        # The rectification comes after the sum.
        with slim.arg_scope([slim.conv2d], activation_fn=None):
            coarse = slim.conv2d(coarse, channels, 1, scope="coarse")
            fine = slim.conv2d(fine, channels, 1, scope="fine")
        return slim.conv2d(tf.nn.relu(fine + _doubled(coarse, fine)), channels, 3, scope="both")


def _doubled(coarse: tf.Tensor, fine: tf.Tensor) -> tf.Tensor:
    """Each cell four times, cut to the height and width of `fine`: of an odd map the last row and column have half a cell."""
    _, height, width, channels = coarse.shape
    wide = tf.tile(coarse[:, :, None, :, None, :], [1, 1, 2, 1, 2, 1])  # [B, h, 2, w, 2, C]
    return tf.reshape(wide, [-1, 2 * height, 2 * width, channels])[:, : fine.shape[1], : fine.shape[2]]
