"""The whole program as a user runs it: sample data, conversion, training, evaluation, detection, each as a process."""

import json
import re

import cv2
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import ROOT, run_command


@pytest.fixture(scope="module")
def run_dir(sample_records, tmp_path_factory):
    """A run of a few steps, in a folder whose name has blanks, started by the script."""
    folder = tmp_path_factory.mktemp("runs") / "my first run"
    done = run_command(
        "-c",
        "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)",
        ROOT / "train_ssd.sh",
        f"--dataset_dir={sample_records}",
        f"--train_dir={folder}",
        "--model_name=ssd_tiny",
        "--batch_size=4",
        "--max_number_of_steps=6",
        "--log_every_n_steps=2",
        "--moving_average_decay=0.5",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("step ")]
    pattern = r"step (\d+), loss = \d+\.\d+ \(\d+\.\d examples/sec; \d+\.\d{3} sec/batch\), ETA \d+:\d\d:\d\d"
    assert [re.fullmatch(pattern, line)[1] for line in lines] == ["2", "4", "6"]
    return folder


def test_train_leaves_a_run_to_look_at(run_dir):
    assert json.loads((run_dir / "config.json").read_text())["batch_size"] == 4
    metrics = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in metrics] == [2, 4, 6]
    assert {"loss", "positive_loss", "negative_loss", "box_loss", "learning_rate"} <= metrics[0].keys()
    assert all(np.isclose(row["loss"], row["positive_loss"] + row["negative_loss"] + row["box_loss"]) for row in metrics)
    assert [path.name for path in sorted(run_dir.glob("*.index"))] == ["model.ckpt-0.index", "model.ckpt-6.index"]
    shapes = tf.train.load_checkpoint(str(run_dir / "model.ckpt-6")).get_variable_to_shape_map()
    assert any("ssd_tiny/conv1/weights/ExponentialMovingAverage" in key for key in shapes)


def test_tensorboard_gets_curves_pictures_and_histograms(run_dir):
    tags = set()
    for path in run_dir.glob("events.*"):
        for event in tf.data.TFRecordDataset(str(path)):
            tags |= {value.tag for value in tf.compat.v1.Event.FromString(event.numpy()).summary.value}
    assert {"loss", "box_loss", "learning_rate", "ground_truth", "detections", "activations/conv1"} <= tags
    assert {"gradients/ssd_tiny/conv1/weights", "activations/conv1/sparsity"} <= tags


def test_evaluate_prints_a_table_and_writes_the_numbers(run_dir, sample_records, tmp_path):
    tables = []
    for batch_size in (2, 7):
        done = run_command(
            "-m",
            "ssd.evaluate",
            f"--checkpoint_path={run_dir}",
            f"--dataset_dir={sample_records}",
            "--dataset_split_name=val",
            f"--eval_dir={tmp_path / str(batch_size)}",
            f"--batch_size={batch_size}",
            "--pictures=2",
        )
        assert done.returncode == 0, done.stderr
        assert re.search(r"^mAP@0\.5 = 0\.\d\d \(VOC 2012 area\), 0\.\d\d \(VOC 2007 11-point\)$", done.stdout, re.M)
        tables.append(json.loads((tmp_path / str(batch_size) / "metrics.json").read_text()))
        assert len(list((tmp_path / str(batch_size) / "pictures").iterdir())) == 2
    assert tables[0]["images"] == tables[1]["images"] == 7
    manifest = json.loads((sample_records / "shapes.json").read_text())
    assert list(tables[0]["classes"]) == manifest["class_names"]
    for name, row in tables[0]["classes"].items():
        for key, value in row.items():
            other = tables[1]["classes"][name][key]
            assert value == other or abs(value - other) < 1e-3 or key == "detections"


def test_detect_does_what_it_can_and_says_what_not(run_dir, sample_voc, tmp_path):
    good = sorted((sample_voc / "JPEGImages").iterdir())[0]
    wide = tmp_path / "été 猫.png"
    wide.write_bytes(cv2.imencode(".png", np.full((40, 200, 3), 90, np.uint8))[1].tobytes())
    text = tmp_path / "text.jpg"
    text.write_text("no picture")
    empty = tmp_path / "empty"
    empty.mkdir()
    out = tmp_path / "out"
    done = run_command(
        "-m",
        "ssd.detect",
        good,
        wide,
        text,
        tmp_path / "nowhere.jpg",
        empty,
        f"--checkpoint_path={run_dir}",
        f"--output_dir={out}",
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    for name in ("text.jpg", "nowhere.jpg", "empty"):
        assert re.search(f"^not read: .*{name}: ", done.stderr, re.M)
    entries = json.loads((out / "detections.json").read_text(encoding="utf-8"))
    assert [entry["file"] for entry in entries] == [str(good), str(wide)]
    assert (entries[1]["width"], entries[1]["height"]) == (200, 40)
    assert cv2.imread(str(out / f"{good.stem}.jpg")) is not None
    assert (out / "été 猫.jpg").is_file()


def test_detect_finds_nothing_without_fuss(run_dir, sample_voc, tmp_path):
    done = run_command(
        "-m",
        "ssd.detect",
        sample_voc / "JPEGImages",
        f"--checkpoint_path={run_dir}",
        f"--output_dir={tmp_path}",
        "--score_threshold=0.9999",
    )
    assert done.returncode == 0, done.stderr
    entries = json.loads((tmp_path / "detections.json").read_text())
    assert len(entries) == 31
    assert all(entry["detections"] == [] for entry in entries)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["-m", "ssd.train", "--datset_name=x"], "dataset_name"),
        (["-m", "ssd.train", "--train_dir=x", "--dataset_dir=/nowhere"], "--dataset_dir=/nowhere"),
        (
            ["-m", "ssd.evaluate", "--checkpoint_path=/nowhere", "--dataset_dir={records}", "--dataset_split_name=val"],
            "/nowhere",
        ),
        (["-m", "ssd.evaluate", "--checkpoint_path=/nowhere", "--dataset_dir={records}"], "shapes_test_*.tfrecord"),
        (["-m", "ssd.detect", "--checkpoint_path=/nowhere", "--output_dir=x"], "no picture given"),
    ],
)
def test_a_mistake_is_one_line(argv, named, sample_records):
    done = run_command(*(arg.format(records=sample_records) for arg in argv))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_script_fails_when_python_fails(tmp_path):
    done = run_command(
        "-c", "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)", ROOT / "train_ssd.sh", "--x=1"
    )
    assert done.returncode == 1
    assert "error: Unknown command line flag 'x'" in done.stderr
