"""What detection writes: corners in the picture's own pixels, names, and never over an input."""

from pathlib import Path

import numpy as np
import pytest

from engine.errors import UserError
from ssd import detect


def test_corners_are_in_pixels_of_the_picture_and_names_are_the_labels():
    picture = detect._Picture(Path("wide.png"), np.zeros([200, 1000, 3], np.uint8))
    boxes = np.array([[0.1, 0.2, 0.5, 0.9], [0, 0, 1, 1]], np.float32)
    entry = detect._described(picture, boxes, np.array([0.9, 0.25]), np.array([1, 2]), ["cat", "dog"])
    assert entry == {
        "file": "wide.png",
        "width": 1000,
        "height": 200,
        "detections": [
            {"label": "cat", "score": 0.9, "box": [200.0, 20.0, 900.0, 100.0]},
            {"label": "dog", "score": 0.25, "box": [0.0, 0.0, 1000.0, 200.0]},
        ],
    }


def test_inputs_of_one_name_do_not_overwrite_each_other():
    files = [Path("a/x.jpg"), Path("b/x.png"), Path("b/X.gif"), Path("b/y.jpg")]
    assert list(detect._output_names(files).values()) == ["x.jpg", "x_2.jpg", "X_3.jpg", "y.jpg"]


def test_a_picture_is_never_written_over(tmp_path):
    for name in ("a.jpg", "b.png"):
        (tmp_path / name).write_bytes(b"x")
    for file in ("a.jpg", "b.png"):
        files = [tmp_path / file]
        names = detect._output_names(files)
        if file == "a.jpg":
            with pytest.raises(UserError, match="a.jpg there is one of the pictures"):
                detect._refuse_to_overwrite(files, tmp_path, names)
        else:
            detect._refuse_to_overwrite(files, tmp_path, names)
    detect._refuse_to_overwrite([tmp_path / "a.jpg"], tmp_path / "out", {tmp_path / "a.jpg": "a.jpg"})
