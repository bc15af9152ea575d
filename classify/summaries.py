"""What TensorBoard shows beside the curves: the pictures as the net sees them, and histograms."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from classify import nets
from engine.loop import Batch
from engine.run_log import RunLog
from engine.slim_net import SlimNet
from engine.summaries import make_look


def make_summarise(
    net: SlimNet,
    losses: Callable[..., dict[str, tf.Tensor]],
    trainable: dict[str, tf.Variable],
    net_name: str,
    run_log: RunLog,
) -> Callable[[Batch, int], None]:
    """A function (batch, step) that writes pictures, and histograms of activations and gradients, of a part of the batch."""
    look = make_look(net, nets.find(net_name).normalise, losses, trainable, run_log)

    def summarise(batch: Batch, step: int) -> None:
        part, _ = look(batch, step)
        run_log.images(step, "images", np.clip(part["image"].numpy(), 0, 255).astype(np.uint8))

    return summarise
