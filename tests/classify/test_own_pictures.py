"""From class folders to named pictures: the converter, a net of TF-slim's, fine-tuning with all but the last layer frozen."""

import json

import cv2
import numpy as np
import pytest

from classify import evaluate, predict, train
from engine.checkpoints import AVERAGE, StoredWeights
from engine.flags import parse
from tests.conftest import ROOT, run_command

SMALL = (
    "--model_name=mobilenet_v2",
    "--train_image_size=32",
    "--batch_size=4",
    "--save_summaries_secs=1000",
    "--learning_rate=0.01",
)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Three class folders of 8 pictures, told apart by their colour."""
    root = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for name, color in (("blau", (200, 40, 40)), ("grün", (40, 200, 40)), ("rot", (40, 40, 200))):
        (root / name).mkdir()
        for number in range(8):
            image = np.clip(np.array(color) + rng.normal(0, 20, (40, 50, 3)), 0, 255).astype(np.uint8)
            (root / name / f"{number}.jpg").write_bytes(cv2.imencode(".jpg", image)[1].tobytes())
    (root / "rot" / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    return root


@pytest.fixture(scope="module")
def records(pictures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    flags = [f"--dataset_dir={pictures}", f"--output_dir={folder}", "--output_name=farben", "--validation_fraction=0.25"]
    done = run_command("tools/images_to_tfrecords.py", *flags)
    assert done.returncode == 0, done.stderr
    assert "broken.jpg" in done.stderr
    return folder


def run(command, *flags):
    config, arguments = parse(command.Config, ["x", *map(str, flags)], positional="PICTURE" if command is predict else None)
    return command.main(config, arguments) if command is predict else command.main(config)


@pytest.fixture(scope="module")
def run_dir(records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    recipe = f"--flagfile={ROOT / 'recipes' / 'mobilenet_v2.flags'}"
    run(train, recipe, *SMALL, f"--dataset_dir={records}", f"--train_dir={folder}", "--max_steps=3")
    return folder


def test_variables_are_tf_slims_with_averages_of_the_statistics_too(run_dir):
    stored = StoredWeights(str(run_dir / "model.ckpt-3"))
    for name in ("MobilenetV2/expanded_conv_1/depthwise/depthwise_weights", "MobilenetV2/Conv/BatchNorm/gamma"):
        assert name in stored.shapes
    name = "MobilenetV2/Conv/BatchNorm/moving_mean"
    assert np.abs(stored.read(name)).max() > 0
    assert (stored.read(f"{name}/{AVERAGE}") != stored.read(name)).any()
    assert stored.manifest["class_names"] == ["blau", "grün", "rot"]
    assert stored.manifest["scope"] == "MobilenetV2"


def test_evaluated_and_used(run_dir, records, pictures, tmp_path, capsys):
    flags = (f"--dataset_dir={records}", "--dataset_split_name=validation", "--run_once")
    run(evaluate, *flags, f"--checkpoint_dir={run_dir}", f"--eval_dir={tmp_path}")
    manifest = json.loads((records / "farben.json").read_text())
    assert json.loads((tmp_path / "metrics.json").read_text())["examples"] == manifest["splits"]["validation"]["images"] >= 5
    capsys.readouterr()
    assert run(predict, pictures / "rot" / "1.jpg", f"--checkpoint_dir={run_dir}", "--top_k=3") == 0
    told = capsys.readouterr().out
    assert all(name in told for name in ("blau", "grün", "rot"))


def test_all_but_the_logits_frozen(run_dir, records, tmp_path):
    flags = (f"--dataset_dir={records}", f"--train_dir={tmp_path}", f"--checkpoint_path={run_dir}", "--max_steps=2")
    run(train, *SMALL, *flags, "--trainable_scopes=MobilenetV2/Logits", "--checkpoint_exclude_scopes=MobilenetV2/Logits")
    before, after = StoredWeights(str(run_dir / "model.ckpt-3")), StoredWeights(str(tmp_path / "model.ckpt-2"))
    started = StoredWeights(str(tmp_path / "model.ckpt-0"))
    names = [name for name in before.shapes if AVERAGE not in name]
    frozen = [name for name in names if "Logits" not in name]
    assert len(frozen) == 260
    for name in frozen:
        np.testing.assert_array_equal(before.read(name), after.read(name), err_msg=name)
    moved = [name for name in names if "Logits" in name]
    assert len(moved) == 2
    for name in moved:
        assert (started.read(name) != after.read(name)).any()
        assert name.endswith("biases") or (before.read(name) != started.read(name)).any()
