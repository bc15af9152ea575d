"""Checkpoints: a run's whole state, saved and resumed; weights read by name from ours and from TF-slim's.

Ours are `tf.train.Checkpoint`s laid out so that names can be read in them: `model/NAME`, the averages as
`averages/NAME/ExponentialMovingAverage` (each with TensorFlow's suffix), `manifest` (JSON: net, classes, ...).
TF-slim's hold plain names. `StoredWeights` reads both.
"""

import contextlib
import json
import pathlib
import re
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from engine import checkpoint_forms
from engine.errors import UserError
from engine.optim import MovingAverages
from engine.progress import say
from engine.slim_net import SlimNet

AVERAGE = "ExponentialMovingAverage"
# Folder inside a run's, for the checkpoint that did best in the evaluations during training.
BEST = "best"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
# What in a manifest decides whether a checkpoint's slots are those of the optimizer in use.
_DECIDE_SLOTS = ("optimizer", "trainable_scopes")
_KEEP_NEWEST, _KEEP_EVERY_HOURS = 5, 1


class TrainState:
    """Everything that a run needs to go on as if it had not been interrupted.

    Attributes:
        step: train steps done.
        examples: examples consumed, which is the position in the data.
        averages: None when the run keeps none.
    """

    def __init__(
        self,
        net: SlimNet,
        trainable: dict[str, tf.Variable],
        optimizer: tf.keras.optimizers.Optimizer,
        averages: MovingAverages | None,
        manifest: dict[str, Any],
    ):
        self.net, self.trainable, self.optimizer, self.averages = net, trainable, optimizer, averages
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.examples = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.manifest = manifest
        optimizer.build(list(trainable.values()))

    def averaged(self) -> contextlib.AbstractContextManager:
        """While entered, the net holds the averages of its weights, if the run keeps any."""
        return contextlib.nullcontext() if self.averages is None else self.averages.in_place()

    def checkpoint(self) -> tf.train.Checkpoint:
        """The state as one object to save to and restore from."""
        parts = {
            "model": _tree(self.net.variables_by_name),
            "optimizer": [slot.value for slot in self.optimizer.variables],
            "step": self.step,
            "examples": self.examples,
            "manifest": tf.Variable(json.dumps(self.manifest, ensure_ascii=False), trainable=False),
        }
        if self.averages is not None:
            parts["averages"] = _tree({f"{name}/{AVERAGE}": v for name, v in self.averages.averages.items()})
        return tf.train.Checkpoint(**parts)


def _tree(variables: dict[str, tf.Variable]) -> dict[str, Any]:
    """{"a/b": v} -> {"a": {"b": v}}: a checkpoint would escape the slashes of a flat name."""
    root: dict[str, Any] = {}
    for name, variable in variables.items():
        *scopes, last = name.split("/")
        node = root
        for scope in scopes:
            node = node.setdefault(scope, {})
        node[last] = variable
    return root


class Saver:
    """Saves and restores a `TrainState` in `train_dir/model.ckpt-STEP`; keeps the 5 newest and one an hour."""

    def __init__(self, state: TrainState, train_dir: str | pathlib.Path):
        self._state, self._folder = state, pathlib.Path(train_dir)
        self._checkpoint = state.checkpoint()
        self._manager = tf.train.CheckpointManager(
            self._checkpoint,
            str(self._folder),
            max_to_keep=_KEEP_NEWEST,
            keep_checkpoint_every_n_hours=_KEEP_EVERY_HOURS,
            checkpoint_name="model.ckpt",
        )
        self._newest: tuple[int, str] | None = None

    def save(self) -> str:
        """Writes the state as it is now, unless that is done already, and returns the checkpoint's prefix.

        Raises:
            UserError: it could not be written (disk full, no permission); earlier checkpoints are intact.
        """
        step = int(self._state.step)
        if self._newest and self._newest[0] == step:
            return self._newest[1]
        try:
            self._newest = step, self._manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            # What was half written keeps its space, which is short.
            shutil.rmtree(self._folder / f"model.ckpt-{step}_temp", ignore_errors=True)
            reason = checkpoint_forms.plain_reason(error)
            raise UserError(f"{self._folder}: the checkpoint of step {step} could not be written ({reason})") from None
        return self._newest[1]

    def restore(self, prefix: str) -> list[str]:
        """Sets the state to that of the checkpoint `prefix`, and returns the parts that it took from there.

        The slots of another optimizer, or of other trained variables, than those in use are left fresh; averages
        that the checkpoint lacks start from its weights.
        """
        stored = StoredWeights(prefix)
        parts = ["model", "step", "examples"]
        if keeps_slots := all(stored.manifest.get(key) == self._state.manifest.get(key) for key in _DECIDE_SLOTS):
            parts.append("optimizer")
        if keeps_averages := any(name.endswith(f"/{AVERAGE}") for name in stored.shapes):
            parts.append("averages")
        objects = {part: getattr(self._checkpoint, part) for part in parts if hasattr(self._checkpoint, part)}
        try:
            tf.train.Checkpoint(**objects).restore(prefix).expect_partial().assert_existing_objects_matched()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise UserError(f"{prefix}: does not fit this run ({str(error).splitlines()[0]})") from None
        if not keeps_slots:
            self._state.optimizer.iterations.assign(self._state.step.read_value())
        if self._state.averages is not None and not keeps_averages:
            self._state.averages.reset()
        self._newest = int(self._state.step), prefix
        return list(objects)


def find(path: str | pathlib.Path) -> "StoredWeights":
    """The checkpoint that `path` means: a prefix, one of its files, or a folder.

    Of a folder it is the one that did best in the evaluations during training, where there were some, else the newest, or
    the only one.

    Raises:
        UserError: there is none, or it cannot be read; what was looked for is named.
    """
    path = str(path)
    if pathlib.Path(path).is_dir():
        return newest_in(pathlib.Path(path) / BEST) or newest_in(path) or _only_in(path)
    prefix = checkpoint_forms.prefix_of(path)
    if not checkpoint_forms.exists(prefix):
        raise UserError(f"{path}: {checkpoint_forms.describe_missing(path)}")
    return StoredWeights(prefix)


def _only_in(folder: str) -> "StoredWeights":
    """The checkpoint of a folder that holds a single one, without a step in its name."""
    if len(found := checkpoint_forms.in_folder(folder)) == 1:
        return StoredWeights(found[0])
    raise UserError(f"{folder}: {checkpoint_forms.describe_folder(folder)}")


def newest_in(folder: str | pathlib.Path) -> "StoredWeights | None":
    """The folder's newest checkpoint that can be read; None when there is none.

    The step in the files' names decides, so that a folder that was moved or lost its `checkpoint` file works. One that
    was cut short, by a crash while it was written, is named and passed over.

    Raises:
        UserError: there are some, and none can be read.
    """
    steps = {}
    for index in pathlib.Path(folder).glob("*.ckpt-*.index"):
        if found := re.fullmatch(r"(.+\.ckpt-(\d+))\.index", index.name):
            steps[int(found[2])] = str(index.with_name(found[1]))
    for step in sorted(steps, reverse=True):
        try:
            return StoredWeights(steps[step])
        except UserError as error:
            say(f"passed over: {error}")
    if steps:
        raise UserError(f"{folder}: none of its {len(steps)} checkpoints can be read")
    return None


def step_of(prefix: str) -> int | None:
    """The step in the name of a checkpoint, NAME.ckpt-STEP; None for a foreign one's."""
    found = re.search(r"-(\d+)$", prefix)
    return int(found[1]) if found else None


class StoredWeights:
    """The weights in a checkpoint, by name.

    Attributes:
        prefix: the checkpoint.
        manifest: what our checkpoints say about themselves, inside or in PREFIX.json; {} in a foreign one.
        shapes: name -> shape, under the names of TF-slim; the averages as NAME/ExponentialMovingAverage.
    """

    def __init__(self, prefix: str):
        self.prefix = prefix
        try:
            self._reader = tf.train.load_checkpoint(prefix)
        except (tf.errors.OpError, ValueError) as error:
            raise UserError(f"{prefix}: not a readable checkpoint ({checkpoint_forms.why_unreadable(prefix, error)})") from None
        stored = self._reader.get_variable_to_shape_map()
        self._keys = {_name_of(key): key for key in stored if _name_of(key)}
        self.shapes = {name: tuple(stored[key]) for name, key in self._keys.items()}
        if "manifest" + _SUFFIX in stored:
            self.manifest: dict[str, Any] = json.loads(self._get("manifest" + _SUFFIX))
        else:
            self.manifest = checkpoint_forms.read_description(prefix)

    def told(self, key: str, asked: str | int | None) -> str | int:
        """What the checkpoint says of itself in its manifest, or, where it says nothing, what the flag `key` says.

        Raises:
            UserError: neither says it, or they disagree.
        """
        said = self.manifest.get(key)
        if said is None and asked is None:
            raise UserError(f"--{key} must be given: {self.prefix} does not say it")
        if said is not None and asked not in (None, said):
            raise UserError(f"--{key}={asked}: {self.prefix} was trained with {said}")
        return asked if said is None else said

    def read(self, name: str) -> np.ndarray:
        """The value of a variable. Raises `UserError` when the file is damaged."""
        return self._get(self._keys[name])

    def _get(self, key: str) -> Any:
        try:
            return self._reader.get_tensor(key)
        except (tf.errors.OpError, IndexError) as error:
            raise UserError(f"{self.prefix}: damaged, {key} cannot be read ({str(error).splitlines()[0]})") from None


def _name_of(key: str) -> str | None:
    """model/a/b/.ATTRIBUTES/VARIABLE_VALUE -> a/b; a foreign checkpoint's key is the name; None: no weight."""
    if not key.endswith(_SUFFIX):
        return None if key == "_CHECKPOINTABLE_OBJECT_GRAPH" else key
    part, _, name = key.removesuffix(_SUFFIX).partition("/")
    return name if part in ("model", "averages") else None


def _to_use(stored: StoredWeights, name: str) -> str:
    """The average of a variable where the checkpoint holds it, else the variable itself."""
    return f"{name}/{AVERAGE}" if f"{name}/{AVERAGE}" in stored.shapes else name


def weights_to_use(stored: StoredWeights) -> dict[str, np.ndarray]:
    """Every variable by its plain name: its average where the checkpoint holds one."""
    names = sorted(name for name in stored.shapes if not name.endswith(f"/{AVERAGE}"))
    return {name: stored.read(_to_use(stored, name)) for name in names}


def write_plain(prefix: str | pathlib.Path, weights: dict[str, np.ndarray]) -> None:
    """Writes a checkpoint that holds arrays under their names and nothing else, as TF-slim's code reads it."""
    names = list(weights)
    try:
        tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(weights[name]) for name in names],
        )
    except tf.errors.OpError as error:
        raise UserError(f"{prefix}: could not be written ({checkpoint_forms.plain_reason(error)})") from None


def load_weights(net: SlimNet, stored: StoredWeights) -> None:
    """Fills every variable of `net` from a checkpoint of the same net: the averages where it holds them.

    Raises:
        UserError: a variable is missing or has another shape.
    """
    for name, variable in net.variables_by_name.items():
        source = _to_use(stored, name)
        if source not in stored.shapes:
            raise UserError(f"{stored.prefix}: holds no {name}; is it a checkpoint of {net.scope}?")
        if stored.shapes[source] != tuple(variable.shape):
            raise UserError(f"{stored.prefix}: {name} is {stored.shapes[source]} there, {tuple(variable.shape)} here")
        variable.assign(stored.read(source))


def in_scopes(name: str, scopes: Sequence[str]) -> bool:
    """Whether a variable lies in one of the scopes: "net/conv1" covers net/conv1/weights, but not net/conv10."""
    return any(name == scope or name.startswith(scope.rstrip("/") + "/") for scope in scopes)


def select_trainable(net: SlimNet, scopes: Sequence[str]) -> dict[str, tf.Variable]:
    """The variables to train: all, or those in `scopes`; the others are frozen. `UserError` for a scope without variables."""
    check_scopes("trainable_scopes", scopes, net, net.trainable_by_name)
    selected = {name: v for name, v in net.trainable_by_name.items() if not scopes or in_scopes(name, scopes)}
    net.freeze(net.trainable_by_name.keys() - selected.keys())
    return selected


def check_scopes(flag: str, scopes: Sequence[str], net: SlimNet, names: Iterable[str]) -> None:
    """Raises `UserError` naming `flag` when one of its scopes holds none of the variables `names`."""
    names = list(names)
    for scope in scopes:
        if not any(in_scopes(name, [scope]) for name in names):
            raise UserError(f"--{flag}={scope}: no variable of {net.scope} lies there")
