"""Clones and workers train as one device does with the same batch; workers that are lost, stopped, late or unlike."""

import json
import os
import re
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from engine.errors import UserError
from engine.flags import parse
from ssd import train
from tests.conftest import run_command
from tests.processes import free_addresses, start  # noqa: F401  a fixture
from tests.ssd.train_flags import argv

STEPS = 5
# Batch normalisation sees the pictures of its own replica only: it is frozen where results are compared.
HEADS = "--trainable_scopes=" + ",".join(f"ssd_tiny/conv{i}_box" for i in range(3, 8))
LEARNS = ("--learning_rate=0.001", "--warmup_steps=0", "--moving_average_decay=0.9", "--clip_gradient_norm=20")
FLAGS = (HEADS, *LEARNS, f"--max_number_of_steps={STEPS}")
CLONES = ("--num_clones=2", "--clone_on_cpu")


def tensors(train_dir, step):
    """Every float in a checkpoint, by its key."""
    reader = tf.train.load_checkpoint(str(train_dir / f"model.ckpt-{step}"))
    values = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
    return {key: value for key, value in values.items() if getattr(value, "dtype", None) == np.float32}


def logged(train_dir):
    return [json.loads(line) for line in (train_dir / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def alone(sample_records, tmp_path_factory):
    """The run on one device that the others are to equal."""
    folder = tmp_path_factory.mktemp("alone")
    train.main(parse(train.Config, ["train", *argv(sample_records, folder, *FLAGS)[2:]])[0])
    key = "model/ssd_tiny/conv3_box/conv_cls/weights/.ATTRIBUTES/VARIABLE_VALUE"
    assert np.abs(tensors(folder, STEPS)[key] - tensors(folder, 0)[key]).max() > 1e-3
    return folder


def assert_same_run(folder, expected_folder):
    expected, found = tensors(expected_folder, STEPS), tensors(folder, STEPS)
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)
    assert len(logged(expected_folder)) == len(logged(folder)) == STEPS
    for ours, theirs in zip(logged(expected_folder), logged(folder), strict=True):
        assert theirs == pytest.approx(ours, rel=1e-5)


def test_two_clones_equal_one_device(sample_records, tmp_path, alone):
    done = run_command(*argv(sample_records, tmp_path, *FLAGS, *CLONES))
    assert done.returncode == 0, done.stderr
    assert "2 replicas train in step, 2 pictures each" in done.stderr
    assert_same_run(tmp_path, alone)


def start_workers(start, records, train_dir, *flags):  # noqa: F811
    hosts = free_addresses(2)
    every = argv(records, train_dir, *flags, f"--worker_hosts={','.join(hosts)}")
    return [start([*every, f"--task={task}"]) for task in (0, 1)]


def test_two_workers_equal_one_process(start, sample_records, tmp_path, alone):  # noqa: F811
    """One told by flags, the other, which comes later, by TF_CONFIG."""
    hosts = free_addresses(2)
    chief = start(argv(sample_records, tmp_path, *FLAGS, f"--worker_hosts={','.join(hosts)}", "--task=0"))
    chief.wait_for_line("worker 0 of 2")
    time.sleep(2)
    assert len(chief.lines) == 1
    config = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": 1}}
    other = start(argv(sample_records, tmp_path, *FLAGS), os.environ | {"TF_CONFIG": json.dumps(config)})
    assert (chief.wait(), other.wait()) == (0, 0), chief.told + other.told
    assert_same_run(tmp_path, alone)
    # Only one of them has written.
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1
    assert json.loads((tmp_path / "config.json").read_text())["task"] == 0


@pytest.mark.slow
def test_a_killed_worker_ends_the_others_and_a_stopped_one_stops_them(start, sample_records, tmp_path):  # noqa: F811
    flags = (HEADS, *LEARNS, "--save_interval_secs=0", "--worker_timeout_secs=5")
    chief, other = start_workers(start, sample_records, tmp_path, *flags)
    chief.wait_for_line("step 3,")
    other.popen.kill()
    killed = time.monotonic()
    assert chief.wait() == 1
    assert time.monotonic() - killed < 30
    assert re.match(r"error: lost worker 1 \(localhost:\d+\): ", chief.lines[-1])
    assert "Traceback" not in chief.told

    chief, other = start_workers(start, sample_records, tmp_path, *flags)
    chief.wait_for_line("going on from")
    resumed_at = int(re.search(r"going on from .* at step (\d+)", chief.told)[1])
    assert resumed_at >= 3
    chief.wait_for_line(f"step {resumed_at + 2},")
    other.popen.send_signal(signal.SIGTERM)
    assert (chief.wait(), other.wait()) == (0, 0), chief.told + other.told
    stopped = re.search(r"stopped by another worker after step (\d+)", chief.told)[1]
    assert f"stopped by SIGTERM after step {stopped};" in other.told
    assert (tmp_path / f"model.ckpt-{stopped}.index").is_file()


@pytest.mark.slow
def test_workers_that_differ_are_named(start, sample_records, tmp_path):  # noqa: F811
    hosts = free_addresses(2)
    every = argv(sample_records, tmp_path / "run", *FLAGS, f"--worker_hosts={','.join(hosts)}")
    workers = [start([*every, f"--task={task}", f"--seed={task}"]) for task in (0, 1)]
    for task, worker in enumerate(workers):
        assert worker.wait() == 1
        assert worker.lines[-1] == f"error: worker {1 - task} ({hosts[1 - task]}) differs from this one in --seed\n"
    assert not (tmp_path / "run").exists()


def test_mining_over_the_batch_wants_one_device(sample_records, tmp_path):
    flags = argv(sample_records, tmp_path / "run", *CLONES, "--mining=batch")[2:]
    with pytest.raises(UserError, match="--mining=batch compares all anchors of a batch: not with 2 replicas"):
        train.main(parse(train.Config, ["train", *flags])[0])


def test_the_chief_evaluates_while_the_others_wait(start, sample_records, tmp_path):  # noqa: F811
    """With batch norms that learn and averages; it says what the evaluation of the checkpoint says, and training goes on."""
    flags = (*LEARNS, "--max_number_of_steps=4", "--eval_every_steps=2", "--save_interval_secs=0")
    workers = start_workers(start, sample_records, tmp_path, *flags)
    assert [worker.wait() for worker in workers] == [0, 0], workers[0].told + workers[1].told
    assert "step 2: mAP/voc2012 = " in workers[0].told
    assert "mAP/voc2012" not in workers[1].told
    by_step = {row["step"]: row["mAP/voc2012"] for row in logged(tmp_path) if "mAP/voc2012" in row}
    assert list(by_step) == [2, 4]
    evaluated = ["-m", "ssd.evaluate", f"--dataset_dir={sample_records}", "--dataset_split_name=val"]
    done = run_command(*evaluated, f"--checkpoint_path={tmp_path / 'model.ckpt-4'}", f"--eval_dir={tmp_path / 'eval'}")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "eval" / "metrics.json").read_text())
    assert metrics["mAP"]["voc2012"] == pytest.approx(by_step[4], abs=1e-6)
