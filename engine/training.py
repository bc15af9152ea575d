"""From a trainer's flags to its run: what every trainer puts together in the same way."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from engine import checkpoints, devices, flags, loop, optim, train_flags
from engine.checkpoints import Saver, TrainState
from engine.loop import Batch
from engine.optim import MovingAverages
from engine.run_log import RunLog
from engine.slim_net import SlimNet
from engine.train_flags import TrainFlags
from engine.validation import Validation


def make_state(config: TrainFlags, net: SlimNet, manifest: dict[str, Any], *, num_examples: int) -> TrainState:
    """The net with its optimizer and averages as the flags ask for, not yet trained; `num_examples` make an epoch."""
    trainable = checkpoints.select_trainable(net, config.trainable_scopes)
    optimizer = train_flags.make_optimizer(config, num_examples=num_examples)
    decay = config.moving_average_decay
    averages = None if decay is None else MovingAverages(net.variables_by_name, decay)
    return TrainState(net, trainable, optimizer, averages, manifest)


def run(
    config: TrainFlags,
    state: TrainState,
    saver: Saver,
    batches: tf.data.Dataset,
    losses: Callable[..., dict[str, tf.Tensor]],
    make_summarise: Callable[[RunLog], Callable[[Batch, int], None]],
    *,
    xla_on_cpu: bool,
    validation: Validation | None = None,
    is_decayed: Callable[[str], bool] = optim.is_weight,
    loss_scale: float = 1.0,
) -> None:
    """Trains until the flags' last step; see `loop.make_train_step` and `loop.train`.

    Args:
        make_summarise: from the run's log to what writes pictures and histograms into it.
        xla_on_cpu: whether the train step is faster as one XLA program on a CPU.
    """
    train_step = loop.make_train_step(
        state,
        losses,
        weight_decay=config.weight_decay,
        bias_learning_rate_factor=config.bias_learning_rate_factor,
        clip_gradient_norm=config.clip_gradient_norm,
        xla=devices.use_xla(config.xla, faster_on_cpu=xla_on_cpu),
        is_decayed=is_decayed,
        loss_scale=loss_scale,
    )
    run_log = RunLog(config.train_dir, flags.to_json(config), step=int(state.step))
    loop.train(
        train_step,
        batches,
        state,
        saver,
        run_log,
        make_summarise(run_log),
        validation,
        max_steps=config.max_number_of_steps,
        log_every_n_steps=config.log_every_n_steps,
        save_interval_secs=config.save_interval_secs,
        save_summaries_secs=config.save_summaries_secs,
    )
