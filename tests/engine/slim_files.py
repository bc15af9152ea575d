"""Checkpoints as TF-slim leaves them, for tests."""

import tensorflow as tf


def write_slim(path, arrays):
    """A name-based checkpoint, as TF-slim writes them."""
    names = list(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(path),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(arrays[n]) for n in names],
    )
    return str(path)


def write_v1(path, arrays):
    """A single file, as TensorFlow wrote them before version 0.12."""
    names = list(arrays)
    tf.raw_ops.Save(filename=str(path), tensor_names=names, data=[tf.constant(arrays[n]) for n in names])
    return str(path)
