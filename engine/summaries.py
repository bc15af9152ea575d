"""What TensorBoard shows of a net beside the curves: histograms of its activations and of the loss's gradients."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from engine.distribution import first_copy
from engine.loop import Batch
from engine.run_log import RunLog
from engine.slim_net import SlimNet

# A handful of pictures tells enough, and keeps the cost far below that of a train step.
_PICTURES = 4


def make_look(
    net: SlimNet,
    normalise: Callable[[tf.Tensor], tf.Tensor],
    losses: Callable[..., dict[str, tf.Tensor]],
    trainable: dict[str, tf.Variable],
    run_log: RunLog,
) -> Callable[[Batch, int], tuple[Batch, Any]]:
    """A function (batch, step) that writes the histograms for a part of the batch.

    It returns that part and what the net returns for its pictures.
    """

    trainable = {name: first_copy(variable) for name, variable in trainable.items()}

    @tf.function(autograph=False)
    def look(batch: Batch) -> tuple[Any, dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        with tf.GradientTape() as tape:
            # In training mode a look would move the batch-norm statistics, and the run would depend on the clock.
            loss = tf.add_n(list(losses(batch, is_training=False).values()))
        gradients = tape.gradient(loss, trainable, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        outputs, activations = net.look_inside(normalise(batch["image"]))
        return outputs, activations, gradients

    def look_and_write(batch: Batch, step: int) -> tuple[Batch, Any]:
        part = {name: value[:_PICTURES] for name, value in batch.items()}
        outputs, activations, gradients = look(part)
        run_log.histograms(step, {f"activations/{name}": value for name, value in activations.items()})
        run_log.histograms(step, {f"gradients/{name}": value for name, value in gradients.items()})
        return part, outputs

    return look_and_write
