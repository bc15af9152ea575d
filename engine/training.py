"""From a trainer's flags to its run: what every trainer puts together in the same way."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from engine import checkpoints, devices, flags, loop, optim, train_flags
from engine.distribution import Replicas
from engine.loop import Batch
from engine.optim import MovingAverages
from engine.run_log import RunLog
from engine.slim_net import SlimNet
from engine.train_flags import TrainFlags
from engine.train_state import Saver, TrainState
from engine.validation import Validation

# Between the processes that train in step: what each of them is, where it finds its files, and how it reads them.
_MAY_DIFFER = (
    "task",
    "worker_hosts",
    "train_dir",
    "dataset_dir",
    "data_dir",
    "checkpoint_path",
    "num_readers",
    "num_preprocessing_threads",
    "gpu_memory_fraction",
)


def make_state(
    config: TrainFlags, net: SlimNet, manifest: dict[str, Any], replicas: Replicas, *, num_examples: int
) -> TrainState:
    """The net with its optimizer and averages as the flags ask for, not yet trained; `num_examples` make an epoch."""
    same = {name: value for name, value in flags.to_json(config).items() if name not in _MAY_DIFFER}
    facts = {f"--{name}": value for name, value in same.items()}
    facts |= {"the addresses of the workers": replicas.hosts, "its data set": (num_examples, manifest)}
    replicas.refuse_differences(facts)
    trainable = checkpoints.select_trainable(net, config.trainable_scopes)
    decay = config.moving_average_decay
    with replicas.scope():
        optimizer = train_flags.make_optimizer(config, num_examples=num_examples)
        optimizer.build(list(trainable.values()))
        averages = None if decay is None else MovingAverages(net.variables_by_name, decay)
    return TrainState(net, trainable, optimizer, averages, manifest)


def run(
    config: TrainFlags,
    state: TrainState,
    saver: Saver,
    batches: tf.data.Dataset,
    losses: Callable[..., dict[str, tf.Tensor]],
    count: Callable[[Batch], dict[str, tf.Tensor]],
    replicas: Replicas,
    make_summarise: Callable[[RunLog], Callable[[Batch, int], None]],
    *,
    xla_on_cpu: bool,
    validation: Validation | None = None,
    is_decayed: Callable[[str], bool] = optim.is_weight,
    loss_scale: float = 1.0,
) -> None:
    """Trains until the flags' last step; see `loop.make_train_step` and `loop.train`.

    Args:
        count: part of a batch -> what `losses` divides by, to be summed over the replicas.
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
        replicas=replicas,
        count=count,
    )
    replicas.refuse_differences({"the checkpoint it starts from (--train_dir must be the same folder)": int(state.step)})
    run_log = RunLog(config.train_dir, flags.to_json(config), step=int(state.step), writes=replicas.is_chief)
    loop.train(
        train_step,
        batches,
        state,
        saver,
        run_log,
        make_summarise(run_log) if replicas.is_chief else _summarise_nothing,
        validation,
        max_steps=config.max_number_of_steps,
        log_every_n_steps=config.log_every_n_steps,
        save_interval_secs=config.save_interval_secs,
        save_summaries_secs=config.save_summaries_secs,
        replicas=replicas,
    )


def _summarise_nothing(batch: Batch, step: int) -> None:
    """For the processes beside the chief, whose pictures would be much the same."""
