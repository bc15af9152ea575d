"""The flags that every trainer has: optimizer, learning rate, fine-tuning, logging, reading."""

import dataclasses

import tensorflow as tf

from engine import optim
from engine.errors import UserError
from engine.flags import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """The defaults suit no one task: a trainer's own flags may replace them, and `recipes/` holds sets of them."""

    # Where the run lives, and how it speaks.
    train_dir: str = flag("/tmp/tfmodel/", "folder of the checkpoints and event logs; a run in it is resumed", required=True)
    log_every_n_steps: int = flag(10, "steps between two lines on the console", minimum=1)
    save_summaries_secs: float = flag(600.0, "seconds between two sets of pictures and histograms for TensorBoard", minimum=0)
    save_interval_secs: float = flag(600.0, "seconds between two checkpoints", minimum=0)
    max_number_of_steps: int = flag(120000, "stop after this many steps", minimum=1)
    eval_every_steps: int = flag(0, "steps between two evaluations, whose best checkpoint is kept; 0 for none", minimum=0)
    eval_split_name: str = flag("val", "split they are done on")
    patience: int | None = flag(None, "stop when so many of them in a row are no better than the best", minimum=1)
    seed: int = flag(0, "decides weights, order of examples, augmentation", minimum=0, maximum=2**63 - 1)

    # The data.
    batch_size: int = flag(32, "pictures in a step, over all devices", minimum=1)
    dataset_dir: str = flag("", "folder with the TFRecord files", required=True)
    dataset_name: str = flag("", "name of the data set in that folder (default: the only one there)")
    dataset_split_name: str = flag("train", "split to train on")
    labels_offset: int = flag(0, "subtracted from every label in the records")
    num_readers: int = flag(4, "records read at the same time", minimum=1)
    num_preprocessing_threads: int = flag(4, "pictures decoded and augmented at the same time", minimum=1)

    # Optimizer.
    optimizer: str = flag("momentum", "optimizer", choices=tuple(optim.OPTIMIZERS))
    weight_decay: float = flag(0.0005, "L2 penalty on weights; not on biases or batch normalisation", minimum=0)
    bias_learning_rate_factor: float = flag(1.0, "times the gradients of biases (Caffe's lr_mult: 2)", minimum=0)
    clip_gradient_norm: float | None = flag(None, "scale the gradients down to this global norm when they exceed it", above=0)
    momentum: float = flag(optim.HYPER["momentum"], "for momentum", minimum=0, maximum=1)
    adadelta_rho: float = flag(optim.HYPER["adadelta_rho"], "decay rate, for adadelta", minimum=0, maximum=1)
    adagrad_initial_accumulator_value: float = flag(
        optim.HYPER["adagrad_initial_accumulator_value"], "starting value of the accumulators, for adagrad", minimum=0
    )
    adam_beta1: float = flag(optim.HYPER["adam_beta1"], "decay rate of the first moment, for adam", minimum=0, maximum=1)
    adam_beta2: float = flag(optim.HYPER["adam_beta2"], "decay rate of the second moment, for adam", minimum=0, maximum=1)
    opt_epsilon: float = flag(optim.HYPER["opt_epsilon"], "epsilon, for adadelta, adam and rmsprop", above=0)
    ftrl_learning_rate_power: float = flag(optim.HYPER["ftrl_learning_rate_power"], "for ftrl", maximum=0)
    ftrl_initial_accumulator_value: float = flag(optim.HYPER["ftrl_initial_accumulator_value"], "for ftrl", minimum=0)
    ftrl_l1: float = flag(optim.HYPER["ftrl_l1"], "L1 strength, for ftrl", minimum=0)
    ftrl_l2: float = flag(optim.HYPER["ftrl_l2"], "L2 strength, for ftrl", minimum=0)
    rmsprop_momentum: float = flag(optim.HYPER["rmsprop_momentum"], "momentum, for rmsprop", minimum=0, maximum=1)
    rmsprop_decay: float = flag(optim.HYPER["rmsprop_decay"], "decay rate of the squares, for rmsprop", minimum=0, maximum=1)
    moving_average_decay: float | None = flag(
        None, "keep moving averages of the weights with this decay; evaluation then uses them", above=0, maximum=1
    )

    # Learning rate.
    learning_rate: float = flag(0.001, "initial learning rate", above=0)
    learning_rate_decay_type: str = flag("piecewise", "how the learning rate falls", choices=optim.DECAY_TYPES)
    learning_rate_boundaries: tuple[int, ...] = flag((80000, 100000), "steps at which it falls, for piecewise")
    learning_rate_decay_factor: float | None = flag(
        None, "what it is multiplied by each time (default: .94 for exponential, .1 for piecewise)", above=0, maximum=1
    )
    num_epochs_per_decay: float = flag(
        2.0, "epochs between two falls, for exponential; of the whole fall, for polynomial", above=0
    )
    end_learning_rate: float = flag(0.0001, "lowest learning rate, for polynomial and cosine", minimum=0)
    warmup_steps: int = flag(500, "steps over which the learning rate grows to its initial value", minimum=0)

    # Fine-tuning.
    checkpoint_path: str = flag("", "checkpoint (folder or prefix) whose weights to start from; one in train_dir wins")
    checkpoint_model_scope: str = flag(
        "", "scope of the net in that checkpoint (default: as the checkpoint says, or the net's own name)"
    )
    checkpoint_exclude_scopes: tuple[str, ...] = flag((), "scopes whose variables are not taken from it")
    ignore_missing_vars: bool = flag(False, "variables that it lacks keep their initial values instead of being an error")
    trainable_scopes: tuple[str, ...] = flag((), "scopes whose variables are trained (default: all)")
    dry_run: bool = flag(False, "tell what becomes of every variable, and end before anything is trained or written")

    # Devices.
    gpu_memory_fraction: float | None = flag(None, "cap on each GPU's memory (default: grows as needed)", above=0, maximum=1)
    xla: str = flag("auto", "compile the train step as one XLA program", choices=("auto", "on", "off"))


def check(flags: TrainFlags) -> None:
    """`UserError` for flags that contradict themselves or each other."""
    steps = flags.learning_rate_boundaries
    if any(before >= after for before, after in zip((0, *steps), steps, strict=False)):
        raise UserError(f"--learning_rate_boundaries={','.join(map(str, steps))}: must be rising steps from 1 on")
    if flags.patience is not None and not flags.eval_every_steps:
        raise UserError(f"--patience={flags.patience} needs --eval_every_steps: it counts evaluations during training")


def make_optimizer(flags: TrainFlags, *, num_examples: int) -> tf.keras.optimizers.Optimizer:
    """The optimizer with its schedule, as the flags say; `num_examples` is the length of an epoch."""
    factor = flags.learning_rate_decay_factor
    if factor is None:
        factor = 0.94 if flags.learning_rate_decay_type == "exponential" else 0.1
    schedule = optim.make_schedule(
        flags.learning_rate_decay_type,
        learning_rate=flags.learning_rate,
        end_learning_rate=flags.end_learning_rate,
        decay_steps=max(1, int(num_examples / flags.batch_size * flags.num_epochs_per_decay)),
        decay_factor=factor,
        boundaries=flags.learning_rate_boundaries,
        max_steps=flags.max_number_of_steps,
        warmup_steps=flags.warmup_steps,
    )
    hyper = {name: getattr(flags, name) for name in optim.HYPER}
    return optim.make_optimizer(flags.optimizer, schedule, **hyper)
