"""Boxes in the wild, and boxes of pictures with an EXIF orientation."""

import io

import cv2
import numpy as np
import PIL.Image
import pytest

from engine import images
from tests.tools.voc_folder import boxes, convert, picture, size_tag, voc
from tools.voc.boxes import Frame, find_frame, place


def test_fractions_are_kept(tmp_path):
    box = ("cat", "45.7", "281.70000076293945", "90.2", "300")
    (record,) = convert(voc(tmp_path / "d", objects=[box], image=picture(500, 375), size=size_tag(500, 375)))
    np.testing.assert_allclose(boxes(record), [[281.70000076293945 / 375, 45.7 / 500, 300 / 375, 90.2 / 500]], atol=1e-7)


def test_keys_are_not_transposed(tmp_path):
    (record,) = convert(voc(tmp_path / "d", objects=[("cat", 12, 8, 60, 72)]))
    got = [record[key][0] for key in ("xmin", "ymin", "xmax", "ymax")]
    np.testing.assert_allclose(got, [0.1, 0.1, 0.5, 0.9], atol=1e-7)


@pytest.mark.parametrize(
    ("box", "expected", "told"),
    [
        ((-3, 5, 50, 60), [5 / 80, 0, 60 / 80, 50 / 120], "box clipped to the picture: 1"),
        ((10, 10, 125, 90), [10 / 80, 10 / 120, 1, 1], "box clipped to the picture: 1"),
        ((0, 0, 120, 80), [0, 0, 1, 1], ""),
        ((60, 20, 10, 70), [20 / 80, 10 / 120, 70 / 80, 60 / 120], "corners put in order: 1 (a.xml)"),
        ((50, 50, 20, 20), [20 / 80, 20 / 120, 50 / 80, 50 / 120], "corners put in order: 1 (a.xml)"),
        ((30, 30, 30, 60), None, "box without area: 1 (a.xml)"),
        ((30, 30, 60, 30), None, "box without area: 1 (a.xml)"),
        ((120, 10, 140, 20), None, "box outside the picture: 1 (a.xml)"),
        ((-20, -20, -10, -10), None, "box outside the picture: 1 (a.xml)"),
        ((119.99999999999, 10, 140, 20), None, "box outside the picture: 1 (a.xml)"),
    ],
)
def test_odd_boxes(tmp_path, capsys, box, expected, told):
    whole = ("dog", 0, 0, 120, 80)
    (record,) = convert(voc(tmp_path / "d", objects=[("cat", *box), whole]))
    assert record["label"] == ([1, 2] if expected else [2])
    np.testing.assert_allclose(boxes(record), [expected, [0, 0, 1, 1]] if expected else [[0, 0, 1, 1]], atol=1e-7)
    errors = capsys.readouterr().err
    assert told in errors
    assert ("repaired" in errors or "dropped" in errors) == bool(told)


def test_random_boxes_are_whole_or_gone(tmp_path):
    rng = np.random.default_rng(0)
    objects = [("cat", *rng.choice([-1, 0, 3.3, 60, 119.9999999, 120, 121, 1e9], 4)) for _ in range(300)]
    (record,) = convert(voc(tmp_path / "d", objects=objects))
    got = boxes(record)
    assert len(got) > 20
    assert ((got >= 0) & (got <= 1)).all()
    assert (got[:, :2] < got[:, 2:]).all()


def test_normalised_coordinates_are_suspected_once(tmp_path, capsys):
    for stem in "ab":
        voc(tmp_path / "d", stem, objects=[("cat", 0.1, 0.1, 0.5, 1)])
    convert(tmp_path / "d")
    assert capsys.readouterr().err.count("all coordinates <= 1: normalised?") == 1
    voc(tmp_path / "d", "c")
    convert(tmp_path / "d")
    assert "normalised" not in capsys.readouterr().err


def test_a_broken_export_is_obvious(tmp_path, capsys):
    voc(tmp_path / "d", objects=[("cat", 30, 30, 30, 40), ("dog", 500, 40, 723, 50)])
    convert(tmp_path / "d")
    errors = capsys.readouterr().err
    assert "2 of 2 objects dropped (100 %)" in errors
    assert "  cat: 0\n  dog: 0\n" in errors


def test_find_frame():
    displayed, stored = Frame(40, 60, False, "exact"), Frame(60, 40, True, "exact")  # 60 high, 40 wide
    assert find_frame(None, 60, 40, 6) == displayed
    assert find_frame((40, 60), 60, 40, 6) == displayed
    assert find_frame((60, 40), 60, 40, 6) == stored
    assert find_frame((59, 42), 60, 40, 8) == stored
    assert find_frame((60, 40), 60, 40, 3).fit == "mismatch"
    assert find_frame((120, 80), 60, 40, 5) == Frame(120, 80, True, "scaled")
    assert find_frame((80, 120), 60, 40, 5) == Frame(80, 120, False, "scaled")
    assert find_frame((50, 50), 50, 50, 6) == Frame(50, 50, False, "exact")
    assert find_frame((41, 40), 41, 40, 6) == Frame(41, 40, True, "exact")
    # 1000 x 563 resized to a width of 300: 168.9 became 169.
    assert find_frame((1000, 563), 169, 300, 1).fit == "scaled"
    assert find_frame((500, 375), 80, 120, 1).fit == "mismatch"


def painted(orientation, box, size=(120, 80)):
    """A JPEG, black but for `box` (xmin, ymin, xmax, ymax) of the stored picture, with an EXIF orientation."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    cv2.rectangle(pixels, box[:2], (box[2] - 1, box[3] - 1), (255, 255, 255), -1)
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    out = io.BytesIO()
    PIL.Image.fromarray(pixels).save(out, "JPEG", quality=98, exif=exif)
    return out.getvalue()


def white_box(record):
    """Where the picture of a record is white, as (ymin, xmin, ymax, xmax) in [0, 1]."""
    image = images.decode(record["encoded"][0])
    assert images.exif_orientation(record["encoded"][0]) == 1
    assert list(image.shape) == record["shape"]
    rows, columns = (np.flatnonzero((image[..., 0] > 128).any(axis=axis)) for axis in (1, 0))
    return np.array([rows[0], columns[0], rows[-1] + 1, columns[-1] + 1]) / np.tile(image.shape[:2], 2)


# A half turn or a mirror image has the same size as before: such boxes count as drawn on the displayed picture.
@pytest.mark.parametrize("orientation", [1, 5, 6, 7, 8])
def test_boxes_drawn_on_the_stored_picture_turn_along(tmp_path, orientation):
    box = (16, 8, 56, 24)
    (record,) = convert(voc(tmp_path / "d", objects=[("cat", *box)], image=painted(orientation, box)))
    np.testing.assert_allclose(boxes(record)[0], white_box(record), atol=0.011)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("size", [(120, 80), (80, 80)])
def test_boxes_drawn_on_the_displayed_picture_stay(tmp_path, orientation, size):
    image = painted(orientation, (16, 8, 56, 24), size)
    upright = images.decode(image)
    rows, columns = (np.flatnonzero((upright[..., 0] > 128).any(axis=axis)) for axis in (1, 0))
    box = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    height, width = upright.shape[:2]
    (record,) = convert(voc(tmp_path / "d", objects=[("cat", *box)], image=image, size=size_tag(width, height)))
    np.testing.assert_allclose(boxes(record)[0], white_box(record), atol=0.013)


def test_turned_and_scaled():
    placement = place((20, 0, 40, 10), Frame(200, 100, True, "scaled"), 6)
    np.testing.assert_allclose(placement.box, [0.1, 0.9, 0.2, 1.0], atol=1e-7)
    assert not placement.is_swapped
    assert not placement.is_clipped
