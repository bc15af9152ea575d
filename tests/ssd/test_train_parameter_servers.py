"""Asynchronous training as four processes: it learns, survives a worker, stops when told, and ends with its servers."""

import json
import re
import signal

import numpy as np
import pytest

from engine.checkpoints import StoredWeights
from tests.processes import free_addresses, start  # noqa: F401  a fixture
from tests.ssd.train_flags import argv

ROLES = (("chief",), ("ps", "--task=0"), ("worker", "--task=0"), ("worker", "--task=1"))


def start_all(start, records, train_dir, *flags):  # noqa: F811
    chief, server, *workers = free_addresses(4)
    hosts = (f"--chief_host={chief}", f"--ps_hosts={server}", f"--worker_hosts={','.join(workers)}")
    every = argv(records, train_dir, "--moving_average_decay=0.9", *flags, *hosts)
    return [start([*every, f"--job_name={job}", *task]) for job, *task in ROLES]


@pytest.mark.slow
def test_a_lost_worker_is_done_without_and_all_end_with_the_chief(start, sample_records, tmp_path):  # noqa: F811
    flags = ("--max_number_of_steps=6", "--warmup_steps=0")
    processes = start_all(start, sample_records, tmp_path, *flags)
    assert [process.wait() for process in processes] == [0] * 4, processes[0].told
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    first, last = (StoredWeights(str(tmp_path / f"model.ckpt-{step}")) for step in (0, 6))
    for name in (
        "ssd_tiny/conv5/weights",
        "ssd_tiny/conv1/BatchNorm/moving_mean",
        "ssd_tiny/conv5/weights/ExponentialMovingAverage",
    ):
        assert np.abs(first.read(name) - last.read(name)).max() > 0
    assert "the chief has ended" in processes[1].told

    chief, server, *workers = start_all(start, sample_records, tmp_path, "--max_number_of_steps=100000")
    chief.wait_for_line("step 8,")
    assert re.search(r"going on from .*model.ckpt-6 at step 6", chief.told)
    workers[0].popen.kill()
    step = 20 + max(int(step) for step in re.findall(r"^step (\d+),", chief.told, re.M))
    chief.wait_for_line(f"step {step},")
    chief.popen.send_signal(signal.SIGTERM)
    assert (chief.wait(), server.wait(), workers[1].wait()) == (0, 0, 0), chief.told
    stopped = re.search(r"stopped by SIGTERM after step (\d+)", chief.told)[1]
    assert (tmp_path / f"model.ckpt-{stopped}.index").is_file()


@pytest.mark.slow
def test_a_lost_parameter_server_is_named(start, sample_records, tmp_path):  # noqa: F811
    chief, server, *workers = start_all(start, sample_records, tmp_path, "--max_number_of_steps=100000")
    chief.wait_for_line("step 2,")
    server.popen.kill()
    assert chief.wait() == 1
    assert chief.lines[-1].startswith("error: lost a parameter server")
    assert "Traceback" not in chief.told
    assert [worker.wait() for worker in workers] == [0, 0]
