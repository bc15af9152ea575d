"""TFRecord files read by position, so that any order costs no memory.

A TFRecord is: length (uint64, little endian), its masked CRC (4 bytes), the bytes, their masked CRC (4 bytes).
Walking over the lengths alone gives every record's place in its file. With the places known, a shuffled epoch is
a permutation of numbers: perfectly shuffled, the same for any number of readers and workers, and resumed at any
position at once.
"""

import os
import pathlib
import re
import struct
from collections.abc import Sequence

import numpy as np

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

    def __len__(self) -> int:
        return len(self._places)

    def read(self, index: int) -> bytes:
        """The payload of record `index`; safe to call from several threads.

        Raises:
            UserError: its checksum does not fit: the file was damaged after it was written.
        """
        path = self._paths[int(self._file_of[index])]
        offset, length = (int(value) for value in self._places[index])
        # Opened for each record: it costs microseconds, and a large data set has more files than a process may keep open.
        try:
            with open(path, "rb", buffering=0) as file:
                data = os.pread(file.fileno(), length + _AFTER, offset)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        record, checksum = data[:length], data[length:]
        if checksum != tfrecords.masked_crc(record).to_bytes(_AFTER, "little"):
            raise UserError(f"{path}: damaged at byte {offset} (wrong checksum); convert this split again")
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


def has_shards(folder: pathlib.Path, name: str, split: str) -> bool:
    """Whether `find_shards` would find any."""
    return bool(_shards(folder, name, split))


def find_shards(folder: pathlib.Path, name: str, split: str) -> list[pathlib.Path]:
    """The files `NAME_SPLIT_*.tfrecord` in a folder, in order of their numbers; `*` is 000, 12 or 00000-of-00004.

    Raises:
        UserError: there are none; the pattern, the folder and what is there are named. Or their writing was interrupted.
    """
    if staging.is_interrupted(folder, name):
        raise UserError(f"{folder}: the conversion of {name} was interrupted while it replaced files; run it again")
    shards = _shards(folder, name, split)
    if not shards:
        there = sorted(path.name for path in folder.iterdir())
        listed = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "") if there else "nothing"
        raise UserError(f"no file {name}_{split}_*.tfrecord (* a number) in {folder}; there is: {listed}")
    return shards


def _shards(folder: pathlib.Path, name: str, split: str) -> list[pathlib.Path]:
    # Only a number may follow: the split `train` does not take the files of a split `train_small`.
    pattern = re.compile(re.escape(f"{name}_{split}_") + r"(\d+)(-of-\d+)?\.tfrecord")
    numbered = {path: int(found[1]) for path in folder.iterdir() if (found := pattern.fullmatch(path.name))}
    return sorted(numbered, key=lambda path: (numbered[path], path.name))
