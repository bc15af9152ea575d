import os
import resource

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
