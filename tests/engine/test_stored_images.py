import os
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest

from engine.images import ImageError, decode, exif_orientation
from engine.stored_images import to_stored
from tests.engine.pictures import encode, scene, with_orientation


def grey(form, **options):
    return encode(PIL.Image.fromarray(scene()).convert("L"), form, **options)


def rgba():
    return np.dstack([scene(), np.zeros((80, 120), np.uint8)])


AS_THEY_ARE = {
    "jpeg": (encode(scene(), "JPEG"), "jpeg"),
    "progressive jpeg": (encode(scene(), "JPEG", progressive=True), "jpeg"),
    "grey jpeg": (grey("JPEG"), "jpeg"),
    "jpeg with bytes after its end": (encode(scene(), "JPEG") + b"\0" * 1000, "jpeg"),
    "jpeg with orientation 0": (with_orientation(scene(), 0), "jpeg"),
    "png": (encode(scene(), "PNG"), "png"),
    "grey png": (grey("PNG"), "png"),
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_stored_as_they_are(name):
    data, form = AS_THEY_ARE[name]
    stored = to_stored(data)
    assert stored.encoded is data
    assert (stored.format, stored.height, stored.width, stored.orientation) == (form, 80, 120, 1)
    assert stored.is_original


STORED_ANEW = {
    "palette": encode(PIL.Image.fromarray(scene()).quantize(8), "PNG"),
    "alpha": encode(rgba(), "PNG"),
    "key colour": encode(scene(), "PNG", transparency=(1, 2, 3)),
    "16 bits": encode(PIL.Image.fromarray(scene()[..., 0].astype(np.uint16) * 257), "PNG"),
    "turned png": with_orientation(scene(), 6, "PNG"),
    "animated png": encode(scene(), "PNG", save_all=True, append_images=[PIL.Image.fromarray(scene(seed=1))]),
    "gif": encode(PIL.Image.fromarray(scene()).quantize(8), "GIF"),
    "bmp": encode(scene(), "BMP"),
    "webp": encode(scene(), "WEBP"),
    "tiff": encode(scene(), "TIFF"),
}


@pytest.mark.parametrize("name", STORED_ANEW)
def test_stored_anew_without_loss(name):
    data = STORED_ANEW[name]
    stored = to_stored(data)
    assert not stored.is_original
    assert stored.format == "png"
    assert stored.encoded.startswith(b"\x89PNG")
    np.testing.assert_array_equal(decode(stored.encoded), decode(data))
    assert (stored.height, stored.width) == decode(data).shape[:2]
    assert to_stored(stored.encoded).is_original


@pytest.mark.parametrize(
    "data", [with_orientation(scene(), 6, quality=95), encode(PIL.Image.fromarray(scene()).convert("CMYK"), "JPEG")]
)
def test_other_jpegs_become_jpegs_within_a_grey_level_or_two(data):
    stored = to_stored(data)
    assert stored.format == "jpeg"
    assert exif_orientation(stored.encoded) == 1
    difference = np.abs(decode(stored.encoded).astype(int) - decode(data))
    assert difference.mean() < 1
    assert difference.max() <= 8
    assert stored.orientation == exif_orientation(data)
    assert to_stored(stored.encoded).is_original


def test_data_missing_in_the_middle_are_noticed():
    data = encode(np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8), "JPEG")
    end = b"\xff\xd9"
    for damaged in (data[: len(data) // 2] + end, data[:-300] + end, data[:5000] + data[9000:]):
        with pytest.raises(ImageError, match="damaged JPEG"):
            to_stored(damaged)
        assert decode(damaged).shape == (200, 200, 3)
    stray = data[:-2] + b"abc" + end  # bytes before the end marker harm nothing
    assert to_stored(stray).is_original


@pytest.mark.parametrize("progressive", [False, True])
def test_every_cut_is_noticed(progressive):
    data = encode(scene(), "JPEG", progressive=progressive)
    for length in range(0, len(data) - 1, 23):
        with pytest.raises(ImageError):
            to_stored(data[:length])


def test_messages_of_the_libraries_stay_off_stderr_and_ours_stay_on_it():
    program = f"""
import sys
from engine.stored_images import to_stored
data = {encode(scene(), "JPEG")!r}
print("before", file=sys.stderr, flush=True)
to_stored(data[:-2] + b"abc" + data[-2:])
print("after", file=sys.stderr, flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "before\nafter\n"


def test_no_file_handle_is_left_open():
    data = encode(scene(), "JPEG")
    to_stored(data)
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        to_stored(data)
        with pytest.raises(ImageError):
            to_stored(data[:-50])
    assert os.listdir("/proc/self/fd") == before
