"""TFRecord files read by position, so that any order costs no memory.

A TFRecord is: length (uint64, little endian), its masked CRC (4 bytes), the bytes, their masked CRC (4 bytes).
Walking over the lengths alone gives every record's place in its file. With the places known, a shuffled epoch is
a permutation of numbers: perfectly shuffled, the same for any number of readers and workers, and resumed at any
position at once.
"""

import os
import pathlib
import struct
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from engine import staging, tfrecords
from engine.errors import UserError

_LENGTH = struct.Struct("<Q")
_BEFORE, _AFTER = 12, 4  # bytes around the payload


class RecordFiles:
    """The records of some files as one random-access sequence.

    Args:
        paths: the files, in order.

    Raises:
        UserError: a file cannot be read, or does not end where its last record ends.
    """

    def __init__(self, paths: Sequence[str | pathlib.Path]):
        self._paths = [str(path) for path in paths]
        places = [_places(path) for path in self._paths]
        self._file_of = np.repeat(np.arange(len(places)), [len(p) for p in places])
        self._places = np.concatenate(places) if places else np.zeros([0, 2], np.int64)
        self._open: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def read(self, index: int) -> bytes:
        """The payload of record `index`; safe to call from several threads.

        Raises:
            UserError: its checksum does not fit: the file was damaged after it was written.
        """
        file = int(self._file_of[index])
        if file not in self._open:
            # Two threads may both open it; the loser's descriptor stays open until the process ends.
            self._open.setdefault(file, os.open(self._paths[file], os.O_RDONLY))
        offset, length = (int(value) for value in self._places[index])
        data = os.pread(self._open[file], length + _AFTER, offset)
        record, checksum = data[:length], data[length:]
        if checksum != tfrecords.masked_crc(record).to_bytes(_AFTER, "little"):
            raise UserError(f"{self._paths[file]}: damaged at byte {offset} (wrong checksum); convert this split again")
        return record


def _places(path: str) -> np.ndarray:
    """[N, 2] int64: (offset, length) of every payload in the file."""
    places = []
    try:
        with open(path, "rb") as file:
            size, offset = os.fstat(file.fileno()).st_size, 0
            while offset < size:
                head = os.pread(file.fileno(), _LENGTH.size, offset)
                length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else size
                if offset + _BEFORE + length + _AFTER > size:
                    raise UserError(f"{path}: cut short, or no TFRecord file (at byte {offset}); convert this split again")
                places.append((offset + _BEFORE, length))
                offset += _BEFORE + length + _AFTER
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    return np.array(places, np.int64).reshape(-1, 2)


def find_shards(folder: str | pathlib.Path, name: str, split: str) -> list[pathlib.Path]:
    """The files `NAME_SPLIT_*.tfrecord` in a folder, in order.

    Raises:
        UserError: there are none; the pattern, the folder and what is there are named. Or their writing was interrupted.
    """
    folder = pathlib.Path(folder)
    if staging.is_interrupted(folder, name):
        raise UserError(f"{folder}: the conversion of {name} was interrupted while it replaced files; run it again")
    shards = tfrecords.shard_names(folder, f"{name}_{split}")
    if not shards:
        there = sorted(path.name for path in folder.iterdir())
        listed = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "") if there else "nothing"
        raise UserError(f"no file {name}_{split}_*.tfrecord in {folder}; there is: {listed}")
    return [folder / shard for shard in shards]


def shuffled_examples(num_examples: int, *, seed: int, start: int) -> tf.data.Dataset:
    """The endless sequence of (epoch, example) from position `start` on: every epoch a fresh permutation.

    The permutation depends on (seed, epoch) alone and takes no memory.
    """

    def at(position: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        epoch = position // num_examples
        key = tf.stack([tf.constant(seed, tf.int64), epoch])
        example = tf.random.experimental.index_shuffle(position % num_examples, key, num_examples - 1)
        return epoch, example

    return tf.data.Dataset.range(start, np.iinfo(np.int64).max).map(at)


def read_records(examples: tf.data.Dataset, read: Callable[[int], bytes], *, num_parallel_reads: int) -> tf.data.Dataset:
    """(epoch, example) -> (epoch, example, record), read by several threads, the order kept."""

    def with_record(epoch: tf.Tensor, example: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        record = tf.numpy_function(lambda index: read(int(index)), [example], tf.string, stateful=False)
        return epoch, example, tf.ensure_shape(record, [])

    return examples.map(with_record, num_parallel_calls=num_parallel_reads, deterministic=True)
