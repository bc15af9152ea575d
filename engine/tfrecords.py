"""TFRecord files: shards called `NAME_SPLIT_000.tfrecord`, written under other names until the set is complete.

Layout of a record (tensorflow/core/lib/io/record_writer.h): length (uint64), masked CRC-32C of the length,
the data, masked CRC-32C of the data; all little-endian.
TensorFlow is not needed to write, and not imported with this module: the converter starts without it.
"""

import re
import struct
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import google_crc32c

# Until its set is published a shard carries this suffix, which `NAME_SPLIT_*.tfrecord` cannot match.
UNFINISHED = ".part"
_MIN_DIGITS = 3


def masked_crc(data: bytes) -> int:
    """The checksum of a TFRecord file: CRC-32C, rotated and offset, since CRCs of data that hold CRCs are weak."""
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(record: bytes) -> bytes:
    """`record` with its length and checksums: what stands in a TFRecord file, byte for byte."""
    length = struct.pack("<Q", len(record))
    return b"".join((length, struct.pack("<I", masked_crc(length)), record, struct.pack("<I", masked_crc(record))))


def shard_names(directory: Path, stem: str) -> list[str]:
    """Names of the published shards of `stem` (NAME_SPLIT) in `directory`, in order.

    Only digits may stand after the stem: `voc_train` does not take the shards of a split `voc_train_small`.
    """
    pattern = re.compile(re.escape(stem) + r"_\d{3,}\.tfrecord")
    return sorted(path.name for path in directory.iterdir() if pattern.fullmatch(path.name))


def obsolete_shards(directory: Path, stem: str, new_names: list[str]) -> list[str]:
    """Published shards of `stem` that must go before `new_names` can come, so that old and new never stand together.

    The first of the new names is none of them: its rename swaps an old shard for a new one at once.
    Without new names all must go.
    """
    return [name for name in shard_names(directory, stem) if name not in new_names[:1]]


class ShardWriter:
    """Writes framed records to shards of at most `samples_per_file` records; no shard is ever empty.

    Use it as a context manager. On leaving without an error the files in `directory` are
    `STEM_000.tfrecord.part` and so on, their published names in `names`.
    """

    def __init__(self, directory: Path, stem: str, samples_per_file: int):
        self.names: list[str] = []
        self._directory = directory
        self._stem = stem
        self._samples_per_file = samples_per_file
        self._file: BinaryIO | None = None
        self._shards = 0
        self._room = 0

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, error: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
        if error is None:
            self._name_shards()

    def write(self, framed: bytes) -> None:
        """Appends one record, as made by `frame`."""
        if self._room == 0:
            self._open_next()
        self._file.write(framed)
        self._room -= 1

    def _open_next(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._numbered(self._shards).open("wb")
        self._shards += 1
        self._room = self._samples_per_file

    def _numbered(self, shard: int) -> Path:
        return self._directory / f"{self._stem}_{shard}{UNFINISHED}"

    def _name_shards(self) -> None:
        # All numbers are equally wide, so that sorted names are in order; their count is known only now.
        digits = max(_MIN_DIGITS, len(str(self._shards - 1)))
        for shard in range(self._shards):
            name = f"{self._stem}_{shard:0{digits}d}.tfrecord"
            self._numbered(shard).rename(self._directory / (name + UNFINISHED))
            self.names.append(name)
