"""Several devices, and several processes, that hold a copy of the net each and train it in step, by `tf.distribute`.

A batch is split evenly over the replicas. Losses are divided by counts over the whole batch, gradients are summed, and
every replica makes the same update: the result is that of one device with the same batch, up to rounding. Batch
normalisation sees the pictures of its own replica, and its moving statistics are averaged after every step, so that the
state is the same everywhere and any process can save it alone.
"""

import contextlib
import re
import signal
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from engine.errors import UserError
from engine.pipelines import WHOLE, Share
from engine.train_state import TrainState

Batch = dict[str, tf.Tensor]
_SUM = tf.distribute.ReduceOp.SUM


class Replicas:
    """The devices that train: one without a strategy, else those of the strategy.

    Attributes:
        strategy: None where there is one device only, which then costs nothing beyond itself.
        share: this process's part of every batch.
        hosts: the addresses of all processes, if there are several.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None, share: Share = WHOLE, hosts: Sequence[str] = ()):
        self.strategy, self.share, self.hosts = strategy, share, hosts

    @property
    def count(self) -> int:
        """Over all processes."""
        return 1 if self.strategy is None else self.strategy.num_replicas_in_sync

    @property
    def _clones(self) -> int:
        return self.count // self.share.count

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and logs."""
        return self.share.index == 0

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Variables that are made while it is entered have a copy on every replica, with the chief's initial value."""
        with contextlib.nullcontext() if self.strategy is None else self.strategy.scope(), self.naming_lost_workers():
            yield

    def any(self, wish: bool) -> bool:
        """Whether any of the processes wishes it; all of them must ask at the same time."""
        return wish if self.share.count == 1 else bool(self._sum(tf.constant(int(wish), tf.int64)))

    def refuse_differences(self, facts: dict[str, Any]) -> None:
        """Raises `UserError` where another process holds other facts than this one; all must ask at the same time."""
        if self.share.count == 1:
            return
        ours = tf.constant([zlib.crc32(repr(fact).encode()) for fact in facts.values()], tf.int64)
        row = tf.one_hot(self.share.index, self.share.count, dtype=tf.int64)
        with self.naming_lost_workers():
            everyones = (self._sum(row[:, None] * ours) // self._clones).numpy()  # [processes, facts]
        for name, column in zip(facts, everyones.T, strict=True):
            if (column != column[0]).any():
                other = int((column != column[self.share.index]).nonzero()[0][0])
                raise UserError(f"worker {other} ({self.hosts[other]}) differs from this one in {name}")

    @tf.function(autograph=False)
    def _sum(self, value: tf.Tensor) -> tf.Tensor:
        return self.strategy.reduce(_SUM, self.strategy.run(tf.identity, args=(value,)), axis=None)

    def ended(self, batch: Batch) -> Batch:
        """The batch of the step whose scalars came last, after a call of the train step with `batch`."""
        return batch

    @contextlib.contextmanager
    def naming_lost_workers(self) -> Iterator[None]:
        """Turns what TensorFlow says when another process is gone into a `UserError`."""
        try:
            yield
        except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
            if self.share.count == 1:
                raise
            tasks = [int(task) for task in re.findall(r"/job:worker/replica:\d+/task:(\d+)", error.message)]
            lost = [f"{task} ({self.hosts[task]})" for task in dict.fromkeys(tasks) if task != self.share.index]
            raise UserError(
                f"lost worker {' or '.join(lost) or 'or its connection'}: it ended or cannot be reached; start all of them"
                " again, and they go on from the last checkpoint"
            ) from None

    def make_step(
        self,
        state: TrainState,
        compute: Callable[[Batch, dict[str, tf.Tensor]], tuple[dict[str, tf.Tensor], list[tf.Tensor]]],
        update: Callable[[dict[str, tf.Tensor], list[tf.Tensor]], dict[str, tf.Tensor]],
        count: Callable[[Batch], dict[str, tf.Tensor]],
        *,
        xla: bool,
    ) -> Callable[[Batch], dict[str, tf.Tensor]]:
        """One step on every replica as one compiled function: this process's share of a batch -> scalars.

        Args:
            compute: (part of the batch, counts over the whole batch) -> terms of the loss, gradients.
            update: (terms and gradients of the whole batch) -> scalars; the same on every replica.
            count: part of the batch -> what is to be counted over the whole batch.
            xla: compile `compute` as an XLA program, one for each replica: collectives have no place in one.
        """
        compute = tf.function(compute, jit_compile=xla, autograph=False)
        statistics = _moving_statistics(state.net.variables_by_name.values())

        def step_of_replica(batch: Batch) -> dict[str, tf.Tensor]:
            context = tf.distribute.get_replica_context()
            part = self._part_of(batch, context.replica_id_in_sync_group)
            before = [tf.identity(variable) for variable in statistics]
            terms, gradients = compute(part, context.all_reduce(_SUM, count(part)))
            moves = [variable - value for variable, value in zip(statistics, before, strict=True)]
            terms, gradients, moves = context.all_reduce(_SUM, [terms, gradients, moves])
            for variable, value, move in zip(statistics, before, moves, strict=True):
                variable.assign(value + move / self.count)
            return update(terms, gradients)

        @tf.function(autograph=False)
        def train_step(batch: Batch) -> dict[str, tf.Tensor]:
            state.count_step(batch["example"].shape[0] * self.share.count)
            scalars = self.strategy.run(step_of_replica, args=(batch,))
            return {name: self.strategy.experimental_local_results(value)[0] for name, value in scalars.items()}

        return train_step

    def _part_of(self, batch: Batch, replica: tf.Tensor) -> Batch:
        """What one replica takes of this process's share."""
        # On the host: a device then gets its own pictures only.
        with tf.device("/cpu:0"):
            split = {name: tf.reshape(value, [self._clones, -1, *value.shape[1:]]) for name, value in batch.items()}
            return {name: value[replica % self._clones] for name, value in split.items()}


ONE_DEVICE = Replicas()


@contextlib.contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """For waiting inside TensorFlow, where Python's own handler is not called: Ctrl-C ends the process."""
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def apply_gradients(
    optimizer: tf.keras.optimizers.Optimizer, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]
) -> None:
    """`optimizer.apply` for gradients that are the whole batch's already: Keras would sum them over the replicas again."""
    if not tf.distribute.has_strategy():
        optimizer.apply(gradients, variables)
        return

    def update_all(strategy: tf.distribute.Strategy, gradients: Sequence[Any]) -> None:
        rate = optimizer.learning_rate
        for variable, gradient in zip(variables, gradients, strict=True):
            strategy.extended.update(variable, lambda v, g: optimizer.update_step(g, v, rate), args=(gradient,), group=False)

    tf.distribute.get_replica_context().merge_call(update_all, args=(gradients,))
    optimizer.iterations.assign_add(1)


def _moving_statistics(variables: Iterable[tf.Variable]) -> list[tf.Variable]:
    """Those among a net's variables that the replicas move each by itself: batch normalisation's."""
    return [v for v in variables if v.synchronization == tf.VariableSynchronization.ON_READ]


def first_copy(variable: tf.Variable) -> tf.Variable:
    """The variable that holds the first replica's copy; the variable itself on one device."""
    return tf.distribute.get_strategy().experimental_local_results(variable)[0]
