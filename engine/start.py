"""Where a run starts from: its own newest checkpoint, another one's weights, or fresh initial values."""

import pathlib
from collections.abc import Sequence
from typing import Any

from engine import checkpoints, flags
from engine.checkpoints import Saver, StoredWeights, TrainState
from engine.errors import UserError
from engine.progress import say
from engine.slim_net import SlimNet
from engine.train_flags import TrainFlags


def resumable(train_dir: str, manifest: dict[str, Any], must_agree: Sequence[str]) -> StoredWeights | None:
    """The newest checkpoint in train_dir, or None.

    Raises:
        UserError: it is of a run that differs in one of the manifest's entries `must_agree`.
    """
    stored = checkpoints.newest_in(train_dir)
    if stored is None:
        return None
    for key in must_agree:
        if stored.manifest.get(key) != manifest[key]:
            raise UserError(
                f"--train_dir={train_dir}: it holds a run with {key} = {stored.manifest.get(key)}, but {manifest[key]} is"
                " asked for; give another --train_dir"
            )
    return stored


def begin(state: TrainState, saver: Saver, existing: StoredWeights | None, config: TrainFlags) -> bool:
    """Sets the state to where training starts, and tells the user; False when nothing is left to train."""
    if existing is not None:
        saver.restore(existing.prefix)
        _say_resumed(config, existing, int(state.step))
    elif config.checkpoint_path:
        _warm_start(config, state.net)
        if state.averages is not None:
            state.averages.reset()
    if int(state.step) >= config.max_number_of_steps:
        say(f"nothing to do: --max_number_of_steps={config.max_number_of_steps}")
        return False
    return True


def _say_resumed(config: TrainFlags, existing: StoredWeights, step: int) -> None:
    say(f"going on from {existing.prefix} at step {step}")
    try:
        before = flags.to_json(flags.load(type(config), pathlib.Path(config.train_dir) / "config.json"))
    except UserError as error:
        say(f"note: which flags differ from before is unknown: {error}")
    else:
        changed = {name: value for name, value in flags.to_json(config).items() if before[name] != value}
        for name, value in changed.items():
            say(f"note: --{name} was {before[name]}, is {value}")
    if config.checkpoint_path:
        say(f"note: --checkpoint_path={config.checkpoint_path} is not used: the checkpoint in train_dir wins")
    if existing.manifest["optimizer"] != config.optimizer:
        say(f"note: the weights are kept, {config.optimizer} starts fresh")


def _warm_start(config: TrainFlags, net: SlimNet) -> None:
    stored = checkpoints.find(config.checkpoint_path)
    matches = checkpoints.warm_start(
        net,
        stored,
        model_scope=config.checkpoint_model_scope or None,
        exclude_scopes=config.checkpoint_exclude_scopes,
        ignore_missing=config.ignore_missing_vars,
    )
    outcomes = [match.outcome for match in matches]
    counted = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in sorted(set(outcomes)))
    say(f"variables taken from {stored.prefix}: {counted}")
