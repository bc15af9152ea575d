"""Inception-v3 (Szegedy et al. 2015, arXiv:1512.00567): TF-slim's own net, with a batch normalisation that works today."""

import tensorflow as tf
import tf_slim as slim
from tf_slim.nets import inception

from classify.nets.layers import BATCH_NORM_DECAY, batch_norm
from engine.slim_net import ACTIVATIONS


def inception_v3(images: tf.Tensor, num_classes: int, is_training: bool) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
    """images [B, S, S, 3] in [-1, 1] -> class_logits [B, C], and ([B, C],) of the auxiliary classifier (section 4).

    It was made for S = 299; from S = 107 on it works. Below 299 the auxiliary classifier's kernel shrinks with its map.
    """

    def normalise(inputs: tf.Tensor) -> tf.Tensor:
        return batch_norm(inputs, is_training=is_training, decay=BATCH_NORM_DECAY, epsilon=0.001, scale=False)

    with slim.arg_scope(
        [slim.conv2d],
        weights_initializer=slim.variance_scaling_initializer(),
        normalizer_fn=normalise,
        outputs_collections=ACTIVATIONS,
    ):
        class_logits, end_points = inception.inception_v3(
            images,
            num_classes,
            is_training=is_training,
            spatial_squeeze=False,
            # The scope we are in already, which it would open again inside itself.
            scope=tf.compat.v1.get_variable_scope(),
        )
    # Where pictures are larger than 299, both are averaged over their positions.
    return tf.reduce_mean(class_logits, [1, 2]), (tf.reduce_mean(end_points["AuxLogits"], [1, 2]),)
