"""Which devices and processes train together, from flags, TF_CONFIG or Slurm; mistakes in them are named at once."""

import json
import os
import re
from typing import NamedTuple

import tensorflow as tf

# TensorFlow's strategy takes over a coordination service that is configured already; there is no public way to say how
# long it waits for a silent worker.
from tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2 import CoordinatedJob
from tensorflow.python.eager import context as tf_context

from engine import parameter_servers
from engine.addresses import check_addresses, name_of
from engine.distribution import ONE_DEVICE, Replicas, ended_by_ctrl_c
from engine.errors import UserError
from engine.pipelines import Share
from engine.progress import say
from engine.train_flags import TrainFlags


class Workers(NamedTuple):
    """The processes that train in step.

    Attributes:
        hosts: HOST:PORT of each; empty for a process that trains alone.
        task: which of them this one is.
        source: what says so, for messages.
    """

    hosts: tuple[str, ...] = ()
    task: int = 0
    source: str = ""


def connect(config: TrainFlags) -> Replicas:
    """The replicas that the flags ask for, once all of them are there. Called before TensorFlow has computed anything.

    Raises:
        UserError: an address or a task that cannot be, fewer devices than clones, a batch that cannot be split over them.
    """
    if config.ps_hosts:
        return parameter_servers.connect(config)
    if config.job_name or config.chief_host:
        given = f"--job_name={config.job_name}" if config.job_name else f"--chief_host={config.chief_host}"
        raise UserError(f"{given} needs --ps_hosts")
    workers, count = find_workers(config.worker_hosts, config.task), count_replicas(config)
    if config.batch_size % count:
        raise UserError(f"--batch_size={config.batch_size}: cannot be split evenly over {count} replicas")
    if config.clone_on_cpu:
        tf.config.set_visible_devices([], "GPU")
    replicas = _join(workers, config) if len(workers.hosts) > 1 else _clones(config)
    if replicas.count > 1:
        say(f"{replicas.count} replicas train in step, {config.batch_size // replicas.count} pictures each")
    return replicas


def count_replicas(config: TrainFlags) -> int:
    """How many replicas `connect` will find."""
    if config.ps_hosts:
        return 1
    return config.num_clones * max(1, len(find_workers(config.worker_hosts, config.task).hosts))


def find_workers(worker_hosts: tuple[str, ...], task: int | None) -> Workers:
    """The processes as the flags say, else as TF_CONFIG or Slurm's variables do; checked."""
    if worker_hosts:
        workers = Workers(worker_hosts, -1 if task is None else task, f"--worker_hosts={','.join(worker_hosts)}")
        if task is None:
            raise UserError(f"--task must be given with --worker_hosts: from 0 to {len(worker_hosts) - 1}")
    elif task is not None:
        raise UserError(f"--task={task} needs --worker_hosts")
    elif os.environ.get("TF_CONFIG"):
        workers = _from_tf_config(os.environ["TF_CONFIG"])
    elif int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        workers = _from_slurm()
    else:
        return Workers()
    if workers.task >= len(workers.hosts):
        raise UserError(
            f"--task={task}: {workers.source} names {len(workers.hosts)} workers, tasks 0 to {len(workers.hosts) - 1}"
        )
    check_addresses(workers.hosts, workers.hosts[workers.task], workers.source)
    return workers


def _from_tf_config(text: str) -> Workers:
    """chief, if there is one, and then worker 0, 1, ... in the order of TensorFlow's guide."""
    source = "TF_CONFIG"
    try:
        parsed = json.loads(text)
        jobs, kind, index = parsed["cluster"], parsed["task"]["type"], int(parsed["task"]["index"])
        counts = {name: len(jobs[name]) for name in ("chief", "worker") if name in jobs}
        hosts = tuple(host for name in counts for host in jobs[name])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{source}: not of the form {{'cluster': .., 'task': {{'type': .., 'index': ..}}}} ({error})") from None
    if kind not in counts or set(jobs) - counts.keys():
        raise UserError(f"{source}: task type {kind!r} of the jobs {', '.join(jobs)}; only chief and worker are known")
    if not 0 <= index < counts[kind]:
        raise UserError(f"{source}: task {kind} {index} is not among its {counts[kind]}")
    return Workers(hosts, index + (counts.get("chief", 0) if kind == "worker" else 0), source)


def _from_slurm() -> Workers:
    # One GPU a task is no more than a way to have the addresses: which GPUs a task takes is decided below, like anywhere.
    tasks = max(map(int, re.findall(r"\d+", os.environ.get("SLURM_STEP_TASKS_PER_NODE", "1"))))
    try:
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(gpus_per_node=tasks, gpus_per_task=1, auto_set_gpu=False)
        hosts = tuple(resolver.cluster_spec().as_dict()["worker"])
    except (RuntimeError, ValueError) as error:
        raise UserError(f"Slurm's variables: {error}") from None
    return Workers(hosts, resolver.task_id, "Slurm's variables")


def _clones(config: TrainFlags) -> Replicas:
    """The devices of this process alone."""
    if config.num_clones == 1:
        return ONE_DEVICE
    if config.clone_on_cpu:
        parts = [tf.config.LogicalDeviceConfiguration()] * config.num_clones
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
    elif (found := len(tf.config.list_physical_devices("GPU"))) < config.num_clones:
        raise UserError(f"--num_clones={config.num_clones}: there are {found} GPUs; --clone_on_cpu takes the CPU")
    kind = "CPU" if config.clone_on_cpu else "GPU"
    return Replicas(tf.distribute.MirroredStrategy([f"/{kind}:{i}" for i in range(config.num_clones)]))


def _join(workers: Workers, config: TrainFlags) -> Replicas:
    """Waits until all workers are there."""
    hosts, task, source = workers
    _choose_gpus(workers, config.num_clones)
    say(f"worker {task} of {len(hosts)} at {hosts[task]}, until all are there ({source})")
    milliseconds = int(config.worker_timeout_secs * 1000)
    tf_context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=milliseconds,
        shutdown_barrier_timeout_in_ms=milliseconds,
        coordinated_jobs=[CoordinatedJob(name="worker", num_tasks=len(hosts))],
    )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(hosts)}),
        task_type="worker",
        task_id=task,
        num_accelerators={"GPU": len(tf.config.get_visible_devices("GPU"))},
    )
    try:
        with ended_by_ctrl_c():
            strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    except (tf.errors.OpError, RuntimeError) as error:
        raise UserError(f"{source}: the workers did not come together ({str(error).splitlines()[0]})") from None
    return Replicas(strategy, Share(task, len(hosts)), hosts)


def _choose_gpus(workers: Workers, wanted: int) -> None:
    """Workers on one machine take its GPUs in turn, unless each is shown its own only."""
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus and wanted > 1:
        raise UserError(f"--num_clones={wanted}: a worker has one clone where there is no GPU; start more workers")
    names = [name_of(host) for host in workers.hosts]
    before = names[: workers.task].count(names[workers.task]) * wanted
    first = before if len(gpus) >= names.count(names[workers.task]) * wanted else 0
    if gpus and len(gpus) < wanted:
        raise UserError(f"--num_clones={wanted}: there are {len(gpus)} GPUs")
    tf.config.set_visible_devices(gpus[first : first + wanted], "GPU")
