"""Asynchronous training with parameter servers, by `tf.distribute.ParameterServerStrategy` and its coordinator.

Parameter servers hold the variables, workers compute steps, and the chief hands out batches, logs and saves. Each worker
updates the variables when it is done, without waiting for the others: a gradient may belong to weights that have moved
on meanwhile, and two runs never are the same. Python's part of the input pipeline cannot run in another process, so the
chief reads and augments for all.
"""

import atexit
import collections
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from engine.addresses import check_addresses, is_listening
from engine.distribution import Batch, Replicas, ended_by_ctrl_c
from engine.errors import UserError
from engine.progress import say
from engine.train_flags import TrainFlags
from engine.train_state import TrainState

# So that a worker has its next batch while the chief looks at what the last one gave.
_STEPS_PER_WORKER = 2
_SECONDS_BETWEEN_LOOKS = 1.0


def connect(config: TrainFlags) -> "ParameterServers":
    """What trains, in the chief; a worker or parameter server serves it, and ends the process when the chief is gone.

    Raises:
        UserError: an address, job or task that cannot be.
    """
    jobs = {"chief": (config.chief_host,), "ps": config.ps_hosts, "worker": config.worker_hosts}
    _check(config, jobs)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({name: list(hosts) for name, hosts in jobs.items()}),
        task_type=config.job_name,
        task_id=config.task or 0,
        rpc_layer="grpc",
    )
    if config.job_name != "chief":
        _serve(resolver, config.chief_host)
    say(f"waiting for {len(config.ps_hosts)} parameter servers and {len(config.worker_hosts)} workers")
    try:
        with ended_by_ctrl_c():
            strategy = tf.distribute.ParameterServerStrategy(resolver)
    except (tf.errors.OpError, RuntimeError) as error:
        raise UserError(f"--ps_hosts, --worker_hosts: cannot be reached ({str(error).splitlines()[0]})") from None
    return ParameterServers(strategy, config)


def _check(config: TrainFlags, jobs: dict[str, tuple[str, ...]]) -> None:
    for name in ("job_name", "chief_host", "worker_hosts"):
        if not getattr(config, name):
            raise UserError(f"--{name} must be given with --ps_hosts")
    if config.task is None and config.job_name != "chief":
        raise UserError(f"--task must be given with --job_name={config.job_name}")
    if (task := config.task or 0) >= (count := len(jobs[config.job_name])):
        raise UserError(f"--task={task}: there are {count} of --job_name={config.job_name}, tasks 0 to {count - 1}")
    if config.num_clones > 1 or config.xla == "on":
        raise UserError("--num_clones and --xla=on do not go with --ps_hosts")
    every = [host for hosts in jobs.values() for host in hosts]
    check_addresses(every, jobs[config.job_name][task], "--chief_host, --worker_hosts and --ps_hosts")


def _serve(resolver: tf.distribute.cluster_resolver.ClusterResolver, chief: str) -> None:
    """Until the chief, once it has been there, is there no more."""
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc")
    say(f"{resolver.task_type} {resolver.task_id} serves the chief at {chief}")
    while not is_listening(chief):
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    while is_listening(chief):
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    say("the chief has ended")
    sys.exit(0)


class ParameterServers(Replicas):
    """The chief's view: `make_step` gives a step that hands its batch to whichever worker is free."""

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy, config: TrainFlags):
        super().__init__(strategy)
        # The coordinator tells every failure of a worker at length, and goes on with the others.
        tf.get_logger().setLevel(logging.CRITICAL)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._in_flight = _STEPS_PER_WORKER * len(config.worker_hosts)
        self._max_steps = config.max_number_of_steps
        self._ended: Batch = {}

    def make_step(self, state: TrainState, compute: Callable, update: Callable, count: Callable, *, xla: bool) -> Callable:
        """batch -> the scalars of a step that has ended, or None while none has; see `Replicas.make_step`.

        No more steps are begun than are wanted: towards the end of a run its calls only wait.
        """

        @tf.function(autograph=False)
        def step(batch: Batch) -> dict[str, tf.Tensor]:
            return self.strategy.run(lambda part: update(*compute(part)), args=(batch,))

        begun: collections.deque = collections.deque()

        def begin_and_end(batch: Batch) -> dict[str, tf.Tensor] | None:
            if int(state.step) + len(begun) < self._max_steps:
                begun.append((batch, self._coordinator.schedule(step, args=(batch,))))
                if len(begun) < self._in_flight:
                    return None
            self._ended, scalars = begun.popleft()
            scalars = scalars.fetch()
            state.count_step(batch["example"].shape[0])
            return scalars

        return begin_and_end

    def scope(self) -> contextlib.AbstractContextManager:
        return self.strategy.scope()

    def ended(self, batch: Batch) -> Batch:
        return self._ended

    @contextlib.contextmanager
    def naming_lost_workers(self) -> Iterator[None]:
        """Turns the loss of a parameter server into a `UserError`; a lost worker's steps go to the others."""
        code = 1
        try:
            yield
            code = 0
        except tf.errors.UnavailableError:
            raise UserError(
                "lost a parameter server: it ended or cannot be reached; start all processes again, and they go on from"
                " the last checkpoint"
            ) from None
        finally:
            # Training is over. Python's own end would wait for a lost worker to come back.
            atexit.register(_end_now, code)


def _end_now(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
