"""Speed of training a classifier: on one batch held in memory, and on pictures that go through the whole input pipeline."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from classify import input_pipeline, nets
from classify.dataset import MemoryExamples
from classify.losses import make_losses
from engine import devices, optim
from engine.loop import Batch, make_train_step
from engine.optim import MovingAverages
from engine.train_state import TrainState

# The two are timed in turns, so that a machine that slows down slows down both.
_ROUNDS, _STEPS = 6, 15
_PICTURES, _SIDE, _CLASSES = 5000, 32, 10


def benchmark_classify(net_name: str = "cifar10", batch_size: int = 128) -> dict[str, float]:
    """Train steps with SGD and moving averages, as `python -m classify.train` makes them, on made-up pictures of 32x32.

    Returns:
        Pictures per second: {"batch_in_memory", "input_pipeline", "input_alone"}, and "ratio" of the first two.
    """
    devices.prepare(seed=0)
    spec = nets.find(net_name)
    train_step = _make_train_step(net_name)
    rng = np.random.default_rng(0)
    examples = MemoryExamples(
        rng.integers(0, 256, [_PICTURES, _SIDE, _SIDE, 3], dtype=np.uint8), rng.integers(0, _CLASSES, _PICTURES)
    )
    batches = input_pipeline.training_batches(
        examples, image_size=spec.image_size, batch_size=batch_size, num_classes=_CLASSES, recipe=spec.recipe, seed=0
    )
    iterator = iter(batches)
    held = itertools.repeat(next(iterator))
    _seconds(train_step, held, 3)
    rounds = [(_seconds(train_step, held, _STEPS), _seconds(train_step, iterator, _STEPS)) for _ in range(_ROUNDS)]
    in_memory, piped = (batch_size * _STEPS / statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    alone = batch_size * _STEPS / _seconds(lambda batch: None, iter(batches), _STEPS)
    return {"batch_in_memory": in_memory, "input_pipeline": piped, "input_alone": alone, "ratio": piped / in_memory}


def _make_train_step(net_name: str) -> Callable[[Batch], dict[str, tf.Tensor]]:
    spec = nets.find(net_name)
    net = nets.make_net(net_name, _CLASSES)
    averages = MovingAverages(net.variables_by_name, 0.9999)
    state = TrainState(net, net.trainable_by_name, optim.make_optimizer("sgd", spec.learning_rate / 10), averages, {})
    return make_train_step(
        state,
        make_losses(net, spec.normalise),
        weight_decay=spec.weight_decay,
        bias_learning_rate_factor=1.0,
        clip_gradient_norm=None,
        xla=devices.use_xla("auto", faster_on_cpu=spec.xla_on_cpu),
        is_decayed=spec.is_decayed,
    )


def _seconds(train_step: Callable[[Batch], object], batches: Iterable[Batch], steps: int) -> float:
    started = time.perf_counter()
    for batch in itertools.islice(batches, steps):
        scalars = train_step(batch)
        if scalars is not None:
            float(scalars["loss"])
    return time.perf_counter() - started
