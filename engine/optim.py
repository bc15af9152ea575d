"""Learning-rate schedules, optimizers by name, what is done to gradients, and moving averages of weights."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from engine.errors import UserError

DECAY_TYPES = ("fixed", "exponential", "polynomial", "piecewise", "cosine")

# The defaults of the hyper-parameters, under the names of their flags.
HYPER = {
    "adadelta_rho": 0.95,
    "adagrad_initial_accumulator_value": 0.1,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "opt_epsilon": 1e-8,
    "ftrl_learning_rate_power": -0.5,
    "ftrl_initial_accumulator_value": 0.1,
    "ftrl_l1": 0.0,
    "ftrl_l2": 0.0,
    "momentum": 0.9,
    "rmsprop_momentum": 0.9,
    "rmsprop_decay": 0.9,
}

OPTIMIZERS = {
    "adadelta": lambda rate, h: tf.keras.optimizers.Adadelta(rate, rho=h["adadelta_rho"], epsilon=h["opt_epsilon"]),
    "adagrad": lambda rate, h: tf.keras.optimizers.Adagrad(
        # TensorFlow 1's Adagrad has no epsilon; Keras's is made too small to matter.
        rate,
        initial_accumulator_value=h["adagrad_initial_accumulator_value"],
        epsilon=1e-12,
    ),
    "adam": lambda rate, h: tf.keras.optimizers.Adam(
        rate, beta_1=h["adam_beta1"], beta_2=h["adam_beta2"], epsilon=h["opt_epsilon"]
    ),
    "ftrl": lambda rate, h: tf.keras.optimizers.Ftrl(
        rate,
        learning_rate_power=h["ftrl_learning_rate_power"],
        initial_accumulator_value=h["ftrl_initial_accumulator_value"],
        l1_regularization_strength=h["ftrl_l1"],
        l2_regularization_strength=h["ftrl_l2"],
    ),
    "momentum": lambda rate, h: tf.keras.optimizers.SGD(rate, momentum=h["momentum"]),
    "rmsprop": lambda rate, h: tf.keras.optimizers.RMSprop(
        rate, rho=h["rmsprop_decay"], momentum=h["rmsprop_momentum"], epsilon=h["opt_epsilon"]
    ),
    "sgd": lambda rate, h: tf.keras.optimizers.SGD(rate),
}


def make_optimizer(name: str, learning_rate: Any, **hyper: float) -> tf.keras.optimizers.Optimizer:
    """The Keras optimizer called `name` in `OPTIMIZERS`.

    Args:
        learning_rate: a number or a schedule from `make_schedule`.
        hyper: values for some of the names in `HYPER`.

    Raises:
        UserError: an unknown optimizer or hyper-parameter; the known ones are listed.
    """
    if name not in OPTIMIZERS:
        raise UserError(f"--optimizer={name}: must be one of {', '.join(OPTIMIZERS)}")
    if unknown := sorted(set(hyper) - set(HYPER)):
        raise UserError(f"unknown hyper-parameter {', '.join(unknown)}: must be among {', '.join(HYPER)}")
    return OPTIMIZERS[name](learning_rate, HYPER | hyper)


def make_schedule(
    decay_type: str,
    *,
    learning_rate: float,
    end_learning_rate: float = 0.0,
    decay_steps: int = 1,
    decay_factor: float = 0.1,
    boundaries: Sequence[int] = (),
    max_steps: int = 1,
    warmup_steps: int = 0,
) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    """step -> learning rate.

    `fixed`; `exponential`: times `decay_factor` every `decay_steps`, in stairs; `polynomial`: a straight line to
    `end_learning_rate` over `decay_steps`; `piecewise`: times `decay_factor` from each of the steps `boundaries`
    on; `cosine`: to `end_learning_rate` at `max_steps`. Over the first `warmup_steps` the rate grows linearly.
    """
    schedules = tf.keras.optimizers.schedules
    if decay_type == "fixed":
        after = _stairs(learning_rate, (), 1.0)
    elif decay_type == "exponential":
        after = schedules.ExponentialDecay(learning_rate, decay_steps, decay_factor, staircase=True)
    elif decay_type == "polynomial":
        after = schedules.PolynomialDecay(learning_rate, decay_steps, end_learning_rate, power=1.0, cycle=False)
    elif decay_type == "piecewise":
        after = _stairs(learning_rate, boundaries, decay_factor)
    elif decay_type == "cosine":
        after = schedules.CosineDecay(learning_rate, max_steps, alpha=end_learning_rate / learning_rate)
    else:
        raise UserError(f"--learning_rate_decay_type={decay_type}: must be one of {', '.join(DECAY_TYPES)}")
    return _Warmup(after, warmup_steps) if warmup_steps else after


def _stairs(
    learning_rate: float, boundaries: Sequence[int], factor: float
) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    # Keras changes the rate after a boundary; Caffe, and we, at it. It needs at least one: the first one changes nothing.
    rates = [learning_rate, *(learning_rate * factor**i for i in range(len(boundaries) + 1))]
    return tf.keras.optimizers.schedules.PiecewiseConstantDecay([0, *(boundary - 1 for boundary in boundaries)], rates)


class _Warmup(tf.keras.optimizers.schedules.LearningRateSchedule):
    """Scales another schedule by (step + 1) / steps until step = `steps`."""

    def __init__(self, after: tf.keras.optimizers.schedules.LearningRateSchedule, steps: int):
        self._after, self._steps = after, steps

    def __call__(self, step: Any) -> tf.Tensor:
        part = tf.minimum(1.0, (tf.cast(step, tf.float32) + 1.0) / self._steps)
        return part * self._after(step)


def is_weight(name: str) -> bool:
    """Whether weight decay applies: convolution and matrix weights, and the learned scale of an L2 norm.

    Biases and batch normalisation are left alone, as in Caffe's SSD (decay_mult 0) and in TF-slim.
    """
    return name.endswith("weights") or name.endswith("L2Normalization/gamma")


def regularised_gradients(
    gradients: Sequence[tf.Tensor],
    variables: dict[str, tf.Variable],
    *,
    weight_decay: float,
    bias_learning_rate_factor: float,
    clip_gradient_norm: float | None,
    is_decayed: Callable[[str], bool] = is_weight,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """The gradients as the optimizer gets them, and the global L2 norm of the loss's own.

    To a weight's gradient comes `weight_decay` times the weight (the gradient of decay / 2 * |w|^2); a bias's is
    multiplied by `bias_learning_rate_factor` (Caffe's lr_mult). Clipping, to a global norm, comes first.
    """
    norm = tf.linalg.global_norm(gradients)
    if clip_gradient_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, clip_gradient_norm, use_norm=norm)
    shaped = []
    for gradient, (name, variable) in zip(gradients, variables.items(), strict=True):
        if name.endswith("biases"):
            gradient = gradient * bias_learning_rate_factor
        if is_decayed(name):
            gradient = gradient + weight_decay * variable
        shaped.append(gradient)
    return shaped, norm


def l2_penalty(variables: dict[str, tf.Variable], weight_decay: float, is_decayed: Callable[[str], bool]) -> tf.Tensor:
    """decay / 2 * |w|^2 over the decayed variables: the part of the objective whose gradient is the weight decay."""
    penalties = [tf.nn.l2_loss(variable) for name, variable in variables.items() if is_decayed(name)]
    return weight_decay * tf.add_n(penalties) if penalties else tf.constant(0.0)


class MovingAverages(tf.Module):
    """Exponential moving averages of variables, batch-norm statistics included.

    average -= (1 - decay) * (average - variable); with `num_updates` the decay is min(decay, (1 + n) / (10 + n)),
    so that the averages of a young run are not dominated by its initial values.
    """

    def __init__(self, variables: dict[str, tf.Variable], decay: float):
        super().__init__()
        self._variables, self._decay = variables, decay
        self.averages = {name: tf.Variable(v, trainable=False) for name, v in variables.items()}

    def reset(self) -> None:
        """Starts again from the variables' present values: after a warm start."""
        for name, variable in self._variables.items():
            self.averages[name].assign(variable)

    def update(self, num_updates: tf.Tensor | None = None) -> None:
        """Moves every average towards its variable."""
        decay = tf.constant(self._decay, tf.float32)
        if num_updates is not None:
            n = tf.cast(num_updates, tf.float32)
            decay = tf.minimum(decay, (1.0 + n) / (10.0 + n))
        for name, variable in self._variables.items():
            average = self.averages[name]
            average.assign_sub((1.0 - decay) * (average - variable))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """While entered, the variables hold their averages."""
        held = {name: variable.numpy() for name, variable in self._variables.items()}
        try:
            for name, variable in self._variables.items():
                variable.assign(self.averages[name])
            yield
        finally:
            for name, variable in self._variables.items():
                variable.assign(held[name])
