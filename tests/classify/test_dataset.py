import json

import cv2
import numpy as np
import pytest
import tensorflow as tf

from classify import dataset, input_pipeline
from classify.dataset import MemoryExamples
from engine import pipelines
from engine.errors import UserError


def record(label, shade, **features):
    encoded = cv2.imencode(".png", np.full((8, 10, 3), shade, np.uint8))[1].tobytes()
    values = {"image/encoded": encoded, "image/class/label": label, "image/filename": f"{shade}.png".encode()} | features
    feature = {
        key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        if isinstance(value, bytes)
        else tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        for key, value in values.items()
        if value is not None
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write(folder, records, class_names=("a", "b", "c"), first_label=0):
    with tf.io.TFRecordWriter(str(folder / "set_train_000.tfrecord")) as writer:
        for one in records:
            writer.write(one)
    (folder / "set.json").write_text(json.dumps({"class_names": class_names, "first_label": first_label}))
    return folder


def open_records(folder, **flags):
    settings = {"data_dir": "", "dataset_dir": str(folder), "dataset_name": "", "split": "train"} | flags
    return dataset.open_split(**settings)


def test_records_by_number(tmp_path):
    split = open_records(write(tmp_path, [record(2, 50), record(0, 60)]))
    assert (split.name, split.class_names, split.num_classes(None), len(split.examples)) == ("set", ("a", "b", "c"), 3, 2)
    image, label = split.examples.read(1)
    assert label == 0
    np.testing.assert_array_equal(image, np.full((8, 10, 3), 60, np.uint8))
    assert split.names(5) == ("a", "b", "c", "class 3", "class 4")
    with pytest.raises(UserError, match="--num_classes=2: set has 3 classes"):
        split.num_classes(2)


def test_labels_from_one_on_and_their_offset(tmp_path):
    write(tmp_path, [record(1, 50), record(3, 60)], first_label=1)
    split = open_records(tmp_path, labels_offset=1)
    assert split.class_names == ("a", "b", "c")
    assert [split.examples.read(i).label for i in range(2)] == [0, 2]
    assert open_records(tmp_path).class_names == ("class 0", "a", "b", "c")


def test_records_that_lack_something_are_named(tmp_path):
    broken = [
        record(0, 1, **{"image/class/label": None}),
        record(0, 2, **{"image/encoded": None}),
        record(0, 3, **{"image/encoded": b"x"}),
        b"\xff\xff",
    ]
    split = open_records(write(tmp_path, broken))
    for number, named in enumerate(
        (
            "1.png: its record lacks image/class/label",
            "2.png: its record lacks image/encoded",
            "3.png: not a picture",
            "record 3",
        )
    ):
        with pytest.raises(UserError, match=named):
            split.examples.read(number)


def test_where_cifar10_is_looked_for(cifar10_dir):
    for flags in (
        {"data_dir": str(cifar10_dir), "dataset_dir": ""},
        {"data_dir": "/nowhere", "dataset_dir": str(cifar10_dir), "dataset_name": "cifar10"},
    ):
        split = open_records(None, **flags)
        assert (len(split.examples), split.class_names[3]) == (300, "cat")
    assert len(open_records(None, data_dir=str(cifar10_dir), dataset_dir="", split="test").examples) == 130
    with pytest.raises(UserError, match="--dataset_split_name=val: CIFAR-10 has train and test"):
        open_records(None, data_dir=str(cifar10_dir), dataset_dir="", split="val")
    with pytest.raises(UserError, match="--dataset_dir must be given: the folder with the TFRecord files of flowers"):
        open_records(None, data_dir=str(cifar10_dir), dataset_dir="", dataset_name="flowers")


@pytest.fixture
def examples():
    images = np.arange(10, dtype=np.uint8)[:, None, None, None] * np.ones([1, 32, 32, 3], np.uint8)
    return MemoryExamples(images, np.arange(10) % 4)


def test_training_batches_are_each_example_once_an_epoch_and_resumable(examples):
    settings = dict(image_size=24, batch_size=5, num_classes=4, recipe="cifar10", seed=3)
    batches = list(input_pipeline.training_batches(examples, **settings).take(4))
    assert sorted(np.concatenate([b["example"] for b in batches[:2]])) == list(range(10))
    for batch in batches:
        np.testing.assert_array_equal(batch["label"], batch["example"].numpy() % 4)
        assert (batch["image"].shape, batch["image"].dtype) == ((5, 24, 24, 3), tf.float32)
    resumed = next(iter(input_pipeline.training_batches(examples, **settings, start=10, num_preprocessing_threads=1)))
    for name, value in batches[2].items():
        np.testing.assert_array_equal(value, resumed[name])


def test_evaluation_takes_every_example_once(examples):
    settings = dict(image_size=24, num_classes=4, recipe="cifar10")
    for batch_size in (3, 10, 16):
        batches = list(input_pipeline.evaluation_batches(examples, batch_size=batch_size, **settings))
        numbers = np.concatenate([b["example"] for b in batches])
        assert numbers[numbers >= 0].tolist() == list(range(10))
        pictures = np.concatenate([b["image"] for b in batches])
        assert pictures.shape[1:] == (24, 24, 3)
        assert (pictures[numbers >= 0] == np.arange(10)[:, None, None, None]).all()
        assert (pictures[numbers < 0] == 0).all()
    first = list(input_pipeline.evaluation_batches(examples, batch_size=4, num_examples=3, **settings))
    assert [b["example"].numpy().tolist() for b in first] == [[0, 1, 2, -1]]


def test_a_label_beyond_the_classes_is_named(examples):
    settings = dict(image_size=24, batch_size=10, num_classes=3, recipe="none")
    for batches in (
        input_pipeline.training_batches(examples, seed=0, **settings),
        input_pipeline.evaluation_batches(examples, **settings),
    ):
        with pytest.raises(UserError, match=r"example [37]: label 3 is not within 0 to 2 \(--num_classes=3\)"):
            next(pipelines.iterate(batches))
