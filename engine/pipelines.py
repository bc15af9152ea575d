"""Pieces of `tf.data` pipelines: the order of examples, Python functions in them, and their errors."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from engine.errors import UserError


class Share(NamedTuple):
    """The part of every batch that a process takes: the `index`-th of `count` equal ones."""

    index: int = 0
    count: int = 1

    def of(self, batch_size: int) -> int:
        """Its size."""
        return batch_size // self.count


WHOLE = Share()


def shuffled_examples(
    num_examples: int, *, seed: int, start: int, batch_size: int = 1, share: Share = WHOLE
) -> tf.data.Dataset:
    """The endless sequence of (epoch, example) from position `start` on: every epoch a fresh permutation.

    The permutation depends on (seed, epoch) alone and takes no memory. Of every `batch_size` examples the sequence holds
    those of `share`: together the shares are the sequence that there is without them.
    """
    size = share.of(batch_size)

    def at(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        position = start + number // size * batch_size + share.index * size + number % size
        epoch = position // num_examples
        key = tf.stack([tf.constant(seed, tf.int64), epoch])
        example = tf.random.experimental.index_shuffle(position % num_examples, key, num_examples - 1)
        return epoch, example

    return tf.data.Dataset.range(np.iinfo(np.int64).max).map(tf.autograph.experimental.do_not_convert(at))


def ordered_examples(num_examples: int, batch_size: int) -> tf.data.Dataset:
    """The numbers 0, 1, ..., each once, then -1 until the last batch is full: every batch has the same shape."""
    filled = -(-num_examples // batch_size) * batch_size
    numbers = np.arange(filled, dtype=np.int64)
    return tf.data.Dataset.from_tensor_slices(np.where(numbers < num_examples, numbers, -1))


def in_python(function: Callable, inputs: list[tf.Tensor], dtypes: Any) -> Any:
    """`function` as one step of a pipeline, called with numpy arrays, Python ints in place of integer scalars, and bytes."""

    def on_arrays(*arrays: Any) -> Any:
        return function(*(int(array) if np.ndim(array) == 0 and not isinstance(array, bytes) else array for array in arrays))

    return tf.numpy_function(on_arrays, inputs, dtypes, stateful=False)


def read_records(examples: tf.data.Dataset, read: Callable[[int], bytes], *, num_parallel_reads: int) -> tf.data.Dataset:
    """(epoch, example) -> (epoch, example, record), read by several threads, the order kept."""

    def with_record(epoch: tf.Tensor, example: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        record = in_python(read, [example], tf.string)
        return epoch, example, tf.ensure_shape(record, [])

    with_record = tf.autograph.experimental.do_not_convert(with_record)
    return examples.map(with_record, num_parallel_calls=num_parallel_reads, deterministic=True)


def iterate(batches: tf.data.Dataset) -> Iterator[dict[str, tf.Tensor]]:
    """The elements of a pipeline; what a Python function in it said when it failed comes out as a `UserError`."""
    iterator = iter(batches)
    while True:
        try:
            batch = next(iterator)
        except StopIteration:
            return
        except tf.errors.OpError as error:
            raise UserError(_reason_in(error)) from None
        yield batch


def _reason_in(error: tf.errors.OpError) -> str:
    """The text of a `UserError` that was raised inside the pipeline; else TensorFlow's first line."""
    lines = error.message.splitlines()
    raised = [line.partition("UserError: ")[2] for line in lines if "UserError: " in line]
    raised += [line.partition("ImageError: ")[2] for line in lines if "ImageError: " in line]
    return raised[0] if raised else lines[0]
