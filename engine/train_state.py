"""A run's whole state: what has to be saved so that it goes on as if it had not been interrupted."""

import contextlib
import json
import pathlib
import shutil
from typing import Any

import tensorflow as tf

from engine import checkpoint_forms
from engine.checkpoints import AVERAGE, StoredWeights
from engine.errors import UserError
from engine.optim import MovingAverages
from engine.slim_net import SlimNet

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
        if not optimizer.built:
            optimizer.build(list(trainable.values()))

    def count_step(self, examples: int) -> None:
        """One more step, on so many examples."""
        self.step.assign_add(1)
        self.examples.assign_add(examples)

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
    """Saves and restores a `TrainState` in `train_dir/model.ckpt-STEP`; keeps the 5 newest and one an hour.

    One that does not write, since another process does, only says where the checkpoint is.
    """

    def __init__(self, state: TrainState, train_dir: str | pathlib.Path, *, writes: bool = True):
        self._state, self._folder, self._writes = state, pathlib.Path(train_dir), writes
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
        if not self._writes:
            return str(self._folder / f"model.ckpt-{step}")
        try:
            self._newest = step, self._manager.save(checkpoint_number=step)
        except tf.errors.UnavailableError:
            raise  # no matter of this folder: a process that holds variables is gone
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
