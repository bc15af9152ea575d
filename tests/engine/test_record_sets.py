import json

import pytest
import tensorflow as tf

from engine.errors import UserError
from engine.record_sets import is_background, name_labels, open_records, refuse_other_names


@pytest.fixture
def folder(tmp_path):
    for name in ("a_train_000", "a_train_001", "b_train_000"):
        with tf.io.TFRecordWriter(str(tmp_path / f"{name}.tfrecord")) as writer:
            writer.write(name.encode())
    return tmp_path


def test_names_and_first_label_come_from_the_manifest(folder):
    (folder / "a.json").write_text(json.dumps({"class_names": ["x", "y"], "first_label": 0}))
    (folder / "other.json").write_text("[]")
    found = open_records(folder, "", "train")
    assert (found.name, found.split, found.label_names, found.first_label) == ("a", "train", ("x", "y"), 0)
    assert [found.records.read(i) for i in range(len(found.records))] == [b"a_train_000", b"a_train_001"]
    (folder / "b.json").write_text(json.dumps({"class_names": ["z"]}))
    assert open_records(folder, "b", "train")[3:] == (("z",), 1)
    with pytest.raises(UserError, match=r"--dataset_name must be given: .* holds 2 data sets \(a, b\)"):
        open_records(folder, "", "train")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:daisy\n1:rose\n", (("daisy", "rose"), 0)),
        ("0:background\n1:daisy\n", (("daisy",), 1)),
        ("1:daisy\n2:rose\n", (("daisy", "rose"), 1)),
        ("\n", ((), 1)),
    ],
)
def test_names_come_from_labels_txt_otherwise(folder, text, expected):
    (folder / "labels.txt").write_text(text)
    assert open_records(folder, "b", "train")[3:] == expected


def test_aliases_are_tried_when_there_is_no_such_file(folder):
    assert open_records(folder, "pascal_b", "train", {"pascal_b": "b"}).name == "b"
    assert open_records(folder, "a", "train", {"a": "b"}).name == "a"


def test_what_is_not_there_is_named(folder):
    with pytest.raises(UserError, match="--dataset_dir=/nowhere: no such folder"):
        open_records("/nowhere", "a", "train")
    with pytest.raises(UserError, match=r"no file a_val_\*.tfrecord .*there is: a_train_000.tfrecord"):
        open_records(folder, "a", "val")
    for text, named in (("2:a\n3:b", r"ids are \[2, 3\]"), ("0:a\n2:b", r"ids are \[0, 2\]"), ("a", "not of the form id:name")):
        (folder / "labels.txt").write_text(text)
        with pytest.raises(UserError, match=named):
            open_records(folder, "b", "train")


def test_names_are_filled_up():
    assert name_labels(("cat", "dog"), range(1, 5)) == ("cat", "dog", "class 3", "class 4")
    assert name_labels(("cat",), range(3)) == ("cat", "class 1", "class 2")
    assert name_labels((), range(0)) == ()


def test_names_that_mean_no_object():
    assert all(map(is_background, ("background", "Background", "__background__", "none")))
    assert not any(map(is_background, ("", "backgrounds", "noneed")))


def test_another_order_of_the_classes_is_refused():
    names = ("cat", "dog", "猫")
    refuse_other_names("set", names, "c", (*names, "more"))
    refuse_other_names("set", (), "c", names)
    for others in (names[::-1], names[:2]):
        with pytest.raises(UserError, match=f"c was trained on the classes {', '.join(others)}, but set has cat, dog, 猫"):
            refuse_other_names("set", names, "c", others)
