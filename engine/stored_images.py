"""Pictures made fit for a record: proven readable, upright, 8 bits, three channels or grey, JPEG or PNG.

Bytes that are so already stay as they are. Of the others a JPEG becomes a JPEG again (quality 95, no chroma
subsampling), any other format a PNG, which holds exactly the pixels that `images.decode` gives for the original.
"""

import contextlib
import dataclasses
import os
import struct
from collections.abc import Iterator

import cv2
import numpy as np

from engine import images
from engine.images import ImageError

# libjpeg goes on after these, with grey or noise in place of the lost part; only its messages tell.
_DAMAGE = (b"premature end", b"bad Huffman code")
_JPEG_QUALITY = 95
# Start of frame segments (ITU-T T.81, table B.1): the C markers less DHT (C4), JPG (C8) and DAC (CC).
_START_OF_FRAME = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


@dataclasses.dataclass(frozen=True)
class StoredImage:
    """`encoded` in `format` ("jpeg" or "png"); `height` and `width` in pixels of the upright picture.

    `orientation` is the EXIF one of the original (1-8), `source` its format; `is_original` says that `encoded` is the original.
    """

    encoded: bytes
    format: str
    height: int
    width: int
    orientation: int
    source: str
    is_original: bool


def to_stored(data: bytes) -> StoredImage:
    """The picture in `data` as it goes into a record; every byte of it is decoded once, so what is returned can be read.

    Watches the whole process's stderr for a moment: for processes that write nothing there from other threads.
    Raises ImageError as `images.decode` does, and for a JPEG with a part missing in the middle.
    """
    source = images.sniff(data)
    with _native_messages() as messages:
        stored = _jpeg_as_it_is(data) if source == "jpeg" and _is_plain_jpeg(data) else _decoded(data, source)
    if any(damage in line for line in messages for damage in _DAMAGE):
        raise ImageError("damaged JPEG: a part of its data is missing or wrong")
    return stored


def decode_as_stored(data: bytes) -> np.ndarray:
    """The pixels that a record of this picture gives, [H, W, 3] uint8 RGB: what a net sees in training it sees in use.

    That is `images.decode` but for JPEGs that a record cannot hold as they are: their pixels went through JPEG again.
    Raises ImageError as `images.decode` does.
    """
    image = images.decode(data)
    if images.sniff(data) == "jpeg" and not _is_plain_jpeg(data):
        return images.decode(_encode(image, "jpeg"))
    return image


def _jpeg_as_it_is(data: bytes) -> StoredImage:
    # A grey decode at an eighth of the size still reads every coefficient, in half the time.
    images.imdecode(images.checked(data), cv2.IMREAD_REDUCED_GRAYSCALE_8 | cv2.IMREAD_IGNORE_ORIENTATION)
    _, height, width, _ = _jpeg_frame(data)
    return StoredImage(data, "jpeg", height, width, 1, "jpeg", is_original=True)


def _decoded(data: bytes, source: str) -> StoredImage:
    image = images.decode(data)
    orientation = images.exif_orientation(data)
    is_original = source == "png" and orientation == 1 and _is_plain_png(data)
    stored_format = "jpeg" if source == "jpeg" else "png"
    encoded = data if is_original else _encode(image, stored_format)
    return StoredImage(encoded, stored_format, *image.shape[:2], orientation, source, is_original)


def _encode(image: np.ndarray, stored_format: str) -> bytes:
    options = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
    bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    _, encoded = cv2.imencode(".jpg" if stored_format == "jpeg" else ".png", bgr, options if stored_format == "jpeg" else [])
    return encoded.tobytes()


def _jpeg_frame(data: bytes) -> tuple[int, int, int, int]:
    """(bits, height, width, components) of a JPEG's frame header; zeros where it has none."""
    for marker, start, _ in images.jpeg_segments(data):
        if marker in _START_OF_FRAME and start + 6 <= len(data):
            return struct.unpack_from(">BHHB", data, start)
    return 0, 0, 0, 0


def _is_plain_jpeg(data: bytes) -> bool:
    bits, height, _, components = _jpeg_frame(data)
    # A height of 0 is written after the first scan (DNL): the decoder finds it, a header reader does not.
    return bits == 8 and height > 0 and components in (1, 3) and images.exif_orientation(data) == 1


def _is_plain_png(data: bytes) -> bool:
    kinds = {kind for kind, _, _ in images.png_chunks(data)}
    bit_depth, color_type = data[24], data[25]
    return bit_depth == 8 and color_type in (0, 2) and not kinds & {b"tRNS", b"acTL"}


@contextlib.contextmanager
def _native_messages() -> Iterator[list[bytes]]:
    """Keeps what libjpeg and libpng print off the process's stderr; the list holds their lines after the block."""
    messages: list[bytes] = []
    own = os.dup(2)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)  # what does not fit into the pipe is lost rather than waited for
    os.dup2(writing, 2)
    try:
        yield messages
    finally:
        os.dup2(own, 2)
        with contextlib.suppress(BlockingIOError):  # the usual case: nothing was printed
            messages.extend(os.read(reading, 1 << 16).splitlines())
        for handle in (own, reading, writing):
            os.close(handle)
