"""An export is what TF-slim's code reads, finds the same objects, and never replaces another."""

import json

import numpy as np
import pytest
import tensorflow as tf

from engine import checkpoints
from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.flags import parse
from engine.optim import MovingAverages, make_optimizer
from engine.train_state import Saver, TrainState
from ssd import export, nets
from ssd.detector import load

MANIFEST = {
    "model_name": "ssd_tiny",
    "num_classes": 3,
    "class_names": ["猫", "dog"],
    "anchor_set": "voc",
    "means": [123.68, 116.779, 103.939],
    "optimizer": "sgd",
}
THRESHOLDS = {"score_threshold": 0.3, "nms_threshold": 0.45, "top_k": 20, "keep_top_k": 10}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A checkpoint whose averages differ from its weights."""
    net = nets.make_net("ssd_tiny", 3)
    averages = MovingAverages(net.variables_by_name, 0.5)
    for average in averages.averages.values():
        average.assign_add(tf.random.stateless_uniform(average.shape, [1, 2], 0, 0.1))
    state = TrainState(net, net.trainable_by_name, make_optimizer("sgd", 0.1), averages, MANIFEST)
    state.step.assign(7)
    folder = tmp_path_factory.mktemp("run")
    Saver(state, folder).save()
    return folder


def run_export(*flags):
    export.main(parse(export.Config, ["export", *map(str, flags)])[0])


def test_plain_names_and_averaged_values(run, tmp_path, capsys):
    run_export(f"--checkpoint_path={run}", f"--output_dir={tmp_path / 'out'}", "--format=slim")
    assert "65 variables of" in capsys.readouterr().out
    out = tmp_path / "out"
    assert sorted(file.name for file in out.iterdir()) == [
        "labels.txt",
        "ssd_tiny.ckpt.data-00000-of-00001",
        "ssd_tiny.ckpt.index",
        "ssd_tiny.ckpt.json",
    ]
    assert (out / "labels.txt").read_text("utf-8") == "1:猫\n2:dog\n"
    assert json.loads((out / "ssd_tiny.ckpt.json").read_text("utf-8")) == {
        **{name: value for name, value in MANIFEST.items() if name != "optimizer"},
        "scope": "ssd_tiny",
        "image_size": 160,
        "step": 7,
    }
    reader, stored = tf.train.load_checkpoint(str(out / "ssd_tiny.ckpt")), checkpoints.find(run)
    assert set(reader.get_variable_to_shape_map()) == set(nets.make_net("ssd_tiny", 3).variables_by_name)
    name = "ssd_tiny/conv3_box/conv_loc/weights"
    np.testing.assert_array_equal(reader.get_tensor(name), stored.read(f"{name}/ExponentialMovingAverage"))
    assert np.abs(reader.get_tensor(name) - stored.read(name)).max() > 0.01


def test_the_same_detections_without_any_flag(run, tmp_path):
    run_export(f"--checkpoint_path={run}", f"--output_dir={tmp_path}")
    before, after = (load(str(path), **THRESHOLDS)[0] for path in (run, tmp_path / "ssd_tiny.ckpt"))
    assert after.class_names == before.class_names == ("猫", "dog")
    batch = np.random.default_rng(0).integers(0, 256, [2, 160, 160, 3], np.uint8)
    found = before.detect(batch)
    assert int(found[3][0]) > 0
    for expected, tensor in zip(found, after.detect(batch), strict=True):
        np.testing.assert_array_equal(tensor, expected)


def test_an_existing_export_stays(run, tmp_path):
    run_export(f"--checkpoint_path={run}", f"--output_dir={tmp_path / 'a'}")
    run_export(f"--checkpoint_path={tmp_path / 'a'}", f"--output_dir={tmp_path / 'b'}")  # an export can be exported
    first, second = (StoredWeights(str(tmp_path / name / "ssd_tiny.ckpt")) for name in "ab")
    assert first.manifest == second.manifest
    before = {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()}
    with pytest.raises(UserError, match=r"holds labels\.txt, ssd_tiny\.ckpt\.data.* already; choose another folder"):
        run_export(f"--checkpoint_path={run}", f"--output_dir={tmp_path / 'a'}")
    assert {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()} == before


def test_a_checkpoint_that_tells_nothing_and_a_broken_description(run, tmp_path):
    checkpoints.write_plain(tmp_path / "x.ckpt", {"w": np.zeros(3, np.float32)})
    with pytest.raises(UserError, match="does not tell its net and classes"):
        run_export(f"--checkpoint_path={tmp_path / 'x.ckpt'}", f"--output_dir={tmp_path / 'out'}")
    assert not (tmp_path / "out").exists()
    (tmp_path / "x.ckpt.json").write_text("{")
    with pytest.raises(UserError, match=r"x\.ckpt\.json: not readable"):
        checkpoints.find(tmp_path / "x.ckpt")
