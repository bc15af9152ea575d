"""Two clones train as one device does with the same batch."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import run_command
from tests.ssd.train_flags import argv

# Batch normalisation sees the pictures of its own clone only: it is frozen where results are compared.
HEADS = "--trainable_scopes=" + ",".join(f"ssd_tiny/conv{i}_box" for i in range(3, 8))
LEARNS = ("--learning_rate=0.001", "--warmup_steps=0", "--moving_average_decay=0.9", "--clip_gradient_norm=20")
CLONES = ("--num_clones=2", "--clone_on_cpu")


def tensors(train_dir, step):
    """Every float in a checkpoint, by its key."""
    reader = tf.train.load_checkpoint(str(train_dir / f"model.ckpt-{step}"))
    values = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
    return {key: value for key, value in values.items() if getattr(value, "dtype", None) == np.float32}


def logged(train_dir):
    return [json.loads(line) for line in (train_dir / "metrics.jsonl").read_text().splitlines()]


def assert_same_run(one, other, steps):
    expected, found = tensors(one, steps), tensors(other, steps)
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)
    assert len(logged(one)) == len(logged(other)) == steps
    for ours, theirs in zip(logged(one), logged(other), strict=True):
        assert theirs == pytest.approx(ours, rel=1e-5)


def test_two_clones_equal_one_device(sample_records, tmp_path):
    for name, clones in (("one", ()), ("two", CLONES)):
        done = run_command(*argv(sample_records, tmp_path / name, HEADS, *LEARNS, "--max_number_of_steps=5", *clones))
        assert done.returncode == 0, done.stderr
    assert "2 clones train in step, 2 pictures each" in done.stderr
    assert_same_run(tmp_path / "one", tmp_path / "two", 5)
    key = "model/ssd_tiny/conv3_box/conv_cls/weights/.ATTRIBUTES/VARIABLE_VALUE"
    first, last = (tensors(tmp_path / "one", step)[key] for step in (0, 5))
    assert np.abs(last - first).max() > 1e-3


def test_what_clones_cannot_do_is_named(sample_records, tmp_path):
    done = run_command(*argv(sample_records, tmp_path / "run", *CLONES, "--mining=batch"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: --mining=batch compares all anchors of a batch")
    assert not (tmp_path / "run").exists()
