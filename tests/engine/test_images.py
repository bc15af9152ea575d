import io
import struct
import subprocess
import sys
import time
import zlib

import cv2
import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest

from engine import images
from engine.errors import UserError
from engine.images import ImageError, decode, exif_orientation, sniff
from tests.engine.pictures import encode, pillow, scene, with_orientation

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9901\n"


def palette(colors=8):
    return PIL.Image.fromarray(scene()).quantize(colors)


def animation():
    frames = [PIL.Image.fromarray(scene(seed=seed)).quantize(16) for seed in range(3)]
    return encode(frames[0], "GIF", save_all=True, append_images=frames[1:])


def chunk(kind, payload):
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


LOSSLESS = {
    "png": encode(scene(), "PNG"),
    "png palette": encode(palette(), "PNG"),
    "png 1 bit": encode(PIL.Image.fromarray(scene()).convert("1"), "PNG"),
    "png grey": encode(PIL.Image.fromarray(scene()).convert("L"), "PNG"),
    "gif": encode(palette(), "GIF"),
    "gif of three": animation(),
    "bmp": encode(scene(), "BMP"),
    "bmp palette": encode(palette(), "BMP"),
    "tiff": encode(scene(), "TIFF", compression="tiff_lzw"),
    "webp": encode(scene(), "WEBP", lossless=True),
    "pnm": encode(scene(), "PPM"),
}


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_formats_are_exact(name):
    data = LOSSLESS[name]
    assert sniff(data) == name.split()[0]
    np.testing.assert_array_equal(decode(data), pillow(data))


@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_rows": 1}, {"comment": "x"}]
)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_jpeg_is_as_pillow_sees_it(options, mode):
    data = encode(PIL.Image.fromarray(scene()).convert(mode), "JPEG", quality=95, **options)
    image = decode(data)
    assert image.dtype == np.uint8
    assert np.abs(image.astype(int) - pillow(data)).max() <= 2
    if mode == "L":
        assert (image == image[..., :1]).all()


def test_channels_are_rgb():
    red = np.zeros((16, 16, 3), np.uint8)
    red[..., 0] = 255
    for form in ("JPEG", "PNG", "BMP", "GIF", "WEBP"):
        np.testing.assert_allclose(decode(encode(red, form))[3, 3], [255, 0, 0], atol=3)


def test_alpha_is_dropped_and_the_colour_under_it_kept():
    rgba = np.zeros((8, 8, 4), np.uint8)
    rgba[..., 0] = 200
    for data in (encode(rgba, "PNG"), encode(rgba, "WEBP", lossless=True, exact=True)):
        assert (decode(data) == [200, 0, 0]).all()
    transparent = encode(palette(), "PNG", transparency=0)
    np.testing.assert_array_equal(decode(transparent), decode(encode(palette(), "PNG")))
    keyed = encode(scene(), "PNG", transparency=tuple(int(value) for value in scene()[0, 0]))
    np.testing.assert_array_equal(decode(keyed), scene())


def test_sixteen_bits_keep_the_upper_eight():
    deep = (np.arange(65536, dtype=np.uint16)).reshape(256, 256)
    for ext in (".png", ".tiff"):
        image = decode(cv2.imencode(ext, deep)[1].tobytes())
        np.testing.assert_array_equal(image, np.repeat((deep >> 8)[..., None], 3, axis=2))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(form, orientation):
    options = {"quality": 95, "lossless": True} if form == "WEBP" else {}
    data = with_orientation(scene(), orientation, form, **options)
    turned = np.asarray(PIL.ImageOps.exif_transpose(PIL.Image.open(io.BytesIO(data))).convert("RGB"))
    image = decode(data)
    assert image.shape == turned.shape
    assert np.abs(image.astype(int) - turned).max() <= 2
    assert image.flags.c_contiguous
    assert exif_orientation(data) == (1 if form == "TIFF" else orientation)


@pytest.mark.parametrize("value", [0, 9, 255, 65535])
def test_orientation_out_of_range_counts_as_1(value):
    data = with_orientation(scene(), value)
    assert exif_orientation(data) == 1
    assert decode(data).shape == (80, 120, 3)


def exif_block(order, kind, value, entries=1):
    value = struct.pack(order + {3: "HH", 4: "I", 2: "I"}[kind], *([value, 0] if kind == 3 else [value]))
    mark = b"II*\0" if order == "<" else b"MM\0*"
    tag = struct.pack(order + "HHI", 0x0112, kind, 1) + value
    return b"Exif\0\0" + mark + struct.pack(order + "IH", 8, entries) + tag


@pytest.mark.parametrize(
    ("block", "orientation"),
    [
        (exif_block("<", 3, 6), 6),
        (exif_block(">", 3, 6), 6),
        (exif_block("<", 4, 8), 8),
        (exif_block(">", 4, 65537), 1),
        (exif_block("<", 2, 6), 1),
        (exif_block("<", 3, 6)[:-8], 1),
        (exif_block("<", 3, 6)[:11], 1),
        (b"Exif\0\0XX*\0" + bytes(20), 1),
        (b"http://ns.adobe.com/xap/1.0/\0<x/>", 1),
    ],
)
def test_exif_blocks(block, orientation):
    data = encode(scene(), "JPEG")
    segment = b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block
    assert exif_orientation(data[:2] + segment + data[2:]) == orientation


JPEG = encode(scene(), "JPEG", quality=90)
PROGRESSIVE = encode(scene(), "JPEG", quality=90, progressive=True)


def with_thumbnail(data):
    block = b"Exif\0\0" + encode(scene(16, 16), "JPEG")
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[2:]


@pytest.mark.parametrize("data", [JPEG, PROGRESSIVE, with_thumbnail(JPEG)], ids=["baseline", "progressive", "thumbnail"])
def test_cut_off_jpeg_is_refused(data):
    expected = decode(data)
    for cut in (1, 2, 3, 50, 200, len(data) // 2, len(data) - 20, len(data) - 3):
        for tail in (b"", b"\0" * 1000, b"\xff" * 9):
            with pytest.raises(ImageError, match="cut-off JPEG|cannot be decoded"):
                decode(data[:-cut] + (tail if cut > 1 else b""))
    for tail in (b"\0" * 1000, b"<html>", data):
        np.testing.assert_array_equal(decode(data + tail), expected)


@pytest.mark.parametrize("name", LOSSLESS)
def test_other_cut_off_pictures_are_refused(name):
    data = LOSSLESS[name]
    for length in (len(data) // 2, len(data) // 4, 12):
        with pytest.raises(ImageError):
            decode(data[:length])
    if name != "pnm":
        np.testing.assert_array_equal(decode(data + b"\0" * 100), pillow(data))


def test_damaged_png_is_refused():
    data = bytearray(LOSSLESS["png"])
    data[len(data) // 2] ^= 1
    with pytest.raises(ImageError, match="damaged PNG: wrong checksum in its IDAT chunk"):
        decode(bytes(data))


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (b"", "empty", "empty file"),
        (b"<html>404</html>", "html", "HTML page"),
        (b"\n<!DOCTYPE html><html>", "html", "HTML page"),
        (b"<?xml version='1.0'?><annotation/>", "xml", "XML text"),
        (POINTER, "lfs", "Git LFS pointer"),
        (b"just text", "unknown", "not a picture"),
        (b"\xff\xd8\xff", "jpeg", "cut-off JPEG"),
        (b"\x89PNG\r\n\x1a\n", "png", "cut-off PNG"),
        (b"BM" + bytes(60), "bmp", "bmp picture that cannot be decoded"),
        (b"GIF89a" + bytes(60), "gif", "gif picture that cannot be decoded"),
        (b"\0\0\0\x18ftypheic" + bytes(60), "heic", "heic picture that cannot be decoded"),
    ],
)
def test_what_is_no_picture(data, kind, reason):
    assert sniff(data) == kind
    with pytest.raises(UserError, match=reason) as error:
        decode(data)
    assert "\n" not in str(error.value)


def test_picture_larger_than_memory_is_refused():
    header = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    with pytest.raises(ImageError, match="png picture that cannot be decoded"):
        decode(data)


def test_random_damage_never_raises_anything_else():
    rng = np.random.default_rng(0)
    for data in (JPEG, PROGRESSIVE, with_orientation(scene(), 6), *LOSSLESS.values()):
        for _ in range(20):
            damaged = bytearray(data)
            for position in rng.integers(0, min(len(data), 400), 3):
                damaged[position] = rng.integers(256)
            try:
                image = decode(bytes(damaged[: rng.integers(1, len(data) + 1)] if rng.random() < 0.3 else damaged))
            except ImageError:
                continue
            assert image.dtype == np.uint8
            assert image.shape[2] == 3


def test_opencv_prints_nothing(tmp_path):
    bad_profile = LOSSLESS["png"][:33] + chunk(b"iCCP", b"x\0\0" + zlib.compress(b"junk")) + LOSSLESS["png"][33:]
    pictures = [bad_profile, *(data[:-30] for data in LOSSLESS.values()), JPEG[:-9], b"GIF89a", b"BM" + bytes(60)]
    for number, data in enumerate(pictures):
        (tmp_path / str(number)).write_bytes(data)
    program = f"""
import pathlib
from engine import images
for path in pathlib.Path({str(tmp_path)!r}).iterdir():
    try:
        images.decode(path.read_bytes())
    except images.ImageError:
        pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_input_is_not_changed_and_output_is_writable():
    data = bytearray(JPEG)
    image = decode(bytes(data))
    image[:] = 0
    assert bytes(data) == JPEG


@pytest.mark.slow
def test_costs_little_more_than_opencv_alone():
    noise = np.random.default_rng(0).integers(0, 256, (480, 640, 3), np.uint8)
    data = cv2.imencode(".jpg", noise, [cv2.IMWRITE_JPEG_QUALITY, 60])[1].tobytes()
    checks, decoding = [], []
    for _ in range(15):
        start = time.perf_counter()
        images.checked(data), images.exif_orientation(data)
        middle = time.perf_counter()
        cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        checks.append(middle - start)
        decoding.append(time.perf_counter() - middle)
    assert min(checks) < 0.1 * min(decoding)
