"""VGG-16 (Simonyan & Zisserman 2014, arXiv:1409.1556, configuration D), under the names of TF-slim's vgg_16."""

import tensorflow as tf
import tf_slim as slim

# (name, convolutions, channels) of the five stages.
STAGES = (("conv1", 2, 64), ("conv2", 2, 128), ("conv3", 3, 256), ("conv4", 3, 512), ("conv5", 3, 512))


def vgg_16_stages(images: tf.Tensor) -> dict[str, tf.Tensor]:
    """images [B, H, W, 3], means subtracted -> the output of each stage before its pooling, by stage name.

    Stage i (from 0) is of size ceil(H / 2^i): pooling rounds up. conv5 is not pooled.
    """
    outputs, net = {}, images
    for name, convolutions, channels in STAGES:
        if outputs:
            net = slim.max_pool2d(net, 2, stride=2, padding="SAME", scope=f"pool{len(outputs)}")
        net = slim.repeat(net, convolutions, slim.conv2d, channels, 3, scope=name)
        outputs[name] = net
    return outputs
