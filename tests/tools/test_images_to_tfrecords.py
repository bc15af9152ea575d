"""The converter of class folders as a command: what it writes, what it leaves, how it ends."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from engine.errors import UserError
from engine.record_sets import open_records
from tests.tools.class_folder import COMMAND, by_name, classes, config, convert, labels_of, picture, put
from tests.tools.voc_folder import ROOT, files, label_file, manifest, said, voc
from tests.tools.voc_folder import convert as convert_voc
from tools.images_to_tfrecords import main


def command(root, out, *flags, **kwargs):
    argv = [sys.executable, str(COMMAND), f"--dataset_dir={root}", f"--output_dir={out}", "--output_name=set", *flags]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120, **kwargs)


# What is written.


def test_success(tmp_path):
    root = classes(tmp_path / "d", cat=10, dog=5)
    put(root, "dog/old/a.PNG")
    done = command(f"{root}/", tmp_path / "out", "--workers=2", "--validation_fraction=.2", f"--report={tmp_path}/sub/r.json")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert said(done.stderr) == [
        "layout CLASS/picture: 16 pictures, 2 classes; split validation gets 0.2 of them",
        *("train: 13 pictures, in 1 shard", "  cat: 8", "  dog: 5"),
        *("validation: 3 pictures, in 1 shard", "  cat: 2", "  dog: 1"),
        "data set: 0 passed over (hidden, or no pictures)",
    ]
    shards = ["set_train_000.tfrecord", "set_validation_000.tfrecord"]
    assert sorted(files(tmp_path / "out")) == ["labels.txt", "set.json", *shards]
    assert manifest(tmp_path / "out") == {
        "name": "set",
        "class_names": ["cat", "dog"],
        "first_label": 0,
        "splits": {
            "train": {"images": 13, "images_per_class": {"cat": 8, "dog": 5}, "shards": shards[:1]},
            "validation": {"images": 3, "images_per_class": {"cat": 2, "dog": 1}, "shards": shards[1:]},
        },
    }
    assert (tmp_path / "out/labels.txt").read_text() == "0:cat\n1:dog\n"
    report = json.loads((tmp_path / "sub/r.json").read_text())
    assert report["splits"]["train"]["images_per_class"] == {"cat": 8, "dog": 5}


def test_record(tmp_path):
    root = put(tmp_path / "d", "cat/a.jpg", "tie fighter/é/b 1.png", "tie fighter/c.bmp")
    records = convert(root)["train"]
    assert set(records) == {"cat/a.jpg", "tie fighter/é/b 1.png", "tie fighter/c.bmp"}
    for name, record in records.items():
        assert set(record) == {"encoded", "format", "filename", "height", "width", "channels", "class/label", "class/text"}
        assert (record["height"], record["width"], record["channels"]) == ([30], [40], [3])
        assert tf.io.decode_image(record["encoded"][0]).shape == (30, 40, 3)
        if not name.endswith(".bmp"):
            assert record["encoded"] == [(root / name).read_bytes()]
    assert {name: record["format"] for name, record in records.items()} == {
        "cat/a.jpg": [b"jpeg"],
        "tie fighter/é/b 1.png": [b"png"],
        "tie fighter/c.bmp": [b"png"],
    }
    assert (records["cat/a.jpg"]["class/label"], records["cat/a.jpg"]["class/text"]) == ([0], [b"cat"])
    assert (records["tie fighter/c.bmp"]["class/label"], records["tie fighter/c.bmp"]["class/text"]) == ([1], [b"tie fighter"])


def test_readers_find_names_and_first_label(tmp_path):
    convert(classes(tmp_path / "d", cat=2, background=1))
    found = open_records(str(tmp_path / "records"), "", "train")
    assert (found.name, found.label_names, found.first_label, len(found.records)) == ("set", ("background", "cat"), 0, 3)


def test_any_number_of_workers_writes_the_same_bytes(tmp_path):
    root = classes(tmp_path / "d", cat=9, dog=9)
    put(root, "cat/bad.jpg", data=b"")
    done = [command(root, tmp_path / str(workers), f"--workers={workers}", "--samples_per_file=5") for workers in (1, 3)]
    assert [process.returncode for process in done] == [0, 0]
    assert said(done[0].stderr) == said(done[1].stderr)
    assert files(tmp_path / "1") == files(tmp_path / "3")
    assert len(manifest(tmp_path / "1")["splits"]["train"]["shards"]) == 4


def test_shards_mix_the_classes(tmp_path):
    convert(classes(tmp_path / "d", cat=30, dog=30), samples_per_file=20)
    for shard in range(3):
        path = str(tmp_path / f"records/set_train_{shard:03d}.tfrecord")
        held = [tf.train.Example.FromString(record.numpy()) for record in tf.data.TFRecordDataset(path)]
        labels = [example.features.feature["image/class/label"].int64_list.value[0] for example in held]
        assert 4 <= sum(labels) <= 16
        assert labels != sorted(labels)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_any_name_in_any_locale(tmp_path, locale):
    root = put(tmp_path / "données d'été", "猫/猫 1.jpg", "café/b.jpg")
    os.rename(root / "café/b.jpg", os.fsencode(root / "café") + b"/\xff.jpg")
    put(root, "café/bad.jpg", data=b"")
    out = tmp_path / "sortie [é]*"
    done = command(
        root, out, "--validation_fraction=0", f"--report={tmp_path}/é.json", "--workers=2", env={**os.environ, "LC_ALL": locale}
    )
    assert done.returncode == 0, done.stderr
    assert labels_of(by_name(out)["train"]) == {"猫/猫 1.jpg": 1, "café/?.jpg": 0}
    assert manifest(out)["class_names"] == ["café", "猫"]


# Files that cannot be used.


def test_bad_files_are_named_and_left_out(tmp_path, capsys):
    root = classes(tmp_path / "d", cat=2)
    put(root, "cat/cut.jpg", data=picture()[:-100])
    put(root, "cat/page.jpg", data=b"<html>404</html>")
    put(root, "dog/empty.png", data=b"")
    (root / "cat/gone.jpg").symlink_to("nowhere.jpg")
    (root / "cat/self.jpg").symlink_to("self.jpg")
    os.mkfifo(root / "cat/pipe.jpg")
    records = convert(root, report=str(tmp_path / "r.json"))
    assert set(records["train"]) == {"cat/000.jpg", "cat/001.jpg"}
    errors = capsys.readouterr().err
    assert "cat/cut.jpg: cut-off JPEG" in errors
    assert "cat/page.jpg: HTML page, not a picture (skipped)" in errors
    assert "dog/empty.png: empty file (skipped)" in errors
    assert "cat/gone.jpg: a link to nowhere (skipped)" in errors
    assert "cat/self.jpg: a link to nowhere (skipped)" in errors
    assert "cat/pipe.jpg: not a regular file (skipped)" in errors
    assert "  without a usable picture: dog" in errors
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["splits"]["train"]["skipped"] == {"unusable picture": 3}
    assert report["data_set"]["skipped"] == {"unusable picture": 3}
    assert manifest(tmp_path / "records")["class_names"] == ["cat", "dog"]


def test_strict_writes_nothing_when_a_file_is_bad(tmp_path):
    root = classes(tmp_path / "d", cat=2)
    (root / "cat/loop").symlink_to(".")
    convert(root, strict=True)
    before = files(tmp_path / "records")
    put(root, "cat/bad.jpg", data=b"")
    put(root, "stray.jpg")
    with pytest.raises(UserError, match="--strict: nothing is written, because 2 files"):
        convert(root, strict=True)
    assert files(tmp_path / "records") == before


def test_nothing_usable_is_an_error(tmp_path):
    done = command(put(tmp_path / "d", "cat/a.jpg", "dog/a.jpg", data=b""), tmp_path / "out")
    assert done.returncode == 1
    assert "no usable picture (2 files skipped)" in said(done.stderr)[-1]
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--dataset_dir=/nowhere"], "--dataset_dir=/nowhere: No such file"),
        (["--validation_fraction=1"], "--validation_fraction=1.0: must be below 1"),
        (["--validation_fraction=-.1"], "--validation_fraction=-0.1"),
        (["--labels=/nowhere.txt"], "/nowhere.txt"),
        (["--output_name=a/b"], "--output_name='a/b'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_1(tmp_path, flags, part):
    done = command(classes(tmp_path / "d", cat=1), tmp_path / "out", *flags)
    assert done.returncode == 1
    assert part in done.stderr
    assert len(said(done.stderr)) == 1
    assert not (tmp_path / "out").exists()


def test_tensorflow_is_not_loaded():
    program = "import sys, tools.images_to_tfrecords; print('tensorflow' in sys.modules, 'lxml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False False\n"


def test_the_same_bytes_twice(tmp_path, capsys):
    root = put(tmp_path / "d", "train/cat/a.jpg", "train/cat/b.jpg", data=picture(1))
    put(root, "train/dog/c.jpg", "test/cat/d.jpg", data=picture(1))
    put(root, "test/dog/e.jpg", data=picture(2))
    records = convert(root, report=str(tmp_path / "r.json"))
    assert (len(records["train"]), len(records["test"])) == (3, 2)
    splits = json.loads((tmp_path / "r.json").read_text())["splits"]
    assert splits["train"]["warned"] == {"the same picture in two classes": 1}
    assert splits["test"]["warned"] == {"the same picture in two splits": 1}
    errors = capsys.readouterr().err
    (twin,) = [line for line in errors.splitlines() if "of another class (warning)" in line]
    assert "train/dog/c.jpg" in twin
    assert "train/cat/" in twin
    assert "test/cat/d.jpg: the same picture as train/" in errors
    assert "of split train (warning)" in errors


# Reruns and other data sets in the folder.


def test_a_rerun_replaces_both_splits(tmp_path):
    root = classes(tmp_path / "d", cat=8, dog=8)
    assert set(convert(root, validation_fraction=0.25, samples_per_file=2)) == {"train", "validation"}
    (tmp_path / "records/mine.txt").write_text("kept")
    put(root, "ant/a.jpg")
    assert len(convert(root)["train"]) == 17
    assert sorted(files(tmp_path / "records")) == ["labels.txt", "mine.txt", "set.json", "set_train_000.tfrecord"]
    assert list(manifest(tmp_path / "records")["splits"]) == ["train"]


def test_split_folders_of_two_runs_need_the_same_classes(tmp_path):
    convert(classes(tmp_path / "a", "train", cat=2, dog=1), tmp_path / "out")
    before = files(tmp_path / "out")
    root = classes(tmp_path / "b", "test", dog=2)
    with pytest.raises(UserError, match="lists the classes cat, dog for its split train, this run has dog"):
        convert(root, tmp_path / "out")
    assert files(tmp_path / "out") == before
    records = convert(root, tmp_path / "out", labels=label_file(tmp_path / "names.txt", "cat", "dog"))
    assert labels_of(records["test"]) == {"test/dog/000.jpg": 1, "test/dog/001.jpg": 1}
    assert len(records["train"]) == 3


def test_a_set_for_detection_is_not_replaced(tmp_path):
    convert_voc(voc(tmp_path / "voc"))
    before = files(tmp_path / "records")
    root = classes(tmp_path / "d", cat=1, dog=1)
    with pytest.raises(UserError, match=r"set.json is a data set for detection, this run makes one for classification"):
        convert(root)
    assert files(tmp_path / "records") == before
    # Nor is its class list, whose ids start at 1.
    convert(root, output_name="other")
    assert (tmp_path / "records/labels.txt").read_text() == "1:cat\n2:dog\n"
    with pytest.raises(UserError, match=r"other.json is a data set for classification"):
        convert_voc(tmp_path / "voc", output_name="other")


def test_failed_write_leaves_no_trace(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(UserError, match="cannot write to .*out: File exists"):
        main(config(classes(tmp_path / "d", cat=1), tmp_path / "out"))
    assert (tmp_path / "out").read_text() == ""
