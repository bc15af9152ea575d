import json

import cv2
import numpy as np
import pytest
import tensorflow as tf

from engine.errors import UserError
from ssd import dataset


def encoded_picture(height=80, width=120):
    return cv2.imencode(".png", np.full((height, width, 3), 90, np.uint8))[1].tobytes()


def example(boxes=((0.1, 0.1, 0.5, 0.9),), labels=(1,), **replaced):
    """A record of the ancestors' schema; `key=None` leaves a key out."""
    sides = dict(zip(("ymin", "xmin", "ymax", "xmax"), zip(*boxes, strict=True) if boxes else [()] * 4, strict=True))
    values = {
        "image/encoded": [encoded_picture()],
        "image/format": [b"PNG"],
        "image/height": [80],
        "image/width": [120],
        "image/channels": [3],
        "image/shape": [80, 120, 3],
        **{f"image/object/bbox/{side}": list(map(float, values)) for side, values in sides.items()},
        "image/object/bbox/label": list(labels),
        "image/object/bbox/label_text": [b"x"] * len(labels),
        "image/object/bbox/difficult": [0] * len(labels),
        "image/object/bbox/truncated": [0] * len(labels),
    }
    features = tf.train.Features()
    for key, value in (values | {key.replace("__", "/"): value for key, value in replaced.items()}).items():
        if value is None:
            continue
        feature = features.feature[key]
        if value and isinstance(value[0], bytes):
            feature.bytes_list.value.extend(value)
        elif "bbox" in key and key[-3:] in ("min", "max"):
            feature.float_list.value.extend(value)
        else:
            feature.int64_list.value.extend(value)
    return tf.train.Example(features=features).SerializeToString()


def write(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def test_a_record_of_the_ancestors_schema():
    record = dataset.parse_record(example(image__object__bbox__difficult=[1]), number=3, num_classes=2)
    assert record.filename == "record 3"
    np.testing.assert_allclose(record.boxes, [[0.1, 0.1, 0.5, 0.9]], rtol=1e-6)
    assert record.boxes.dtype == np.float32
    assert (record.labels.tolist(), record.difficult.tolist()) == ([1], [True])
    assert (record.height, record.width) == (80, 120)


def test_missing_fields_take_defaults():
    left_out = ("image/height", "image/width", "image/shape", "image/format", "image/object/bbox/difficult")
    record = dataset.parse_record(
        example(**{key.replace("/", "__"): None for key in left_out}, image__object__bbox__truncated=None),
        number=0,
        num_classes=2,
    )
    assert record.difficult.tolist() == [False]
    assert (record.height, record.width) == (80, 120)


def test_a_picture_without_objects():
    record = dataset.parse_record(example(boxes=(), labels=()), number=0, num_classes=2)
    assert record.boxes.shape == (0, 4)
    assert record.labels.shape == record.difficult.shape == (0,)


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (b"garbage", "record 7: not a tf.train.Example"),
        (example(image__encoded=None), "record 7: its record lacks image/encoded"),
        (example(labels=(5,)), "label 5 is not within 1 to 3"),
        (example(labels=(0,)), "label 0 is not within 1 to 3"),
        (example(image__object__bbox__difficult=[0, 0]), "differ in length"),
        (example(image__filename=["été.jpg".encode()], labels=(4,)), "été.jpg: label 4"),
    ],
)
def test_a_bad_record_is_named(record, named):
    with pytest.raises(UserError, match=named):
        dataset.parse_record(record, number=7, num_classes=4)


def test_labels_offset():
    assert dataset.parse_record(example(labels=(3,)), number=0, num_classes=3, labels_offset=1).labels.tolist() == [2]


def test_names_of_the_files_and_classes(tmp_path):
    write(tmp_path / "voc_2012_train_000.tfrecord", [example()] * 2)
    write(tmp_path / "voc_2012_train_001.tfrecord", [example()])
    write(tmp_path / "voc_2012_train_small_000.tfrecord", [example()])
    (tmp_path / "voc_2012.json").write_text(json.dumps({"class_names": ["cat", "猫"]}), encoding="utf-8")
    for name in ("voc_2012", "pascalvoc_2012", ""):
        split = dataset.open_split(str(tmp_path), name, "train")
        assert (split.name, len(split.records), split.class_names) == ("voc_2012", 3, ("cat", "猫"))
    assert split.num_classes(None) == split.num_classes(3) == 3
    assert split.num_classes(21) == 21
    with pytest.raises(UserError, match="--num_classes=2: voc_2012 has 2 classes"):
        split.num_classes(2)


def test_classes_from_the_ancestors_label_list(tmp_path):
    write(tmp_path / "old_train_000.tfrecord", [example()])
    split = dataset.open_split(str(tmp_path), "old", "train")
    assert split.class_names == ()
    assert split.names(3) == ("class 1", "class 2")
    with pytest.raises(UserError, match="--num_classes must be given"):
        dataset.open_split(str(tmp_path), "old", "train").num_classes(None)
    (tmp_path / "labels.txt").write_bytes(b"\xef\xbb\xbf0:background\r\n1:Tie Fighter\r\n2:cat\r\n")
    assert dataset.open_split(str(tmp_path), "old", "train").class_names == ("Tie Fighter", "cat")
    (tmp_path / "labels.txt").write_text("1:cat\n3:dog\n")
    with pytest.raises(UserError, match=r"labels.txt: the ids are \[1, 3\]"):
        dataset.open_split(str(tmp_path), "old", "train")
    (tmp_path / "labels.txt").write_text("1:cat\n2:cat\n")
    with pytest.raises(UserError, match="labels.txt: a name stands for two classes"):
        dataset.open_split(str(tmp_path), "old", "train")
    (tmp_path / "labels.txt").write_bytes("1:café".encode("latin-1"))
    with pytest.raises(UserError, match="labels.txt: cannot be read as UTF-8"):
        dataset.open_split(str(tmp_path), "old", "train")


def test_an_alias_is_no_obstacle_to_files_of_that_name(tmp_path):
    write(tmp_path / "pascalvoc_2012_train_000.tfrecord", [example()])
    assert dataset.open_split(str(tmp_path), "pascalvoc_2012", "train").name == "pascalvoc_2012"


def test_boxes_that_are_no_boxes_are_left_out():
    boxes = ((-0.2, 0.1, 0.5, 1.4), (0.5, 0.5, 0.5, 0.9), (0.6, 0.2, 0.4, 0.8), (0.5, 0.5, 0.1, float("nan")))
    record = dataset.parse_record(example(boxes, (1, 2, 3, 1)), number=0, num_classes=4)
    np.testing.assert_allclose(record.boxes, [[0, 0.1, 0.5, 1]], rtol=1e-6)
    assert record.labels.tolist() == [1]
    assert record.difficult.shape == (1,)


def test_a_size_of_zero_is_no_size():
    record = dataset.parse_record(example(image__height=[0], image__width=[0]), number=0, num_classes=2)
    assert (record.height, record.width) == (80, 120)
    with pytest.raises(UserError, match="record 0: not a picture"):
        dataset.parse_record(example(image__height=None, image__encoded=[b"junk"]), number=0, num_classes=2)


def test_what_is_not_there_is_named(tmp_path):
    write(tmp_path / "voc_trainval_000.tfrecord", [example()])
    with pytest.raises(UserError, match=r"voc_train_\*.tfrecord .*there is: voc_trainval_000.tfrecord"):
        dataset.open_split(str(tmp_path), "voc", "train")
    with pytest.raises(UserError, match="--dataset_dir=/no/where"):
        dataset.open_split("/no/where", "voc", "train")
    with pytest.raises(UserError, match=r"--dataset_name must be given: .* holds 0 data sets"):
        dataset.open_split(str(tmp_path), "", "train")
    write(tmp_path / "empty_train_000.tfrecord", [])
    with pytest.raises(UserError, match="hold no record"):
        dataset.open_split(str(tmp_path), "empty", "train")


def test_a_set_for_classification_is_refused(sample_records, tmp_path):
    (tmp_path / "shapes_train_000.tfrecord").write_bytes((sample_records / "shapes_train_000.tfrecord").read_bytes())
    (tmp_path / "shapes.json").write_text('{"class_names": ["a", "b"], "first_label": 0}')
    with pytest.raises(UserError, match="--dataset_name=shapes: labels start at 0: a set for classification"):
        dataset.open_split(str(tmp_path), "shapes", "train")
