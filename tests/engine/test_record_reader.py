import collections
import os
import resource

import numpy as np
import pytest
import tensorflow as tf

from engine import record_reader
from engine.errors import UserError
from engine.record_reader import RecordFiles


def write(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path


@pytest.fixture
def files(tmp_path):
    contents = [[b"", b"a", b"a" * 5000], [], [b"b", b"c"]]
    return [write(tmp_path / f"{i}.tfrecord", records) for i, records in enumerate(contents)], [
        record for records in contents for record in records
    ]


def test_every_record_by_its_position(files):
    paths, expected = files
    records = RecordFiles(paths)
    assert len(records) == 5
    assert [records.read(i) for i in (4, 0, 3, 1, 2)] == [expected[i] for i in (4, 0, 3, 1, 2)]
    assert len(RecordFiles([])) == 0


def test_a_damaged_file_is_named(files, tmp_path):
    whole = files[0][0].read_bytes()
    for name, data in (("cut", whole[:-3]), ("head", whole + b"\x05"), ("text", b"no records, just some text")):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(UserError, match=f"{name}: cut short, or no TFRecord file"):
            RecordFiles([path])
    with pytest.raises(UserError, match="nowhere: cannot be read"):
        RecordFiles([tmp_path / "nowhere"])


def test_a_flipped_bit_is_found(tmp_path):
    path = write(tmp_path / "records", [b"first", b"second"])
    data = bytearray(path.read_bytes())
    data[data.index(b"second")] ^= 1
    path.write_bytes(data)
    records = RecordFiles([path])
    assert records.read(0) == b"first"
    with pytest.raises(UserError, match="records: damaged at byte 33"):
        records.read(1)


def positions(num_examples, take, **kwargs):
    dataset = record_reader.shuffled_examples(num_examples, **kwargs)
    return [(int(epoch), int(example)) for epoch, example in dataset.take(take)]


@pytest.mark.parametrize("num_examples", [1, 2, 7, 100])
def test_each_epoch_is_another_permutation(num_examples):
    order = positions(num_examples, 3 * num_examples, seed=3, start=0)
    epochs = [order[i * num_examples : (i + 1) * num_examples] for i in range(3)]
    for number, epoch in enumerate(epochs):
        assert {e for e, _ in epoch} == {number}
        assert sorted(example for _, example in epoch) == list(range(num_examples))
    if num_examples == 100:
        assert len({tuple(example for _, example in epoch) for epoch in epochs}) == 3


def test_the_order_goes_on_from_any_position():
    whole = positions(10, 35, seed=5, start=0)
    assert positions(10, 18, seed=5, start=17) == whole[17:]
    assert positions(10, 35, seed=6, start=0) != whole


def test_first_places_are_shared_out_evenly():
    first = collections.Counter(example for epoch, example in positions(5, 5 * 2000, seed=1, start=0)[::5])
    assert all(abs(count - 400) < 80 for count in first.values())  # 4.5 standard deviations


def test_records_come_in_order_whatever_the_number_of_readers(files):
    paths, expected = files
    records = RecordFiles(paths)
    for readers in (1, 4):
        order = record_reader.shuffled_examples(5, seed=0, start=0).take(10)
        read = list(record_reader.read_records(order, records.read, num_parallel_reads=readers))
        assert [record.numpy() for _, _, record in read] == [expected[int(example)] for _, example, _ in read]


def test_shards_of_a_split(tmp_path):
    for name in ("voc_train_000", "voc_train_001", "voc_train_small_000", "voc_train_old", "voc_val_000"):
        write(tmp_path / f"{name}.tfrecord", [b"x"])
    for name in ("other_train_10", "other_train_9", "other_val_00000-of-00002", "other_val_00001-of-00002"):
        write(tmp_path / f"{name}.tfrecord", [b"x"])

    def found(*names):
        return [path.stem for path in record_reader.find_shards(tmp_path, *names)]

    assert found("voc", "train") == ["voc_train_000", "voc_train_001"]
    assert found("other", "train") == ["other_train_9", "other_train_10"]
    assert found("other", "val") == ["other_val_00000-of-00002", "other_val_00001-of-00002"]
    with pytest.raises(UserError, match=r"no file voc_test_\*.tfrecord \(\* a number\) in .*there is: "):
        record_reader.find_shards(tmp_path, "voc", "test")
    (tmp_path / ".voc.ready").mkdir()
    with pytest.raises(UserError, match="the conversion of voc was interrupted"):
        record_reader.find_shards(tmp_path, "voc", "train")


def test_more_files_than_a_process_may_keep_open(tmp_path):
    paths = [write(tmp_path / f"{n}.tfrecord", [b"%d" % n]) for n in range(120)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
    try:
        records = RecordFiles(paths)
        assert [records.read(n) for n in range(120)] == [b"%d" % n for n in range(120)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_positions_beyond_two_to_the_31(tmp_path):
    start = 3 * 10**9
    epochs, examples = zip(*positions(7, 7, seed=0, start=start), strict=True)
    assert epochs[0] == start // 7
    assert len(set(np.array(examples)[np.array(epochs) == epochs[0]])) == sum(epoch == epochs[0] for epoch in epochs)
