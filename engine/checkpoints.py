"""Weights read by name from checkpoints, ours and TF-slim's, and which checkpoint a path means.

Ours (`engine.train_state`) are `tf.train.Checkpoint`s laid out so that names can be read in them: `model/NAME`, the averages
as `averages/NAME/ExponentialMovingAverage` (each with TensorFlow's suffix), `manifest` (JSON: net, classes, ...). TF-slim's
hold plain names. `StoredWeights` reads both.
"""

import json
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from engine import checkpoint_forms
from engine.errors import UserError
from engine.progress import say
from engine.slim_net import SlimNet

AVERAGE = "ExponentialMovingAverage"
# Folder inside a run's, for the checkpoint that did best in the evaluations during training.
BEST = "best"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


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
