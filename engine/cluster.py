"""Which devices and processes train together, from flags, TF_CONFIG or Slurm; mistakes in them are named at once."""

import json
import os
import socket
from collections.abc import Sequence

import tensorflow as tf

from engine.distribution import ONE_DEVICE, Replicas
from engine.errors import UserError
from engine.progress import say
from engine.train_flags import TrainFlags


def connect(config: TrainFlags) -> Replicas:
    """The replicas that the flags ask for. Called before TensorFlow has computed anything.

    Raises:
        UserError: there are fewer devices than clones, or the batch cannot be split over them.
    """
    if config.batch_size % config.num_clones:
        raise UserError(f"--batch_size={config.batch_size}: cannot be split evenly over {config.num_clones} replicas")
    replicas = _clones(config)
    if replicas.count > 1:
        say(f"{replicas.count} clones train in step, {config.batch_size // replicas.count} pictures each")
    return replicas


def _clones(config: TrainFlags) -> Replicas:
    """The devices of this machine alone."""
    if config.clone_on_cpu:
        tf.config.set_visible_devices([], "GPU")
    if config.num_clones == 1:
        return ONE_DEVICE
    if config.clone_on_cpu:
        kind = "CPU"
        _split_cpu(config.num_clones)
    else:
        kind = "GPU"
        if (found := len(tf.config.list_physical_devices("GPU"))) < config.num_clones:
            raise UserError(f"--num_clones={config.num_clones}: there are {found} GPUs; --clone_on_cpu takes the CPU")
    return Replicas(tf.distribute.MirroredStrategy([f"/{kind}:{i}" for i in range(config.num_clones)]))


def _split_cpu(parts: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * parts)
