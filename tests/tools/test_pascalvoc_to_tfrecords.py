"""The converter as a command: what it writes, what it leaves, how it ends."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from engine.errors import UserError
from tests.tools.voc_folder import (
    COMMAND,
    ROOT,
    boxes,
    config,
    convert,
    files,
    label_file,
    manifest,
    names,
    picture,
    read,
    said,
    split_file,
    voc,
)
from tools.pascalvoc_to_tfrecords import main

BCCD = next((path for path in (ROOT / "shared/data/bccd", ROOT.parent / "shared/data/bccd") if path.is_dir()), None)


def command(root, out, *flags, **kwargs):
    argv = [sys.executable, str(COMMAND), f"--dataset_dir={root}", f"--output_dir={out}", "--output_name=set", *flags]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120, **kwargs)


def many(root, count):
    for number in range(count):
        voc(root, f"{number:03d}", image=picture(value=number), objects=[("cat", 1, 2, 3 + number, 40)])
    return root


# The command line.


def test_success(tmp_path):
    root = voc(tmp_path / "d")
    done = command(f"{root}/", tmp_path / "out", "--workers=2", f"--report={tmp_path}/sub/report.json")
    assert (done.returncode, done.stdout) == (0, "")
    assert said(done.stderr)[0] == "train: 1 picture (0 without objects), 1 object, in 1 shard"
    assert sorted(files(tmp_path / "out")) == ["labels.txt", "set.json", "set_train_000.tfrecord"]
    (record,) = read(tmp_path / "out")
    pictures = {"encoded", "format", "filename", "height", "width", "channels", "shape"}
    assert set(record) == pictures | {"xmin", "ymin", "xmax", "ymax", "label", "label_text", "difficult", "truncated"}
    assert manifest(tmp_path / "out") == {
        "name": "set",
        "class_names": ["cat"],
        "splits": {
            "train": {
                "images": 1,
                "objects": 1,
                "without_objects": 0,
                "objects_per_class": {"cat": 1},
                "shards": ["set_train_000.tfrecord"],
            }
        },
    }
    assert json.loads((tmp_path / "sub/report.json").read_text())["splits"]["train"]["images"] == 1


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--dataset_dir=/nowhere"], "--dataset_dir=/nowhere"),
        (["--workers=-1"], "workers"),
        (["--samples_per_file=0"], "samples_per_file"),
        (["--workers=many"], "workers"),
        (["--datset_dir=x"], "datset_dir"),
        (["--split=val", "--labels=/nowhere.txt"], "/nowhere.txt"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_1(tmp_path, flags, part):
    done = command(voc(tmp_path / "d"), tmp_path / "out", *flags)
    assert done.returncode == 1
    assert part in done.stderr
    assert len(said(done.stderr)) == 1
    assert not (tmp_path / "out").exists()


def test_strict_writes_nothing_when_a_file_is_bad(tmp_path):
    root = voc(tmp_path / "d")
    assert command(root, tmp_path / "out", "--strict").returncode == 0
    before = files(tmp_path / "out")
    voc(root, "b", image=b"")
    done = command(root, tmp_path / "out", "--strict")
    assert done.returncode == 1
    assert "b.jpg: empty file (skipped)" in done.stderr
    assert "--strict: nothing is written, because 1 file" in said(done.stderr)[-1]
    assert files(tmp_path / "out") == before
    assert command(root, tmp_path / "out").returncode == 0


def test_strict_does_not_mind_pictures_left_out_on_request(tmp_path):
    root = voc(tmp_path / "d")
    voc(root, "empty", objects=())
    assert names(convert(root, strict=True, skip_empty=True)) == ["a.jpg"]


def test_nothing_usable_is_an_error(tmp_path):
    root = voc(tmp_path / "d", image=b"")
    done = command(root, tmp_path / "out")
    assert done.returncode == 1
    assert "no usable picture in split train (1 file" in said(done.stderr)[-1]
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_help_names_every_flag():
    done = subprocess.run([sys.executable, str(COMMAND), "--help"], capture_output=True, text=True, check=True, cwd=ROOT)
    for name in (
        "dataset_dir",
        "labels",
        "workers",
        "strict",
        "report",
        "skip_unknown",
        "skip_empty",
        "unlabelled_as_background",
    ):
        assert f"--{name}" in done.stdout.replace("[no]", "")


def test_tensorflow_is_not_loaded():
    program = "import sys, tools.pascalvoc_to_tfrecords; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_any_name_in_any_locale(tmp_path, locale):
    root = voc(tmp_path / "données d'été", "猫 1", objects=[("猫", 1, 2, 3, 4)])
    split_file(root, "train", "猫 1\n")
    out = tmp_path / "sortie [é]*"
    done = command(root, out, "--workers=2", f"--report={tmp_path}/é.json", env={**os.environ, "LC_ALL": locale})
    assert done.returncode == 0, done.stderr
    (record,) = read(out)
    assert record["filename"] == ["猫 1.jpg".encode()]
    assert record["label_text"] == ["猫".encode()]
    assert manifest(out)["class_names"] == ["猫"]


def test_name_that_is_no_text(tmp_path):
    root = voc(tmp_path / "d")
    for folder, ext in (("Annotations", b".xml"), ("JPEGImages", b".jpg")):
        path = os.fsencode(root / folder)
        os.rename(path + b"/a" + ext, path + b"/\xff" + ext)
    (root / "Annotations/b.xml").write_bytes(b"")
    done = command(root, tmp_path / "out", f"--report={tmp_path}/r.json")
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "out")[0]["filename"] == [b"?.jpg"]
    assert json.loads((tmp_path / "r.json").read_text())


# Shards.


@pytest.mark.parametrize(("count", "shards"), [(1, 1), (3, 1), (4, 2), (6, 2)])
def test_shard_borders(tmp_path, count, shards):
    records = convert(many(tmp_path / "d", count), samples_per_file=3)
    assert names(records) == [f"{number:03d}.jpg" for number in range(count)]
    stored = manifest(tmp_path / "records")["splits"]["train"]
    assert stored["shards"] == [f"set_train_{shard:03d}.tfrecord" for shard in range(shards)]
    for shard in stored["shards"]:
        assert sum(1 for _ in tf.data.TFRecordDataset(str(tmp_path / "records" / shard))) in (1, 3)


def test_any_number_of_workers_writes_the_same_bytes(tmp_path):
    root = many(tmp_path / "d", 13)
    voc(root, "005b", image=b"")
    voc(root, "006b", image=picture(ext=".webp"))
    done = [command(root, tmp_path / str(workers), f"--workers={workers}", "--samples_per_file=4") for workers in (1, 3)]
    assert [process.returncode for process in done] == [0, 0]
    assert said(done[0].stderr) == said(done[1].stderr)
    assert files(tmp_path / "1") == files(tmp_path / "3")
    assert len(files(tmp_path / "1")) == 4 + 2


def test_a_rerun_replaces_its_split_and_leaves_the_others(tmp_path):
    root = many(tmp_path / "d", 5)
    split_file(root, "train", "000\n001\n002\n003\n")
    split_file(root, "val", "004\n")
    main(config(root, samples_per_file=1))
    assert sorted(manifest(tmp_path / "records")["splits"]) == ["train", "val"]
    (tmp_path / "records/mine.txt").write_text("kept")
    split_file(root, "train", "003\n002\n")
    assert names(convert(root, split="train", samples_per_file=1)) == ["003.jpg", "002.jpg"]
    assert sorted(files(tmp_path / "records")) == [
        *("labels.txt", "mine.txt", "set.json", "set_train_000.tfrecord", "set_train_001.tfrecord", "set_val_000.tfrecord")
    ]
    splits = manifest(tmp_path / "records")["splits"]
    assert (splits["train"]["images"], splits["val"]["images"]) == (2, 1)


def test_failed_write_leaves_the_old_set(tmp_path):
    """A limit on the size of a file stands in for a full disk: both fail in the middle of a write."""
    root = many(tmp_path / "d", 5)
    assert command(root, tmp_path / "out").returncode == 0
    before = files(tmp_path / "out")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # noqa: E731
    done = command(root, tmp_path / "out", "--samples_per_file=3", "--workers=2", preexec_fn=limit)
    assert done.returncode == 1
    assert said(done.stderr) == [f"error: cannot write to {tmp_path / 'out'}: File too large"]
    assert files(tmp_path / "out") == before


def test_output_folder_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("")
    done = command(voc(tmp_path / "d"), tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr == f"error: cannot write to {tmp_path / 'out'}: File exists\n"


def test_killed_in_mid_run_the_old_set_stays_whole(tmp_path):
    root = many(tmp_path / "d", 3)
    assert command(root, tmp_path / "out", "--samples_per_file=2").returncode == 0
    before = files(tmp_path / "out")
    many(root, 250)
    argv = [sys.executable, str(COMMAND), f"--dataset_dir={root}", f"--output_dir={tmp_path}/out", "--output_name=set"]
    process = subprocess.Popen([*argv, "--samples_per_file=2", "--workers=2"], cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "out").rglob("*.part"))) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert {name: data for name, data in files(tmp_path / "out").items() if "/" not in name} == before
    assert len(list((tmp_path / "out").rglob("set_train_*.tfrecord"))) == 2
    # The next run clears up and succeeds, once the killed one's workers have noticed.
    time.sleep(0.3)
    assert command(root, tmp_path / "out").returncode == 0
    assert len(read(tmp_path / "out")) == 250
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        ["labels.txt", "set.json", "set_train_000.tfrecord", "set_train_001.tfrecord"]
    )


# The report, and files that cannot be opened.


def test_report_tells_everything(tmp_path):
    root = voc(tmp_path / "d", objects=[("cat", 1, 2, 1, 4), ("cat", -1, 2, 3, 4), ("dog", 1, 2, 3, 4)])
    voc(root, "broken", image=b"")
    voc(root, "lonely")
    (root / "JPEGImages/lonely.jpg").unlink()
    (root / "JPEGImages/extra.jpg").write_bytes(picture())
    convert(root, report=str(tmp_path / "report.json"))
    report = json.loads((tmp_path / "report.json").read_text())
    train = report["splits"]["train"]
    assert report["images_without_annotation"] == ["extra.jpg"]
    assert train["skipped"] == {"annotation without a picture": 1, "picture without an annotation": 1, "unusable picture": 1}
    assert train["dropped"] == {"box without area": 1}
    assert train["repaired"] == {"box clipped to the picture": 1}
    assert (train["images"], train["objects"], train["objects_per_class"]) == (1, 2, {"cat": 1, "dog": 1})
    assert sorted(entry["file"] for entry in train["files"]) == ["a.xml", "broken.jpg", "extra.jpg", "lonely.xml"]


def test_report_that_cannot_be_written(tmp_path):
    with pytest.raises(UserError, match="cannot write to .*: Is a directory"):
        convert(voc(tmp_path / "d"), report=str(tmp_path))


def test_a_picture_in_two_splits_is_named_once(tmp_path, capsys):
    root = voc(tmp_path / "d", image=b"")
    voc(root, "b")
    split_file(root, "train", "a\nb\n")
    split_file(root, "trainval", "a\nb\n")
    main(config(root))
    assert capsys.readouterr().err.count("a.jpg: empty file") == 1


def test_folder_called_like_a_picture(tmp_path, capsys):
    root = voc(tmp_path / "d")
    voc(root, "b")
    (root / "JPEGImages/a.jpg").unlink()
    (root / "JPEGImages/a.jpg").mkdir()
    (root / "Annotations/c.xml").mkdir()
    assert names(convert(root)) == ["b.jpg"]
    errors = capsys.readouterr().err
    assert "a.jpg: Is a directory" in errors
    assert "c.xml: Is a directory" in errors


# Real data.


@pytest.mark.skipif(BCCD is None, reason="the data set is not here")
def test_bccd(tmp_path):
    labels = label_file(tmp_path / "labels.txt", "RBC", "WBC", "Platelets")
    done = command(BCCD, tmp_path / "out", f"--labels={labels}", f"--report={tmp_path}/report.json")
    assert done.returncode == 0, done.stderr
    records = {split: read(tmp_path / "out", split) for split in ("train", "val", "test", "trainval")}
    assert {split: len(found) for split, found in records.items()} == {"train": 205, "val": 87, "test": 72, "trainval": 292}
    assert sum(len(record["label"]) for split in ("train", "val", "test") for record in records[split]) == 4886
    for record in records["trainval"]:
        assert (boxes(record)[:, :2] < boxes(record)[:, 2:]).all()
        assert record["encoded"] == [(BCCD / "JPEGImages" / record["filename"][0].decode()).read_bytes()]
    report = json.loads((tmp_path / "report.json").read_text())["splits"]
    dropped = [entry["file"] for split in ("train", "val", "test") for entry in report[split]["files"]]
    assert sorted(dropped) == ["BloodImage_00338.xml", "BloodImage_00343.xml"]
    assert all(f"{name}: RBC box" in done.stderr for name in dropped)
