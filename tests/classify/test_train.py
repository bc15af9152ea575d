"""Training, evaluating and predicting as a user does, on a made-up CIFAR-10."""

import json
import re
import shutil
import signal
import subprocess
import sys

import cv2
import numpy as np
import pytest
import tensorflow as tf

from classify import evaluate, predict, train
from classify.classifier import Classifier
from engine import checkpoints
from engine.checkpoints import AVERAGE, StoredWeights
from engine.errors import UserError
from engine.flags import parse
from tests.conftest import ROOT, run_command

FLAGS = ("--batch_size=20", "--log_every_n_steps=5", "--save_summaries_secs=1000")


def run_in_process(command, *flags):
    config, arguments = parse(command.Config, ["x", *map(str, flags)], positional="PICTURE" if command is predict else None)
    return command.main(config, arguments) if command is predict else command.main(config)


def run_train(data_dir, train_dir, *flags):
    run_in_process(train, f"--data_dir={data_dir}", f"--train_dir={train_dir}", *FLAGS, *flags)


@pytest.fixture(scope="module")
def run_dir(cifar10_dir, tmp_path_factory):
    """A run long enough to learn something, as a process of its own."""
    folder = tmp_path_factory.mktemp("run")
    argv = ["-m", "classify.train", f"--data_dir={cifar10_dir}", f"--train_dir={folder}", "--max_steps=60", "--batch_size=32"]
    done = run_command(*argv, "--log_frequency=20", "--learning_rate=0.02", "--use_fp16", "--log_device_placement")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("step ")]
    pattern = r"step (\d+), loss = \d+\.\d+ \(\d+\.\d examples/sec; \d+\.\d{3} sec/batch\), ETA \d+:\d\d:\d\d"
    assert [re.fullmatch(pattern, line)[1] for line in lines] == ["20", "40", "60"]
    assert "note: --use_fp16 is not used: CPU is not made for half precision" in done.stderr
    assert re.search(r"Conv2D: \(Conv2D\): /job:localhost/replica:0/task:0/device:CPU:0", done.stderr)
    return folder


def test_the_checkpoint_has_the_tutorials_names_and_their_averages(run_dir):
    stored = StoredWeights(str(run_dir / "model.ckpt-60"))
    names = {
        f"{scope}/{kind}"
        for scope in ("conv1", "conv2", "local3", "local4", "softmax_linear")
        for kind in ("weights", "biases")
    }
    assert stored.shapes.keys() == names | {f"{name}/{AVERAGE}" for name in names}
    assert stored.manifest["class_names"][0] == "airplane"
    assert json.loads((run_dir / "config.json").read_text())["learning_rate"] == 0.02
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert {"loss", "class_loss", "l2_loss", "loss_average", "learning_rate"} <= rows[0].keys()
    assert rows[-1]["loss_average"] < rows[0]["loss_average"]


def test_tensorboard_gets_pictures_and_histograms(run_dir):
    tags = set()
    for path in run_dir.glob("events.*"):
        for event in tf.data.TFRecordDataset(str(path)):
            tags |= {value.tag for value in tf.compat.v1.Event.FromString(event.numpy()).summary.value}
    assert {"images", "loss_average", "activations/conv1", "activations/conv1/sparsity", "gradients/conv1/weights"} <= tags


def test_evaluate_counts_every_picture_once_with_the_averages(run_dir, cifar10_dir, tmp_path):
    for batch_size in (7, 130):
        done = run_command(
            "-m",
            "classify.evaluate",
            f"--checkpoint_dir={run_dir}",
            f"--data_dir={cifar10_dir}",
            f"--eval_dir={tmp_path / str(batch_size)}",
            f"--batch_size={batch_size}",
            "--run_once",
        )
        assert done.returncode == 0, done.stderr
        assert re.search(r"^precision @ 1 = 0\.\d{4} \(130 examples, .*model\.ckpt-60\)$", done.stdout, re.M)
    metrics, other = (json.loads((tmp_path / size / "metrics.json").read_text()) for size in ("7", "130"))
    assert metrics == other
    assert (metrics["examples"], metrics["step"]) == (130, 60)
    assert metrics["precision_at_1"] > 0.3, "chance is .1"
    assert np.array(metrics["confusion"]).sum(axis=1).tolist() == [13] * 10
    for name in ("confusion.png", "predictions.jpg"):
        assert cv2.imread(str(tmp_path / "7" / name)) is not None
    assert list((tmp_path / "7").glob("events.*"))
    # The raw weights in place of the averages give another result.
    stored = StoredWeights(str(run_dir / "model.ckpt-60"))
    assert (stored.read("local3/weights") != stored.read(f"local3/weights/{AVERAGE}")).any()


def test_evaluate_waits_for_new_checkpoints(run_dir, cifar10_dir, tmp_path):
    watched = tmp_path / "watched"
    watched.mkdir()
    argv = [sys.executable, "-m", "classify.evaluate", f"--checkpoint_dir={watched}", f"--data_dir={cifar10_dir}"]
    process = subprocess.Popen(
        [*argv, "--eval_interval_secs=0.2", "--num_examples=20"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert any("no checkpoint in" in line for line in process.stderr)
        for step in (0, 60):
            for path in run_dir.glob(f"model.ckpt-{step}.*"):
                shutil.copy(path, watched / f".{path.name}")
            for path in sorted(watched.glob(".model*"), key=lambda path: path.name.endswith("index")):
                path.rename(watched / path.name[1:])
            for line in process.stdout:
                if line.startswith("precision"):
                    assert re.search(rf"\(20 examples, .*model\.ckpt-{step}\)", line)
                    break
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        assert process.returncode == 130
    finally:
        process.kill()
        process.communicate()


def test_predict_names_pictures(run_dir, cifar10_dir, tmp_path, capsys):
    picture, text = tmp_path / "eine Wolke.png", tmp_path / "text.jpg"
    picture.write_bytes(cv2.imencode(".png", np.full((40, 60, 3), 200, np.uint8))[1].tobytes())
    text.write_text("no picture")
    out = tmp_path / "out"
    code = run_in_process(predict, picture, text, f"--checkpoint_dir={run_dir}", f"--output_dir={out}", "--top_k=2")
    told = capsys.readouterr()
    assert code == 1
    assert re.fullmatch(rf"{picture}: \w+ [01]\.\d{{3}}, \w+ 0\.\d{{3}}\n", told.out)
    assert f"not read: {text}: not a picture" in told.err
    entries = json.loads((out / "predictions.json").read_text())
    assert [entry["file"] for entry in entries] == [str(picture)]
    assert len(entries[0]["predictions"]) == 2
    assert cv2.imread(str(out / "predictions.jpg")) is not None
    with pytest.raises(UserError, match="no picture given"):
        run_in_process(predict, f"--checkpoint_dir={run_dir}")


def weights(train_dir, step):
    reader = tf.train.load_checkpoint(str(train_dir / f"model.ckpt-{step}"))
    keys = [k for k in reader.get_variable_to_shape_map() if k != "_CHECKPOINTABLE_OBJECT_GRAPH" and "save_counter" not in k]
    return {key: reader.get_tensor(key) for key in keys}


def test_same_seed_same_weights_also_over_a_break(cifar10_dir, tmp_path, capsys):
    run_train(cifar10_dir, tmp_path / "a", "--max_steps=12")
    run_train(cifar10_dir, tmp_path / "b", "--max_steps=5", "--num_preprocessing_threads=1")
    before = (tmp_path / "b" / "model.ckpt-5.index").read_bytes()
    run_train(cifar10_dir, tmp_path / "b", "--max_steps=12")
    assert "going on from" in capsys.readouterr().err
    assert (tmp_path / "b" / "model.ckpt-5.index").read_bytes() == before
    first, second = weights(tmp_path / "a", 12), weights(tmp_path / "b", 12)
    assert first.keys() == second.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key], err_msg=key)
    run_train(cifar10_dir, tmp_path / "c", "--max_steps=12", "--seed=1")
    assert any((weights(tmp_path / "c", 12)[key] != value).any() for key, value in first.items() if "local3" in key)


def test_averages_follow_the_step(cifar10_dir, tmp_path):
    """Decays (1 + n) / (10 + n) after each step n, from the initial values on, through files alone."""
    run_train(cifar10_dir, tmp_path, "--max_steps=3", "--save_interval_secs=0")
    name = "local4/biases"
    raw = [StoredWeights(str(tmp_path / f"model.ckpt-{step}")) for step in range(4)]
    average = raw[0].read(name).astype(np.float64)
    np.testing.assert_array_equal(raw[0].read(f"{name}/{AVERAGE}"), average)
    for step in (1, 2, 3):
        decay = (1 + step) / (10 + step)
        average = decay * average + (1 - decay) * raw[step].read(name)
        np.testing.assert_allclose(raw[step].read(f"{name}/{AVERAGE}"), average, rtol=1e-5)


def test_the_fast_recipe_trains(cifar10_dir, tmp_path):
    run_train(cifar10_dir, tmp_path, f"--flagfile={ROOT / 'recipes' / 'cifar10_fast.flags'}", *FLAGS, "--max_number_of_steps=5")
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [5]
    # The fifth of 500 steps of warm-up to .001, after four fifths of the cosine.
    assert rows[0]["learning_rate"] == pytest.approx(5 / 500 * 0.001 * (1 + np.cos(0.8 * np.pi)) / 2, rel=1e-4)


def test_frozen_scopes_and_fine_tuning(run_dir, cifar10_dir, tmp_path):
    flags = (
        f"--checkpoint_path={run_dir}",
        "--checkpoint_exclude_scopes=softmax_linear",
        "--trainable_scopes=softmax_linear,local4",
    )
    run_train(cifar10_dir, tmp_path, "--max_steps=2", *flags)
    before, after = StoredWeights(str(run_dir / "model.ckpt-60")), StoredWeights(str(tmp_path / "model.ckpt-2"))
    for name in ("conv1/weights", "conv2/biases", "local3/weights"):
        np.testing.assert_array_equal(before.read(name), after.read(name))
    assert (before.read("local4/weights") != after.read("local4/weights")).any()


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--recipe=vgg", "--preprocessing_name=none"], "--recipe=vgg and --preprocessing_name=none"),
        (["--dataset_split_name=val"], "CIFAR-10 has train and test"),
        (["--dataset_name=flowers"], "--dataset_dir must be given"),
        (["--model_name=resnet"], "model_name"),
        (["--model_name=inception_v3", "--train_image_size=106"], "--train_image_size=106: inception_v3 takes pictures of 107"),
        (["--trainable_scopes=local5"], "--trainable_scopes=local5"),
        (["--num_classes=5"], "--num_classes=5"),
        (["--eval_every_steps=5"], "CIFAR-10 has train and test"),
        (["--patience=5"], "--patience=5 needs --eval_every_steps"),
        (["--learning_rate_boundaries=5,5"], "must be rising steps"),
        (["--learning_rate=1e6"], "step [1-9]: the loss is not finite"),
    ],
)
def test_mistakes_are_named(cifar10_dir, tmp_path, flags, named):
    with pytest.raises(UserError, match=named):
        run_train(cifar10_dir, tmp_path, "--max_steps=20", *flags)


def test_a_classifier_takes_later_weights_of_its_own_run_only(run_dir, cifar10_dir, tmp_path):
    classifier = Classifier(str(run_dir / "model.ckpt-0"))
    pictures = np.random.default_rng(0).integers(0, 256, [2, 24, 24, 3], dtype=np.uint8)
    before = classifier.classify(pictures).numpy()
    classifier.load(str(run_dir / "model.ckpt-60"))
    np.testing.assert_array_equal(classifier.classify(pictures), Classifier(str(run_dir)).classify(pictures))
    assert (classifier.classify(pictures).numpy() != before).any()
    run_train(cifar10_dir, tmp_path, "--max_steps=1", "--recipe=none")
    with pytest.raises(UserError, match="model.ckpt-1: of another net, classes or recipe than .*model.ckpt-60"):
        classifier.load(str(tmp_path))


def test_evaluation_while_training_stops_early(cifar10_dir, tmp_path, capsys):
    flags = ("--max_steps=200", "--eval_every_steps=10", "--eval_split_name=test", "--patience=2", "--moving_average_decay=0.1")
    run_train(cifar10_dir, tmp_path, *flags, "--learning_rate=0.02")
    told = capsys.readouterr().err
    best = json.loads((tmp_path / "best" / "best.json").read_text())
    stopped = int(re.search(r"stopped early at step (\d+): precision_at_1 was best at step (\d+)", told)[1])
    assert stopped - best["step"] == 20
    assert stopped < 200
    assert checkpoints.newest_in(tmp_path).prefix.endswith(f"model.ckpt-{stopped}")
    run_in_process(evaluate, f"--checkpoint_dir={tmp_path}", f"--data_dir={cifar10_dir}", "--run_once")
    metrics = json.loads((tmp_path / "best" / "eval_test" / "metrics.json").read_text())
    assert (metrics["step"], metrics["precision_at_1"]) == (best["step"], best["value"])
    run_train(cifar10_dir, tmp_path, *flags, "--learning_rate=0.02")
    assert f"stopped early at step {stopped}" in capsys.readouterr().err


def test_mistakes_of_an_evaluation_are_named(run_dir, cifar10_dir, tmp_path):
    with pytest.raises(UserError, match="--num_examples=131: cifar10 test has 130"):
        run_in_process(evaluate, f"--checkpoint_dir={run_dir}", f"--data_dir={cifar10_dir}", "--num_examples=131", "--run_once")
    with pytest.raises(UserError, match="/nowhere"):
        run_in_process(evaluate, "--checkpoint_dir=/nowhere", f"--data_dir={cifar10_dir}", "--run_once")
