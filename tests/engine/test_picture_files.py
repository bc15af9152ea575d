import cv2
import numpy as np

from engine.picture_files import list_pictures, read_pictures


def test_a_folder_stands_for_its_pictures_and_each_file_is_done_once(tmp_path):
    for name in ("b.JPG", "a.png", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "sub.jpg").mkdir()
    files, unread = list_pictures([str(tmp_path), str(tmp_path / "a.png"), str(tmp_path / "no.png")])
    assert [file.name for file in files] == ["a.png", "b.JPG"]
    assert {path.name: reason for path, reason in unread.items()} == {"no.png": "no such file"}


def test_what_cannot_be_read_is_left_out_with_the_reason(tmp_path):
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    good.write_bytes(cv2.imencode(".png", np.full((4, 6, 3), 7, np.uint8))[1].tobytes())
    bad.write_text("no picture")
    unread = {}
    read = list(read_pictures([good, bad, tmp_path / "gone.png"], unread))
    assert [(file, image.shape) for file, image in read] == [(good, (4, 6, 3))]
    assert unread == {bad: "not a picture of a known format", tmp_path / "gone.png": "No such file or directory"}
