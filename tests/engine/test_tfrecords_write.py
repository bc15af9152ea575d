import contextlib

import pytest
import tensorflow as tf

from engine.examples import bytes_feature, float_feature, int64_feature, serialize_example
from engine.tfrecords import UNFINISHED, ShardWriter, frame, obsolete_shards, shard_names


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"b": [], "f": [], "i": []},
        {"b": [b""], "f": [0.0], "i": [0]},
        {"b": [b"x" * 127, b"y" * 128, "猫".encode()], "f": [0.1, -1e-30, 1.0], "i": [127, 128, 300, 2**62, -1, -(2**63)]},
        {"b": [bytes(70000)], "z" * 200: [1]},
    ],
)
def test_examples_are_tensorflows(values):
    ours, theirs = {}, tf.train.Example()
    for key, content in values.items():
        if key == "b":
            ours[key] = bytes_feature(content)
            theirs.features.feature[key].bytes_list.SetInParent()
            theirs.features.feature[key].bytes_list.value.extend(content)
        elif key == "f":
            ours[key] = float_feature(content)
            theirs.features.feature[key].float_list.SetInParent()
            theirs.features.feature[key].float_list.value.extend(content)
        else:
            ours[key] = int64_feature(content)
            theirs.features.feature[key].int64_list.SetInParent()
            theirs.features.feature[key].int64_list.value.extend(content)
    theirs.features.SetInParent()
    assert tf.train.Example.FromString(serialize_example(ours)) == theirs
    # The key order is ours; TensorFlow's own deterministic order is the same one.
    assert serialize_example(ours) == theirs.SerializeToString(deterministic=True)


def test_frames_are_tensorflows(tmp_path):
    records = [b"", b"a", b"b" * 70000]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    assert b"".join(map(frame, records)) == (tmp_path / "theirs").read_bytes()


def write(folder, stem, count, samples_per_file):
    with ShardWriter(folder, stem, samples_per_file) as writer:
        for number in range(count):
            writer.write(frame(str(number).encode()))
    return writer.names


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [1]), (3, [3]), (4, [3, 1]), (6, [3, 3]), (7, [3, 3, 1])])
def test_shards_hold_every_record_once_and_none_is_empty(tmp_path, count, sizes):
    names = write(tmp_path, "set_train", count, 3)
    assert names == [f"set_train_{shard:03d}.tfrecord" for shard in range(len(sizes))]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name + UNFINISHED for name in names]
    contents = [[r.numpy() for r in tf.data.TFRecordDataset(str(tmp_path / (name + UNFINISHED)))] for name in names]
    assert [len(content) for content in contents] == sizes
    assert [record for content in contents for record in content] == [str(number).encode() for number in range(count)]


def test_more_than_a_thousand_shards_sort_in_order(tmp_path):
    names = write(tmp_path, "set_train", 1001, 1)
    assert (names[0], names[-1], len(names)) == ("set_train_0000.tfrecord", "set_train_1000.tfrecord", 1001)
    assert names == sorted(names)
    assert write(tmp_path, "set_val", 1000, 1)[-1] == "set_val_999.tfrecord"


def test_unfinished_shards_match_no_reading_pattern(tmp_path):
    with contextlib.suppress(RuntimeError), ShardWriter(tmp_path, "set_train", 2) as writer:
        for _ in range(3):
            writer.write(frame(b"x"))
        raise RuntimeError
    write(tmp_path, "set_train", 3, 2)
    assert list(tmp_path.iterdir())
    assert list(tmp_path.rglob("set_train_*.tfrecord")) == []


def test_shards_of_another_split_are_not_taken(tmp_path):
    for name in ("a_train_001", "a_train_000", "a_train_small_000", "a_train_", "a_train_00", "xa_train_000", "a_train_0001"):
        (tmp_path / f"{name}.tfrecord").touch()
    (tmp_path / "a_train_002.tfrecord.part").touch()
    assert shard_names(tmp_path, "a_train") == ["a_train_000.tfrecord", "a_train_0001.tfrecord", "a_train_001.tfrecord"]
    # The first of the new shards replaces its namesake in one step; all others go first.
    assert obsolete_shards(tmp_path, "a_train", ["a_train_000.tfrecord"]) == ["a_train_0001.tfrecord", "a_train_001.tfrecord"]
