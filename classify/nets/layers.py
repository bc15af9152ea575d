"""Layers that TF-slim lacks on today's TensorFlow, in TF-slim's style and under its names."""

import tensorflow as tf
import tf_slim as slim

from engine import slim_net

# Of the moving statistics, which then are those of the last hundred steps or so. TF-slim's .997 and .9997 are for runs of
# hundreds of thousands of steps: after a thousand they still hold much of a net that is long gone.
BATCH_NORM_DECAY = 0.99
# Each replica moves its own copy within a step; the train step then makes the copies the same.
_ONE_FOR_EACH_REPLICA = {
    "synchronization": tf.VariableSynchronization.ON_READ,
    "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
}


def batch_norm(
    inputs: tf.Tensor,
    *,
    is_training: bool,
    decay: float,
    epsilon: float = 0.001,
    scale: bool = True,
) -> tf.Tensor:
    """Batch normalisation (Ioffe & Szegedy 2015) of inputs [B, H, W, C], like `slim.batch_norm`.

    Makes BatchNorm/{gamma, beta, moving_mean, moving_variance} [C], the names of TF-slim's checkpoints; without
    `scale` there is no gamma, and 1 in its place.
    In training the moving statistics are updated within the same step; the first batch's replace the initial values. A
    frozen layer is never in training.
    """
    channels = [inputs.shape[-1]]
    with tf.compat.v1.variable_scope("BatchNorm"):
        beta = slim.model_variable("beta", channels, initializer=tf.zeros_initializer())
        gamma = slim.model_variable("gamma", channels, initializer=tf.ones_initializer()) if scale else tf.ones(channels)
        statistics = [
            slim.model_variable(name, channels, initializer=initializer, trainable=False, **_ONE_FOR_EACH_REPLICA)
            for name, initializer in (("moving_mean", tf.zeros_initializer()), ("moving_variance", tf.ones_initializer()))
        ]
    if is_training and not slim_net.is_frozen(beta):
        outputs, *batch = tf.compat.v1.nn.fused_batch_norm(inputs, gamma, beta, epsilon=epsilon, is_training=True)
        mean, variance = statistics
        # The initial values say nothing of the data: in a run of a thousand steps what is left of a variance of 1 would
        # outweigh the true one, which can be a hundredth of that.
        rate = tf.where((mean == 0.0) & (variance == 1.0), 1.0, 1.0 - decay)  # [C]
        for moving, of_batch in zip(statistics, batch, strict=True):
            moving.assign_sub(rate * (moving - of_batch))
    else:
        mean, variance = statistics
        outputs, *_ = tf.compat.v1.nn.fused_batch_norm(
            inputs, gamma, beta, mean=mean, variance=variance, epsilon=epsilon, is_training=False
        )
    return outputs
