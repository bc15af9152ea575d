"""Training as processes that are killed, stopped, resumed and misled."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from engine.checkpoints import StoredWeights
from tests.conftest import ROOT, run_command
from tests.ssd.train_flags import argv


@pytest.fixture
def start():
    """Starts a training as a process of its own; none outlives its test."""
    started = []

    def start_one(records, train_dir, *flags):
        command = [sys.executable, *argv(records, train_dir, *flags)]
        started.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


def wait_for_step(process, step):
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith(f"step {step},"):
            return
    pytest.fail(f"ended before step {step}:\n" + "".join(lines))


def tensors(train_dir, step):
    """Everything in a checkpoint, by its key."""
    reader = tf.train.load_checkpoint(str(train_dir / f"model.ckpt-{step}"))
    keys = [key for key in reader.get_variable_to_shape_map() if key != "_CHECKPOINTABLE_OBJECT_GRAPH"]
    return {key: reader.get_tensor(key) for key in keys}


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_killed_and_resumed_equals_unbroken_bit_for_bit(start, sample_records, tmp_path, optimizer):
    flags = (f"--optimizer={optimizer}", "--moving_average_decay=0.9", "--learning_rate=0.001")
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    done = run_command(*argv(sample_records, unbroken, *flags, "--max_number_of_steps=20"))
    assert done.returncode == 0, done.stderr
    process = start(sample_records, broken, *flags, "--max_number_of_steps=10000", "--save_interval_secs=0")
    wait_for_step(process, 10)
    process.kill()
    process.wait()
    done = run_command(*argv(sample_records, broken, *flags, "--max_number_of_steps=20", "--num_preprocessing_threads=1"))
    assert done.returncode == 0, done.stderr
    assert 0 < int(re.search(r"going on from .*model\.ckpt-\d+ at step (\d+)", done.stderr)[1]) < 20
    expected, resumed = tensors(unbroken, 20), tensors(broken, 20)
    assert expected.keys() == resumed.keys()
    assert len(expected) > 150
    for key, value in expected.items():
        if not key.startswith("save_counter"):
            np.testing.assert_array_equal(resumed[key], value, err_msg=key)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_saves_and_ends_cleanly(start, sample_records, tmp_path, number):
    process = start(sample_records, tmp_path, "--max_number_of_steps=100000")
    wait_for_step(process, 2)
    process.send_signal(number)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 0
    stopped = re.search(rf"stopped by {number.name} after step (\d+)", rest)
    last_logged = max((int(step) for step in re.findall(r"^step (\d+),", rest, re.M)), default=2)
    assert int(stopped[1]) - last_logged <= 1
    assert (tmp_path / f"model.ckpt-{stopped[1]}.index").is_file()


def test_a_loss_that_is_not_finite_stops_the_run(sample_records, tmp_path):
    done = run_command(*argv(sample_records, tmp_path, "--max_number_of_steps=50", "--learning_rate=1e30", "--warmup_steps=0"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    step = re.search(r"^error: step (\d+): the loss is not finite", done.stderr, re.M)[1]
    with np.load(tmp_path / f"non_finite_step_{step}.npz") as batch:
        assert batch["image"].shape == (4, 160, 160, 3)
        assert batch["example"].shape == (4,)
    kept = StoredWeights(str(tmp_path / "model.ckpt-0"))
    assert all(np.isfinite(kept.read(name)).all() for name in kept.shapes)
    assert [path.name for path in tmp_path.glob("*.index")] == ["model.ckpt-0.index"]


def test_memory_stays_flat(start, sample_records, tmp_path):
    """Resident memory between step 40 and step 120 of a run on two shards that are read over and over."""
    process = start(sample_records, tmp_path, "--max_number_of_steps=120", "--save_interval_secs=1000", "--recipe=none")
    used = []
    for step in (40, 120):
        wait_for_step(process, step)
        with open(f"/proc/{process.pid}/statm") as statm:
            used.append(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
    assert used[1] - used[0] < 40, f"grew from {used[0]:.0f} to {used[1]:.0f} MiB"
