"""Three steps of a net with batch normalisation on two replicas; what came of it goes to an .npz file.

A command of its own, since the CPU can be split into logical devices only before TensorFlow has computed anything.
"""

import sys

import engine  # noqa: F401  before TensorFlow

# isort: split
import numpy as np
import tensorflow as tf
import tf_slim as slim

from classify.nets.layers import batch_norm
from engine import loop, optim
from engine.cluster import connect
from engine.optim import MovingAverages
from engine.slim_net import SlimNet
from engine.train_flags import TrainFlags
from engine.train_state import TrainState

DECAY = 0.75
STEPS, BATCH, SIZE = 3, 6, 4


def make_batches():
    rng = np.random.default_rng(0)
    images = rng.normal(1, 2, [STEPS, BATCH, SIZE, SIZE, 3]).astype(np.float32)
    return [{"image": tf.constant(each), "example": tf.range(BATCH, dtype=tf.int64)} for each in images]


def build(images, is_training):
    normalised = batch_norm(images, is_training=is_training, decay=DECAY)
    return slim.conv2d(normalised, 2, 1, scope="conv1", activation_fn=None)


def run(replicas, *, xla):
    """Every copy of every variable after the steps, and what was counted."""
    with replicas.scope():
        net = SlimNet("net", build, [SIZE, SIZE, 3])
        optimizer = optim.make_optimizer("sgd", 0.5)
        optimizer.build(list(net.trainable_by_name.values()))
        averages = MovingAverages(net.variables_by_name, 0.5)
    state = TrainState(net, net.trainable_by_name, optimizer, averages, {})

    def losses(batch, counts):
        return {"a": tf.reduce_sum(net(batch["image"], is_training=True)[..., 0]) / counts["pictures"]}

    def count(batch):
        return {"pictures": tf.constant(batch["image"].shape[0], tf.float32)}

    options = {"weight_decay": 0.0, "bias_learning_rate_factor": 1.0, "clip_gradient_norm": None}
    step = loop.make_train_step(state, losses, xla=xla, replicas=replicas, count=count, **options)
    for batch in make_batches():
        step(batch)
    found = {name: np.stack([copy.numpy() for copy in v.values]) for name, v in net.variables_by_name.items()}
    found |= {f"{name}/average": np.stack([copy.numpy() for copy in v.values]) for name, v in averages.averages.items()}
    told = {"step": int(state.step), "examples": int(state.examples), "traces": step.experimental_get_tracing_count()}
    return {**found, **told}


def main(plain_path, xla_path):
    replicas = connect(TrainFlags(num_clones=2, clone_on_cpu=True, batch_size=BATCH))
    np.savez(plain_path, **run(replicas, xla=False))
    np.savez(xla_path, **run(replicas, xla=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
