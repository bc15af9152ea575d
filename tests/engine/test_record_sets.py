import json

import pytest
import tensorflow as tf

from engine.errors import UserError
from engine.record_sets import open_records


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
