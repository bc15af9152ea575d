"""Who trains with whom: from flags, TF_CONFIG and Slurm; and what cannot be."""

import json
import socket

import pytest

from engine.cluster import Workers, connect, count_replicas, find_workers
from engine.errors import UserError
from engine.train_flags import TrainFlags
from tests.processes import free_addresses

SLURM = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "2"}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in ("TF_CONFIG", *SLURM):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hosts():
    return tuple(free_addresses(3))


def set_tf_config(monkeypatch, jobs, kind, index):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}}))


def test_alone():
    assert find_workers((), None) == Workers()
    assert count_replicas(TrainFlags(num_clones=3)) == 3


def test_flags(hosts):
    assert find_workers(hosts, 2)[:2] == (hosts, 2)
    assert count_replicas(TrainFlags(num_clones=2, worker_hosts=hosts, task=1)) == 6


def test_tf_config_has_its_chief_first(monkeypatch, hosts):
    jobs = {"worker": hosts[1:], "chief": hosts[:1]}
    for kind, index, task in (("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)):
        set_tf_config(monkeypatch, jobs, kind, index)
        assert find_workers((), None) == (hosts, task, "TF_CONFIG")
    set_tf_config(monkeypatch, {"worker": hosts}, "worker", 1)
    assert find_workers((), None) == (hosts, 1, "TF_CONFIG")
    assert find_workers(hosts, 2).task == 2  # flags win


def test_slurm(monkeypatch):
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    assert find_workers((), None) == (("localhost:8888", "localhost:8889"), 1, "Slurm's variables")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "local[")
    with pytest.raises(UserError, match="Slurm's variables: .*local"):
        find_workers((), None)


@pytest.mark.parametrize(
    ("worker_hosts", "task", "named"),
    [
        (("localhost:4001", "localhost:4002"), None, "--task must be given with --worker_hosts: from 0 to 1"),
        ((), 1, "--task=1 needs --worker_hosts"),
        (("localhost:4001", "localhost:4002"), 2, "--task=2: .* names 2 workers, tasks 0 to 1"),
        (("localhost:4001", "localhost"), 0, "'localhost' is not of the form HOST:PORT"),
        (("localhost:4001", "localhost:99999"), 0, "'localhost:99999' is not of the form HOST:PORT"),
        (("localhost:4001", "http://localhost:4002"), 0, "'http://localhost:4002' is not"),
        (("localhost:4001", "localhost:4001"), 0, "--worker_hosts=.*: localhost:4001 stands there twice"),
        (("localhost:4001", "no-such-host.invalid:4002"), 0, "no-such-host.invalid:4002: "),
    ],
)
def test_wrong_addresses_are_named(worker_hosts, task, named):
    with pytest.raises(UserError, match=named):
        find_workers(worker_hosts, task)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "TF_CONFIG: not of the form"),
        ('{"cluster": {"worker": ["localhost:4001"]}}', "TF_CONFIG: not of the form"),
        ('{"cluster": {"worker": ["localhost:4001"]}, "task": {"type": "worker", "index": 1}}', "worker 1 is not among its 1"),
        ('{"cluster": {"ps": ["localhost:4001"]}, "task": {"type": "ps", "index": 0}}', "TF_CONFIG: task type 'ps'"),
    ],
)
def test_a_wrong_tf_config_is_named(monkeypatch, text, named):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match=named):
        find_workers((), None)


def test_a_busy_port_is_named():
    with socket.socket() as busy:
        busy.bind(("", 0))
        busy.listen()
        hosts = (f"localhost:{busy.getsockname()[1]}", *free_addresses(1))
        with pytest.raises(UserError, match=f"{hosts[0]}: this process's port cannot be used"):
            find_workers(hosts, 0)
        assert find_workers(hosts, 1).task == 1  # another process's port is to be busy


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"batch_size": 32}, "--batch_size=32: cannot be split evenly over 3 replicas"),
        ({"batch_size": 36, "num_clones": 2}, "--num_clones=2: a worker has one clone where there is no GPU"),
    ],
)
def test_batches_and_clones_that_do_not_fit(hosts, flags, named):
    with pytest.raises(UserError, match=named):
        connect(TrainFlags(worker_hosts=hosts, task=0, clone_on_cpu=True, **flags))


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"job_name": None}, "--job_name must be given with --ps_hosts"),
        ({"chief_host": ""}, "--chief_host must be given with --ps_hosts"),
        ({"worker_hosts": ()}, "--worker_hosts must be given with --ps_hosts"),
        ({"job_name": "ps"}, "--task must be given with --job_name=ps"),
        ({"job_name": "worker", "task": 1}, "--task=1: there are 1 of --job_name=worker, tasks 0 to 0"),
        ({"chief_host": "localhost"}, "'localhost' is not of the form HOST:PORT"),
        ({"chief_host": "localhost:4003"}, "localhost:4003 stands there twice"),
        ({"xla": "on"}, "--num_clones and --xla=on do not go with --ps_hosts"),
    ],
)
def test_wrong_jobs_are_named(flags, named):
    hosts = {"chief_host": "localhost:4001", "worker_hosts": ("localhost:4002",), "ps_hosts": ("localhost:4003",)}
    with pytest.raises(UserError, match=named):
        connect(TrainFlags(**({"job_name": "chief"} | hosts | flags)))


def test_a_job_without_parameter_servers_is_named():
    with pytest.raises(UserError, match="--job_name=worker needs --ps_hosts"):
        connect(TrainFlags(job_name="worker"))
