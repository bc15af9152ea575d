"""Serialised `tf.train.Example` messages without TensorFlow, whose import would take longer than many conversions.

The wire format is protocol buffers' own (developers.google.com/protocol-buffers/docs/encoding); the messages are
those of tensorflow/core/example/example.proto and feature.proto.
"""

import functools
import itertools
import struct
from collections.abc import Mapping, Sequence

_LENGTH_DELIMITED = 2
# Field numbers of bytes_list, float_list and int64_list in `Feature`.
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3


def _varint(number: int) -> bytes:
    if 0 <= number <= 0x7F:
        return bytes((number,))
    number &= 0xFFFFFFFFFFFFFFFF  # negative numbers travel as their two's complement of 64 bits
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, pieces: list[bytes]) -> list[bytes]:
    """A length-delimited field. Pieces are joined once, at the very end: one of them is a whole picture."""
    return [bytes((number << 3 | _LENGTH_DELIMITED,)), _varint(sum(map(len, pieces))), *pieces]


def bytes_feature(values: Sequence[bytes]) -> list[bytes]:
    """A `Feature` with a bytes list."""
    return _field(_BYTES_LIST, [piece for value in values for piece in _field(1, [value])])


def float_feature(values: Sequence[float]) -> list[bytes]:
    """A `Feature` with a list of float32."""
    return _field(_FLOAT_LIST, _packed(struct.pack(f"<{len(values)}f", *values)))


def int64_feature(values: Sequence[int]) -> list[bytes]:
    """A `Feature` with a list of int64."""
    return _field(_INT64_LIST, _packed(b"".join(map(_varint, values))))


def _packed(numbers: bytes) -> list[bytes]:
    return _field(1, [numbers]) if numbers else []


def serialize_example(features: Mapping[str, list[bytes]]) -> bytes:
    """An `Example` of features made by the functions above; keys are sorted, so equal features give equal bytes."""
    entries = [_field(1, [_key(name), *_field(2, features[name])]) for name in sorted(features)]
    return b"".join(_field(1, list(itertools.chain.from_iterable(entries))))


@functools.cache
def _key(name: str) -> bytes:
    return b"".join(_field(1, [name.encode()]))
