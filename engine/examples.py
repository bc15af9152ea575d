"""Serialised `tf.train.Example` messages without TensorFlow, whose import would take longer than many conversions.

The wire format is protocol buffers' own (developers.google.com/protocol-buffers/docs/encoding); the messages are
those of tensorflow/core/example/example.proto and feature.proto.
"""

from collections.abc import Mapping, Sequence

import numpy as np

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


def _field(number: int, *payload: bytes) -> bytes:
    return b"".join((_varint(number << 3 | _LENGTH_DELIMITED), _varint(sum(map(len, payload))), *payload))


def bytes_feature(values: Sequence[bytes]) -> bytes:
    """A `Feature` with a bytes list."""
    return _field(_BYTES_LIST, *(_field(1, value) for value in values))


def float_feature(values: Sequence[float]) -> bytes:
    """A `Feature` with a list of float32."""
    packed = np.asarray(values, "<f4").tobytes()
    return _field(_FLOAT_LIST, _field(1, packed) if packed else b"")


def int64_feature(values: Sequence[int]) -> bytes:
    """A `Feature` with a list of int64."""
    packed = b"".join(map(_varint, values))
    return _field(_INT64_LIST, _field(1, packed) if packed else b"")


def serialize_example(features: Mapping[str, bytes]) -> bytes:
    """An `Example` of features made by the functions above; keys are sorted, so equal features give equal bytes."""
    entries = (_field(1, _field(1, key.encode()), _field(2, features[key])) for key in sorted(features))
    return _field(1, *entries)
