"""Convolutions with batch normalisation, for the nets that learn from scratch."""

from functools import partial

import tf_slim as slim

from classify.nets.layers import batch_norm
from engine.slim_net import ACTIVATIONS

HE = slim.variance_scaling_initializer(factor=2.0, mode="FAN_IN")
XAVIER = slim.variance_scaling_initializer(factor=1.0, mode="FAN_IN", uniform=True)


def batch_norm_scope(is_training: bool, *, decay: float) -> dict:
    """A slim scope in which `slim.conv2d` is a convolution, a batch normalisation and a ReLU.

    Its moving statistics are averages over some 1 / (1 - decay) steps; a run of a few hundred has no time for long ones.
    """
    return slim.arg_scope(
        [slim.conv2d],
        normalizer_fn=partial(batch_norm, is_training=is_training, decay=decay),
        weights_initializer=HE,
        biases_initializer=None,
        outputs_collections=ACTIVATIONS,
    )
