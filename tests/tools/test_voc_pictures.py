"""Pictures in the wild: what is stored, what is stored anew, what is skipped by name."""

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from engine import images
from tests.engine.pictures import encode, scene, with_orientation
from tests.tools.voc_folder import convert, names, said, voc

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9901\n"
JPEG = encode(scene(), "JPEG", quality=90)


def palette(colors=8, seed=0):
    return PIL.Image.fromarray(scene(seed=seed)).quantize(colors)


def by_tensorflow(record):
    """The stored picture as a reader of its own would decode it, trusting `image/format`."""
    data = record["encoded"][0]
    if record["format"] == [b"jpeg"]:
        # Its default is a faster transform, a few grey levels off.
        return tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy()
    return tf.io.decode_png(data, channels=3).numpy()


@pytest.mark.parametrize(
    ("data", "ext", "form"),
    [
        (JPEG, ".jpg", b"jpeg"),
        (JPEG, ".png", b"jpeg"),
        (JPEG + b"\0" * 1000, ".jpg", b"jpeg"),
        (encode(PIL.Image.fromarray(scene()).convert("L"), "JPEG"), ".jpg", b"jpeg"),
        (with_orientation(scene(), 0), ".jpg", b"jpeg"),
        (with_orientation(scene(), 65535), ".jpg", b"jpeg"),
        (encode(scene(), "PNG"), ".png", b"png"),
        (encode(scene(), "PNG"), ".jpg", b"png"),
    ],
)
def test_usual_pictures_are_stored_byte_for_byte(tmp_path, data, ext, form):
    (record,) = convert(voc(tmp_path / "d", image=data, ext=ext))
    assert record["encoded"] == [data]
    assert record["format"] == [form]
    assert record["filename"] == [f"a{ext}".encode()]
    assert (record["height"], record["width"], record["channels"], record["shape"]) == ([80], [120], [3], [80, 120, 3])
    assert np.abs(by_tensorflow(record).astype(int) - images.decode(data)).max() <= 2


@pytest.mark.parametrize(
    ("data", "ext"),
    [
        (encode(np.dstack([scene(), np.zeros((80, 120), np.uint8)]), "PNG"), ".png"),
        (encode(palette(), "PNG"), ".png"),
        (encode(palette(), "PNG", transparency=0), ".jpg"),
        (encode(scene(), "WEBP"), ".jpg"),
        (encode(scene(), "BMP"), ".bmp"),
        (encode(palette(), "GIF"), ".gif"),
        (encode(palette(), "GIF"), ".jpg"),
        (encode(palette(), "GIF", save_all=True, append_images=[palette(seed=1), palette(seed=2)]), ".gif"),
        (encode(palette(), "GIF", save_all=True, append_images=[palette(seed=1), palette(seed=2)]), ".jpg"),
    ],
)
def test_other_pictures_are_stored_as_the_decoder_sees_them(tmp_path, capsys, data, ext):
    (record,) = convert(voc(tmp_path / "d", image=data, ext=ext))
    assert record["format"] == [b"png"]
    np.testing.assert_array_equal(by_tensorflow(record), images.decode(data))
    assert "repaired: stored anew as png" in capsys.readouterr().err


@pytest.mark.parametrize("orientation", range(2, 9))
def test_turned_pictures_are_stored_upright(tmp_path, capsys, orientation):
    data = with_orientation(scene(), orientation, quality=95)
    (record,) = convert(voc(tmp_path / "d", image=data, size=""))
    expected = images.decode(data)
    assert record["shape"] == list(expected.shape)
    # TensorFlow ignores orientation tags: equal pixels mean that the turn is in the pixels.
    assert np.abs(by_tensorflow(record).astype(int) - expected).mean() < 1
    assert f"stored upright (EXIF orientation {orientation}): 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"<html>404</html>", "HTML page"),
        (POINTER, "Git LFS pointer"),
        (JPEG[:-200], "cut-off JPEG"),
        (JPEG[:-2], "cut-off JPEG"),
        (JPEG[:-200] + b"\0" * 1000, "cut-off JPEG"),
        (JPEG[: len(JPEG) // 2] + b"\xff\xd9", "damaged JPEG"),
        (encode(scene(), "PNG")[:-20], "cut-off PNG"),
        (encode(scene(), "WEBP")[:-20], "webp picture that cannot be decoded"),
        (b"\0\0\0\x18ftypheic" + bytes(60), "heic picture that cannot be decoded"),
    ],
)
def test_unusable_pictures_are_named_and_skipped(tmp_path, capfd, data, reason):
    voc(tmp_path / "d", image=data)
    voc(tmp_path / "d", "b")
    assert names(convert(tmp_path / "d")) == ["b.jpg"]
    lines = said(capfd.readouterr().err)
    assert lines[0].startswith("a.jpg: ")
    assert reason in lines[0]
    assert lines[1].startswith("train: 1 picture ")
    assert "  skipped: unusable picture: 1 (a.jpg)" in lines
