"""SSDLite on MobileNetV2 (arXiv:1801.04381, section 6.2): every 3x3 convolution above the backbone is a separable one.

The sources are, as in TensorFlow's object-detection models, the expansion of layer 15 (stride 16), layer 19 (stride 32) and
four maps above it. The backbone's variables have the names of TF-slim's MobilenetV2, so that its checkpoints fit.
"""

import tensorflow as tf
import tf_slim as slim

from classify.nets.layers import BATCH_NORM_DECAY, batch_norm
from classify.nets.mobilenet_v2 import mobilenet_v2_layers
from engine.checkpoints import StoredWeights
from engine.slim_net import ACTIVATIONS
from engine.warm_start import TakeOver
from ssd.anchors import AnchorSpec, ssd_layer
from ssd.nets.heads import multibox_heads

IMAGE_SIZE = 320
# MobileNetV2 takes pictures in [-1, 1]: less these means, over the same number.
MEANS = (127.5, 127.5, 127.5)

_MAPS = ((20, 16, (2, 3)), (10, 32, (2, 3)), (5, 64, (2, 3)), (3, 320 / 3, (2, 3)), (2, 160, (2,)), (1, 320, (2,)))
_EXTRA = (("extra_1", 512), ("extra_2", 256), ("extra_3", 256), ("extra_4", 128))
_BACKBONE = ("Conv", "expanded_conv")
_INITIALIZER = tf.compat.v1.truncated_normal_initializer(stddev=0.03)


def _anchors(sizes: tuple[int, ...]) -> AnchorSpec:
    rows = zip(_MAPS, sizes[:-1], sizes[1:], strict=True)
    return AnchorSpec(IMAGE_SIZE, tuple(ssd_layer(cells, step, low, high, ratios) for (cells, step, ratios), low, high in rows))


# Tenths of the picture, and SSD512's scales for COCO, which start smaller.
ANCHORS_VOC = _anchors((32, 80, 128, 176, 224, 272, 320))
ANCHORS_COCO = _anchors((22, 48, 106, 163, 221, 278, 336))


def ssd_320_mobilenet_v2(images: tf.Tensor, num_classes: int, is_training: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """images [B, 320, 320, 3] less the means -> class_logits [B, 3224, C], box_offsets [B, 3224, 4]."""

    def normalise(inputs: tf.Tensor) -> tf.Tensor:
        return batch_norm(inputs, is_training=is_training, decay=BATCH_NORM_DECAY)

    layers = mobilenet_v2_layers(images / MEANS[0], is_training)
    sources = [("layer_15_box", layers["layer_15/expansion_output"]), ("layer_19_box", layers["layer_19"])]
    with slim.arg_scope(
        [slim.conv2d, slim.separable_conv2d],
        weights_initializer=_INITIALIZER,
        normalizer_fn=normalise,
        activation_fn=tf.nn.relu6,
        outputs_collections=ACTIVATIONS,
    ):
        net = layers["layer_19"]
        for scope, channels in _EXTRA:
            with tf.compat.v1.variable_scope(scope):
                net = slim.conv2d(net, channels // 2, 1, scope="squeeze")
                net = slim.separable_conv2d(net, None, 3, depth_multiplier=1, stride=2, scope="depthwise")
                net = slim.conv2d(net, channels, 1, scope="expand")
            sources.append((f"{scope}_box", net))
        kinds = [len(layer.shapes) for layer in ANCHORS_VOC.layers]
        return multibox_heads(sources, kinds, num_classes, convolve=_separable)


def _separable(source: tf.Tensor, channels: int, scope: str) -> tf.Tensor:
    net = slim.separable_conv2d(source, None, 3, depth_multiplier=1, scope=f"{scope}_depthwise")
    return slim.conv2d(net, channels, 1, activation_fn=None, normalizer_fn=None, scope=scope)


def take_over(stored: StoredWeights, scope: str, name: str, shape: tuple[int, ...]) -> TakeOver | None:
    """The `TakeOverRule` for a classifier's checkpoint: its layers are read by their names, those above them start fresh."""
    del shape
    is_classifier = f"{scope}/Conv_1/weights" in stored.shapes and f"{scope}/layer_19_box/conv_cls/weights" not in stored.shapes
    return TakeOver("no layer of MobileNetV2", None) if is_classifier and not name.startswith(_BACKBONE) else None
