"""The one picture decoder: conversion, training, evaluation and detection all see the pixels it gives.

Pictures come out as [H, W, 3] uint8 RGB, upright (EXIF orientation applied). Grey becomes three equal channels,
an alpha channel is dropped (the colour under it stays), a palette is expanded, 16 bits keep their upper eight,
of an animation the first frame is used. The format is told by the data, never by a file's name.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from engine.errors import UserError
from engine.files import writing

cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

# glibc fetches every large block from the system and gives it back, so that each picture's memory is mapped anew, page by
# page: more than half of the time of a decode. Freeing one block raises the size from which it does so to that block's.
bytes(24 << 20)

# OpenCV would apply the orientation itself, but rejects or misreads values that we take as upright.
COLOR = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION

# Endings of the files in a folder that are taken for pictures.
SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".jpe", ".jfif"),
    *(".avif", ".heic", ".heif", ".jp2", ".ppm", ".pgm", ".pnm"),
)

_MAGIC = (
    ("jpeg", re.compile(rb"\xff\xd8\xff")),
    ("png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("gif", re.compile(rb"GIF8[79]a")),
    ("webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
    ("bmp", re.compile(rb"BM")),
    ("tiff", re.compile(rb"II\*\0|MM\0\*|II\+\0|MM\0\+")),
    ("avif", re.compile(rb"....ftypavi[fs]", re.DOTALL)),
    ("heic", re.compile(rb"....ftyp(?:hei|hev|mif|msf)", re.DOTALL)),
    ("jpeg2000", re.compile(rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51")),
    ("pnm", re.compile(rb"P[1-7]\s")),
    ("lfs", re.compile(rb"version https://git-lfs")),
    ("html", re.compile(rb"\s*<(?:!doctype html|html|head|body)", re.IGNORECASE)),
    ("xml", re.compile(rb"\s*<[?a-zA-Z]")),
)
_NOT_PICTURES = {
    "lfs": "Git LFS pointer, not the picture itself (run 'git lfs pull')",
    "html": "HTML page, not a picture",
    "xml": "XML text, not a picture",
    "unknown": "not a picture of a known format",
}

# JPEG markers (ITU-T T.81, table B.1).
_SOI, _EOI, _SOS, _APP1 = 0xD8, 0xD9, 0xDA, 0xE1
_STANDALONE = {0x01, *range(0xD0, 0xD8)}
# In coded data 0xFF is followed by a stuffed zero, a restart marker or fill bytes; anything else is a marker.
_MARKER_IN_CODED_DATA = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")

_ORIENTATION_TAG = 0x0112
# Ancillary chunks only make libpng print warnings: these four hold all that decides a pixel.
_PNG_NEEDED = {b"IHDR", b"PLTE", b"IDAT", b"IEND"}


class ImageError(UserError):
    """Data that are no usable picture. The text is the reason alone; callers put the file's name before it."""


def sniff(data: bytes) -> str:
    """The format by its first bytes: "jpeg", "png", "gif", "webp", "bmp", "tiff", "avif", "heic", "jpeg2000", "pnm".

    For what is no picture: "lfs" (Git LFS pointer), "html", "xml", "empty" or "unknown".
    """
    if not data:
        return "empty"
    return next((name for name, magic in _MAGIC if magic.match(data)), "unknown")


def decode(data: bytes) -> np.ndarray:
    """The picture in `data`, [H, W, 3] uint8 RGB, upright.

    Raises ImageError for anything that is not a whole, readable picture. A JPEG without its end is cut off and refused;
    bytes after the end are ignored.
    """
    image = imdecode(checked(data), COLOR)
    return upright(image, exif_orientation(data))


def write_jpeg(path: Path, image: np.ndarray) -> None:
    """Writes a picture [H, W, 3] uint8 RGB and makes its folder; `UserError` where that is not possible."""
    _write(path, cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 92])[1])


def write_png(path: Path, image: np.ndarray) -> None:
    """Like `write_jpeg`, without loss: for drawings with sharp edges."""
    _write(path, cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1])


def _write(path: Path, encoded: np.ndarray) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded.tobytes())


def checked(data: bytes) -> bytes:
    """`data` made fit for OpenCV, or ImageError where the format, a cut or a checksum already tells that it cannot be read."""
    kind = sniff(data)
    if kind == "empty":
        raise ImageError("empty file")
    if kind in _NOT_PICTURES:
        raise ImageError(_NOT_PICTURES[kind])
    if kind == "jpeg" and not _has_end(data):
        raise ImageError("cut-off JPEG: its end is missing")
    return _needed_chunks(data) if kind == "png" else data


def imdecode(data: bytes, flags: int) -> np.ndarray:
    """`cv2.imdecode` that raises ImageError instead of returning None or raising OpenCV's own error."""
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except (cv2.error, MemoryError) as error:
        raise ImageError(f"{sniff(data)} picture that cannot be decoded: too large or damaged") from error
    if image is None:
        raise ImageError(f"{sniff(data)} picture that cannot be decoded: damaged, cut off or of an unsupported kind")
    return image


def upright(image: np.ndarray, orientation: int) -> np.ndarray:
    """`image` [H, W, 3] as it is to be displayed (EXIF 2.32, table 6: orientation 1-8)."""
    if orientation == 1:
        return image
    turns = {
        2: lambda: image[:, ::-1],
        3: lambda: image[::-1, ::-1],
        4: lambda: image[::-1],
        5: lambda: image.transpose(1, 0, 2),
        6: lambda: image[::-1].transpose(1, 0, 2),
        7: lambda: image[::-1, ::-1].transpose(1, 0, 2),
        8: lambda: image[:, ::-1].transpose(1, 0, 2),
    }
    return np.ascontiguousarray(turns[orientation]())


def exif_orientation(data: bytes) -> int:
    """The EXIF orientation of a JPEG, PNG or WebP, 1-8. No tag, an unreadable one or one out of range counts as 1.

    Other formats count as 1: TIFF pictures come upright from OpenCV already.
    """
    find_exif = {"jpeg": _jpeg_exif, "png": _png_exif, "webp": _webp_exif}.get(sniff(data))
    try:
        orientation = _orientation_tag(find_exif(data)) if find_exif else 1
    except struct.error:  # a block shorter than it says
        orientation = 1
    return orientation if 1 <= orientation <= 8 else 1


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(marker, start, end) of the segments before the coded data; the payload is `data[start:end]`.

    The last one is SOS (0xDA). Ends early where the data do.
    """
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # a fill byte
            position += 1
        elif marker in _STANDALONE:
            position += 2
        else:
            end = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
            yield marker, position + 4, end
            if marker == _SOS:
                return
            position = end


def png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(type, start, end) of each chunk up to IEND; the payload is `data[start:end]`. Ends early where the data do."""
    position = 8
    while position + 12 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        kind = data[position + 4 : position + 8]
        start, end = position + 8, position + 8 + length
        if end + 4 > len(data):
            return
        yield kind, start, end
        if kind == b"IEND":
            return
        position = end + 4


def _has_end(data: bytes) -> bool:
    """Whether the JPEG has an end marker of its own; that of a thumbnail in its EXIF block does not count."""
    if data.endswith(b"\xff\xd9"):
        return True
    position = max((end for marker, _, end in jpeg_segments(data) if marker == _SOS), default=len(data))
    while (found := _MARKER_IN_CODED_DATA.search(data, position)) is not None:
        if data[found.start() + 1] == _EOI:
            return True
        # A progressive picture has further segments (tables, scans) between its coded data.
        length = int.from_bytes(data[found.end() : found.end() + 2], "big")
        position = found.end() + max(length, 2)
    return False


def _needed_chunks(data: bytes) -> bytes:
    """The PNG reduced to what decides its pixels; ImageError where a chunk is cut off or fails its checksum."""
    needed = []
    kind = b""
    for kind, start, end in png_chunks(data):
        if kind in _PNG_NEEDED:
            if zlib.crc32(data[start - 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
                raise ImageError(f"damaged PNG: wrong checksum in its {kind.decode('ascii')} chunk")
            needed.append(data[start - 8 : end + 4])
    if kind != b"IEND":
        raise ImageError("cut-off PNG: its end is missing")
    return data[:8] + b"".join(needed)


def _jpeg_exif(data: bytes) -> bytes:
    for marker, start, end in jpeg_segments(data):
        if marker == _APP1 and data.startswith(b"Exif\0\0", start):
            return data[start + 6 : end]
    return b""


def _png_exif(data: bytes) -> bytes:
    return next((data[start:end] for kind, start, end in png_chunks(data) if kind == b"eXIf"), b"")


def _webp_exif(data: bytes) -> bytes:
    position = 12
    while position + 8 <= len(data):
        length = int.from_bytes(data[position + 4 : position + 8], "little")
        if data.startswith(b"EXIF", position):
            return data[position + 8 : position + 8 + length].removeprefix(b"Exif\0\0")
        position += 8 + length + length % 2
    return b""


def _orientation_tag(exif: bytes) -> int:
    """The tag of the first directory of a TIFF block (TIFF 6.0, section 2), 1 where it has none."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None:
        return 1
    (directory,) = struct.unpack_from(order + "I", exif, 4)
    (entries,) = struct.unpack_from(order + "H", exif, directory)
    for entry in range(directory + 2, directory + 2 + 12 * entries, 12):
        tag, kind = struct.unpack_from(order + "HH", exif, entry)
        if tag == _ORIENTATION_TAG:
            value = {3: "H", 4: "I"}.get(kind)
            return struct.unpack_from(order + value, exif, entry + 8)[0] if value else 1
    return 1
