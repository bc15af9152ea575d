"""The train step, compiled as one function, and the loop around it: log, save, summarise, stop."""

import contextlib
import math
import pathlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from engine import optim, pipelines
from engine.distribution import ONE_DEVICE, Replicas, apply_gradients
from engine.errors import UserError
from engine.files import writing
from engine.progress import say
from engine.run_log import RunLog
from engine.train_state import Saver, TrainState
from engine.validation import Validation

Batch = dict[str, tf.Tensor]


def make_train_step(
    state: TrainState,
    losses: Callable[[Batch], dict[str, tf.Tensor]],
    *,
    weight_decay: float,
    bias_learning_rate_factor: float,
    clip_gradient_norm: float | None,
    xla: bool,
    is_decayed: Callable[[str], bool] = optim.is_weight,
    loss_scale: float = 1.0,
    replicas: Replicas = ONE_DEVICE,
    count: Callable[[Batch], dict[str, tf.Tensor]] | None = None,
) -> Callable[[Batch], dict[str, tf.Tensor] | None]:
    """One step of training as one compiled function: batch -> scalars to log.

    Args:
        losses: batch (a dictionary; "example" [B] is its size) -> the terms of the loss, scalars; their sum is minimised.
        xla: compile it as one XLA program; needs static shapes.
        is_decayed: whether weight decay applies to a variable, by its name.
        loss_scale: the gradients are computed of the loss times this, and divided by it, which keeps small ones from
            becoming zero in half precision (Micikevicius et al. 2017, arXiv:1710.03740, section 3.2).
        replicas: the devices; with several of them `losses` gets `counts`, what `count` says of the whole batch, and
            makes its terms such that their sums over the replicas are those of the whole batch.

    Returns:
        A function whose result holds the terms; "loss", their sum; "l2_loss", what weight decay adds to the objective;
        "gradient_norm" (of the loss, before clipping and weight decay) and "learning_rate" (the one used). None where
        steps are asynchronous, and none has ended yet.
    """
    variables = list(state.trainable.values())

    def compute(batch: Batch, counts: dict[str, tf.Tensor] | None = None) -> tuple[dict[str, tf.Tensor], list[tf.Tensor]]:
        # Only what is trained is watched: no gradient is computed for frozen layers below it.
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            terms = losses(batch) if counts is None else losses(batch, counts=counts)
            scaled_loss = tf.add_n(list(terms.values())) * loss_scale
        gradients = tape.gradient(scaled_loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        if loss_scale != 1:
            gradients = [gradient / loss_scale for gradient in gradients]
        return terms, gradients

    def update(terms: dict[str, tf.Tensor], gradients: list[tf.Tensor]) -> dict[str, tf.Tensor]:
        gradients, norm = optim.regularised_gradients(
            gradients,
            state.trainable,
            weight_decay=weight_decay,
            bias_learning_rate_factor=bias_learning_rate_factor,
            clip_gradient_norm=clip_gradient_norm,
            is_decayed=is_decayed,
        )
        l2_loss = optim.l2_penalty(state.trainable, weight_decay, is_decayed)
        rate = tf.cast(state.optimizer.learning_rate, tf.float32)
        apply_gradients(state.optimizer, gradients, variables)
        if state.averages is not None:
            state.averages.update(state.optimizer.iterations)
        loss = tf.add_n(list(terms.values()))
        return {"loss": loss, **terms, "l2_loss": l2_loss, "gradient_norm": norm, "learning_rate": rate}

    if replicas.strategy is not None:
        return replicas.make_step(state, compute, update, count, xla=xla)

    @tf.function(jit_compile=xla, autograph=False)
    def train_step(batch: Batch) -> dict[str, tf.Tensor]:
        state.count_step(batch["example"].shape[0])
        return update(*compute(batch))

    return train_step


def train(
    train_step: Callable[[Batch], dict[str, tf.Tensor] | None],
    batches: tf.data.Dataset,
    state: TrainState,
    saver: Saver,
    run_log: RunLog,
    summarise: Callable[[Batch, int], None],
    validation: Validation | None,
    *,
    max_steps: int,
    log_every_n_steps: int,
    save_interval_secs: float,
    save_summaries_secs: float,
    replicas: Replicas = ONE_DEVICE,
) -> None:
    """Steps until `max_steps`, a signal to stop, no better evaluations, or a loss that is not finite; saves the last state.

    Raises:
        UserError: the loss or its gradient stopped being finite (the batch is saved beside the checkpoints, which
            stay as they are), the memory did not suffice, the input could not be read, or another process is lost.
    """
    clock, average = _Clock(save_interval_secs, save_summaries_secs), _LossAverage()
    batch_iterator = pipelines.iterate(batches)
    stopped = False
    saver.save()
    with _StopRequest() as stop, replicas.naming_lost_workers():
        while int(state.step) < max_steps:
            batch = _next_or_save(batch_iterator, saver, replicas)
            if stopped := replicas.any(bool(stop.requested)):
                break
            scalars = _run_step(train_step, batch, replicas)
            if scalars is None:
                continue
            batch, step = replicas.ended(batch), int(state.step)
            _refuse_non_finite(scalars, batch, step, run_log.folder, replicas)
            scalars["loss_average"] = average.update(scalars["loss"])
            clock.stepped(len(batch["example"]) * replicas.share.count)
            if step % log_every_n_steps == 0 or step == max_steps:
                say(clock.line(step, scalars["loss"], max_steps))
                run_log.scalars(step, scalars)
            if clock.summaries_due() or step == max_steps:
                with clock.paused():
                    summarise(batch, step)
                    run_log.flush()
            if clock.save_due():
                with clock.paused():
                    saver.save()
            if validation is not None and validation.due(step):
                with clock.paused():
                    is_over = _evaluate(validation, state, saver, run_log, replicas)
                if is_over:
                    break
        prefix = saver.save()
        # None ends before the checkpoint is there.
        replicas.any(False)
    if stopped:
        by = stop.requested or "another worker"
        say(f"stopped by {by} after step {int(state.step)}; the same command goes on from {prefix}")


def _next_or_save(batches: Iterator[Batch], saver: Saver, replicas: Replicas) -> Batch:
    """The next batch; when the input fails, the good steps since the last checkpoint are saved first, by all processes."""
    try:
        return next(batches)
    except UserError:
        replicas.any(True)
        saver.save()
        replicas.any(False)
        raise


def _evaluate(validation: Validation, state: TrainState, saver: Saver, run_log: RunLog, replicas: Replicas) -> bool:
    """The chief evaluates, the others wait for it; whether to end since nothing gets better."""
    if replicas.is_chief:
        validation.run(state, saver, run_log)
    return replicas.any(replicas.is_chief and validation.exhausted(int(state.step)))


def _run_step(train_step: Callable, batch: Batch, replicas: Replicas) -> dict[str, float] | None:
    try:
        scalars = train_step(batch)
        return None if scalars is None else {name: float(value) for name, value in scalars.items()}
    except tf.errors.ResourceExhaustedError as error:
        pictures = len(batch["example"]) * replicas.share.count
        raise UserError(f"out of memory at --batch_size={pictures}: take a smaller one ({error.message[:100]})") from None


def _refuse_non_finite(scalars: dict[str, float], batch: Batch, step: int, folder: pathlib.Path, replicas: Replicas) -> None:
    if math.isfinite(scalars["loss"]) and math.isfinite(scalars["gradient_norm"]):
        return
    worker = "" if replicas.is_chief else f"_worker_{replicas.share.index}"
    path = folder / f"non_finite_step_{step}{worker}.npz"
    with writing(path):
        np.savez_compressed(path, **{name: value.numpy() for name, value in batch.items()})
    values = ", ".join(f"{name} = {value:g}" for name, value in scalars.items())
    raise UserError(f"step {step}: the loss is not finite ({values}); its batch is in {path}; try a lower --learning_rate")


class _LossAverage:
    """Exponential average of the loss with decay .9 over the steps of this process, free of its start at 0."""

    _DECAY = 0.9

    def __init__(self) -> None:
        self._sum = self._weight = 0.0

    def update(self, loss: float) -> float:
        self._sum = self._DECAY * self._sum + (1 - self._DECAY) * loss
        self._weight = self._DECAY * self._weight + (1 - self._DECAY)
        return self._sum / self._weight


class _Clock:
    """What is due when, and how fast the steps go. The rate leaves out the step that compiles, pictures and checkpoints."""

    def __init__(self, save_secs: float, summaries_secs: float):
        self._save_secs, self._summaries_secs = save_secs, summaries_secs
        self._saved = self._since = time.monotonic()
        self._summarised = -math.inf
        self._steps = self._examples = 0
        self._first: tuple[float, float] | None = None  # seconds and rate of the step that compiled

    def stepped(self, examples: int) -> None:
        if self._first is None:
            seconds = time.monotonic() - self._since
            say(f"first step done in {seconds:.1f} s, most of it compiling")
            self._first, self._since = (seconds, examples / seconds), time.monotonic()
            return
        self._steps += 1
        self._examples += examples

    def line(self, step: int, loss: float, max_steps: int) -> str:
        """`step N, loss = L (X examples/sec; Y sec/batch), ETA h:mm:ss`, over the steps since the last line."""
        elapsed = time.monotonic() - self._since
        seconds, rate = (elapsed / self._steps, self._examples / elapsed) if self._steps else self._first
        left = int(seconds * (max_steps - step))
        eta = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        self._since, self._steps, self._examples = time.monotonic(), 0, 0
        return f"step {step}, loss = {loss:.4f} ({rate:.1f} examples/sec; {seconds:.3f} sec/batch), ETA {eta}"

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Time spent inside is not counted as training."""
        start = time.monotonic()
        yield
        self._since += time.monotonic() - start

    def summaries_due(self) -> bool:
        if due := time.monotonic() - self._summarised >= self._summaries_secs:
            self._summarised = time.monotonic()
        return due

    def save_due(self) -> bool:
        if due := time.monotonic() - self._saved >= self._save_secs:
            self._saved = time.monotonic()
        return due


class _StopRequest:
    """While entered, SIGTERM and Ctrl-C only ask to stop; a second Ctrl-C interrupts at once.

    Attributes:
        requested: the signal's name; empty when none has come.
    """

    def __init__(self) -> None:
        self.requested = ""

    def __enter__(self) -> "_StopRequest":
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, _frame: Any) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name
