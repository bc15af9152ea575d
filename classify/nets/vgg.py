"""VGG-16 (Simonyan & Zisserman 2014, arXiv:1409.1556, configuration D), under the names of TF-slim's vgg_16."""

import tensorflow as tf
import tf_slim as slim

# (name, convolutions, channels) of the five stages.
STAGES = (("conv1", 2, 64), ("conv2", 2, 128), ("conv3", 3, 256), ("conv4", 3, 512), ("conv5", 3, 512))


# Trained from scratch, 13 rectified layers need He's variance of 2 / fan_in, or the signal dies on the way up. The first
# one also brings pixels, which spread over some 64 levels around their mean, to a scale of 1.
HE = slim.variance_scaling_initializer(factor=2.0, mode="FAN_IN", uniform=True)
_FROM_PIXELS = slim.variance_scaling_initializer(factor=2.0 / 64**2, mode="FAN_IN", uniform=True)


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
