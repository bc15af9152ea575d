"""SSD for pictures of 160x160: a small dense net with batch normalisation that learns from scratch in minutes on a CPU."""

import tensorflow as tf
import tf_slim as slim

from ssd.anchors import AnchorSpec, ssd_layer
from ssd.nets.heads import multibox_heads
from ssd.nets.layers import XAVIER, batch_norm_scope

IMAGE_SIZE = 160
ANCHORS = AnchorSpec(
    IMAGE_SIZE,
    (
        ssd_layer(20, 8, 16, 28, (2,)),
        ssd_layer(10, 16, 28, 48, (2, 3)),
        ssd_layer(5, 32, 48, 80, (2, 3)),
        ssd_layer(3, 53.3, 80, 112, (2,)),
        ssd_layer(1, 160, 112, 152, (2,)),
    ),
)


def ssd_tiny(images: tf.Tensor, num_classes: int, is_training: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """images [B, 160, 160, 3] -> class_logits [B, 2390, C], box_offsets [B, 2390, 4]."""
    with batch_norm_scope(is_training, decay=0.98):
        net = slim.conv2d(images / 64.0, 16, 3, stride=2, scope="conv1")  # 80x80
        net = slim.conv2d(net, 32, 3, stride=2, scope="conv2")  # 40x40
        net = slim.conv2d(net, 64, 3, stride=2, scope="conv3_1")  # 20x20
        stride_8 = slim.conv2d(net, 64, 3, scope="conv3_2")
        net = slim.conv2d(stride_8, 128, 3, stride=2, scope="conv4_1")  # 10x10
        stride_16 = slim.conv2d(net, 128, 3, scope="conv4_2")
        stride_32 = slim.conv2d(stride_16, 128, 3, stride=2, scope="conv5")  # 5x5
        stride_64 = slim.conv2d(stride_32, 128, 3, stride=2, scope="conv6")  # 3x3
        whole = slim.conv2d(stride_64, 128, 3, padding="VALID", scope="conv7")  # 1x1
    sources = (
        ("conv3_box", stride_8),
        ("conv4_box", stride_16),
        ("conv5_box", stride_32),
        ("conv6_box", stride_64),
        ("conv7_box", whole),
    )
    with slim.arg_scope([slim.conv2d], weights_initializer=XAVIER):
        return multibox_heads(sources, [len(layer.shapes) for layer in ANCHORS.layers], num_classes)
