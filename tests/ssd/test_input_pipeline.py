import json

import cv2
import numpy as np
import pytest

from engine import images, stored_images
from engine.pipelines import Share
from engine.record_reader import RecordFiles
from ssd import dataset, input_pipeline, nets
from ssd.anchors import make_anchors
from ssd.preprocessing import augment_numpy, resize_for_evaluation
from tests.ssd.test_dataset import encoded_picture, example, write

ANCHORS = make_anchors(nets.anchor_spec("ssd_tiny", "voc"))
SETTINGS = dict(image_size=160, num_classes=4, recipe="paper", matching="bipartite", match_threshold=0.5, seed=3)


@pytest.fixture(scope="module")
def records(sample_records):
    return dataset.open_split(str(sample_records), "shapes", "train").records


def first(batches, count):
    return [{name: value.numpy() for name, value in batch.items()} for batch in batches.take(count)]


def assert_same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_shapes_are_static(records):
    spec = input_pipeline.training_batches(records, ANCHORS, batch_size=5, **SETTINGS).element_spec
    shapes = {name: (tuple(value.shape), value.dtype.name) for name, value in spec.items()}
    assert shapes == {
        "image": ((5, 160, 160, 3), "uint8"),
        "target_labels": ((5, 2390), "int64"),
        "target_offsets": ((5, 2390, 4), "float32"),
        "target_ious": ((5, 2390), "float32"),
        "example": ((5,), "int64"),
    }


def test_batches_do_not_depend_on_the_number_of_threads(records):
    few, many = (
        input_pipeline.training_batches(records, ANCHORS, batch_size=5, num_readers=n, num_preprocessing_threads=n, **SETTINGS)
        for n in (1, 6)
    )
    assert_same(first(few, 6), first(many, 6))


def test_batches_go_on_in_the_middle_of_an_epoch(records):
    whole = first(input_pipeline.training_batches(records, ANCHORS, batch_size=5, **SETTINGS), 8)
    rest = input_pipeline.training_batches(records, ANCHORS, batch_size=5, start=15, **SETTINGS)
    assert_same(first(rest, 5), whole[3:])
    seen = np.concatenate([batch["example"] for batch in whole])[:24]
    assert sorted(seen) == list(range(24))


def test_a_process_reads_its_share_of_each_batch(records):
    whole = first(input_pipeline.training_batches(records, ANCHORS, batch_size=6, **SETTINGS), 5)
    for index in (0, 2):
        share = input_pipeline.training_batches(records, ANCHORS, batch_size=6, share=Share(index, 3), **SETTINGS)
        rows = slice(2 * index, 2 * index + 2)
        assert_same(first(share, 5), [{name: value[rows] for name, value in batch.items()} for batch in whole])


def test_a_sample_can_be_made_again(records):
    batch = first(input_pipeline.training_batches(records, ANCHORS, batch_size=24, **SETTINGS), 2)[1]
    number = int(batch["example"][7])
    parsed = dataset.parse_record(records.read(number), number=number, num_classes=4)
    sample = {"image": images.decode(parsed.encoded), "boxes": parsed.boxes, "labels": parsed.labels}
    again = augment_numpy(sample, "paper", 160, seed=3, epoch=1, example=number)
    np.testing.assert_array_equal(batch["image"][7], again["image"])


def test_pictures_of_0_1_and_113_objects_in_one_batch(tmp_path):
    rng = np.random.default_rng(0)
    starts = rng.uniform(0, 0.8, [113, 2])
    many = np.concatenate([starts, starts + rng.uniform(0.05, 0.2, [113, 2])], axis=1)
    path = tmp_path / "mixed_train_000.tfrecord"
    write(path, [example((), ()), example(), example(many.tolist(), rng.integers(1, 4, 113).tolist())])
    settings = SETTINGS | {"recipe": "none"}
    (batch,) = first(input_pipeline.training_batches(RecordFiles([path]), ANCHORS, batch_size=3, **settings), 1)
    positives = {int(n): int(labels.sum()) for n, labels in zip(batch["example"], batch["target_labels"] > 0, strict=True)}
    assert positives[0] == 0
    assert positives[1] >= 1
    assert positives[2] >= 113
    assert np.isfinite(batch["target_offsets"]).all()


@pytest.mark.parametrize("batch_size", [1, 3, 7, 10])
def test_evaluation_sees_every_example_once(sample_records, batch_size):
    records = dataset.open_split(str(sample_records), "shapes", "val").records
    batches = first(input_pipeline.evaluation_batches(records, image_size=160, batch_size=batch_size), 100)
    assert {batch["image"].shape for batch in batches} == {(batch_size, 160, 160, 3)}
    numbers = np.concatenate([batch["example"] for batch in batches])
    assert numbers[numbers >= 0].tolist() == list(range(7))


def jpeg_with_orientation(image, orientation):
    data = cv2.imencode(".jpg", image)[1].tobytes()
    tag = b"\x12\x01\x03\x00\x01\x00\x00\x00" + orientation.to_bytes(2, "little") + b"\x00\x00"
    tiff = b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00" + tag + b"\x00\x00\x00\x00"
    return data[:2] + b"\xff\xe1" + (len(tiff) + 2).to_bytes(2, "big") + tiff + data[2:]


def pictures():
    rng = np.random.default_rng(1)
    smooth = cv2.resize(rng.integers(0, 256, [6, 9, 3], np.uint8), (120, 80), interpolation=cv2.INTER_CUBIC)
    with_alpha = np.dstack([smooth, np.full((80, 120), 0, np.uint8)])
    deep = smooth.astype(np.uint16) * 257
    return {
        "colour.jpg": cv2.imencode(".jpg", smooth)[1].tobytes(),
        "grey.jpg": cv2.imencode(".jpg", smooth[..., 0])[1].tobytes(),
        "turned.jpg": jpeg_with_orientation(smooth, 6),
        "wrong_tag.jpg": jpeg_with_orientation(smooth, 0),
        "alpha.png": cv2.imencode(".png", with_alpha)[1].tobytes(),
        "deep.png": cv2.imencode(".png", deep)[1].tobytes(),
        "webp.jpg": cv2.imencode(".webp", smooth)[1].tobytes(),
    }


def test_training_and_detection_feed_the_net_the_same_pixels(tmp_path):
    from tests.conftest import run_command

    for folder in ("JPEGImages", "Annotations"):
        (tmp_path / "voc" / folder).mkdir(parents=True)
    for name, data in pictures().items():
        (tmp_path / "voc" / "JPEGImages" / name).write_bytes(data)
        (tmp_path / "voc" / "Annotations" / f"{name[:-4]}.xml").write_text(
            "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>50</xmax><ymax>60</ymax></bndbox>"
            "</object></annotation>"
        )
    convert = ("tools/pascalvoc_to_tfrecords.py", f"--dataset_dir={tmp_path / 'voc'}", f"--output_dir={tmp_path}")
    done = run_command(*convert, "--output_name=set")
    assert done.returncode == 0, done.stderr
    split = dataset.open_split(str(tmp_path), "set", "train")
    (batch,) = first(input_pipeline.evaluation_batches(split.records, image_size=160, batch_size=7), 1)
    for number, seen in zip(batch["example"], batch["image"], strict=True):
        name = split.parse(int(number), num_classes=2).filename
        detected = resize_for_evaluation(stored_images.decode_as_stored(pictures()[name]), 160)
        np.testing.assert_array_equal(seen, detected, err_msg=name)
    assert json.loads((tmp_path / "set.json").read_text())["splits"]["train"]["images"] == 7


def test_a_record_without_a_size_is_read(tmp_path):
    path = tmp_path / "old_train_000.tfrecord"
    write(path, [example(image__height=None, image__width=None, image__encoded=[encoded_picture(50, 70)])])
    assert dataset.Split("old", "train", RecordFiles([path]), ()).parse(0, num_classes=2)[-2:] == (50, 70)
