"""What a record says: the fields of a serialized tf.train.Example, checked once and named in every complaint."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from engine import images
from engine.errors import UserError


class RecordFields:
    """The fields of one record.

    Args:
        record: as it stands in the file.
        number: the record's in its data set, for messages.

    Attributes:
        filename: the picture's name; "record 7" where it has none.

    Raises:
        UserError: it is no tf.train.Example.
    """

    def __init__(self, record: bytes, number: int):
        try:
            self._features: Mapping = tf.train.Example.FromString(record).features.feature
        except Exception as error:  # protobuf's own exception class differs between its implementations
            raise UserError(f"record {number}: not a tf.train.Example ({error})") from None
        self.filename = self.text("image/filename") or f"record {number}"

    def text(self, key: str) -> str:
        """The first value of a list of bytes; "" where there is none."""
        return self._first_bytes(key).decode("utf-8", "replace")

    def ints(self, key: str) -> np.ndarray:
        """[N] int64, empty where there are none."""
        return np.array(self._features[key].int64_list.value, np.int64)

    def floats(self, key: str) -> np.ndarray:
        """[N] float32, empty where there are none."""
        return np.array(self._features[key].float_list.value, np.float32)

    def encoded(self) -> bytes:
        """The picture as stored; `UserError` for a record without one."""
        encoded = self._first_bytes("image/encoded")
        if not encoded:
            raise UserError(f"{self.filename}: its record lacks image/encoded")
        return encoded

    def _first_bytes(self, key: str) -> bytes:
        values = self._features[key].bytes_list.value
        return values[0] if values else b""


def decode(encoded: bytes, filename: str) -> np.ndarray:
    """The picture [H, W, 3] uint8 RGB of a record; `UserError` that names the file for what is none."""
    try:
        return images.decode(encoded)
    except UserError as error:
        raise UserError(f"{filename}: {error}") from None
