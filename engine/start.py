"""Where a run starts from: its own newest checkpoint, another one's weights, or fresh initial values."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from engine import checkpoints, flags
from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.progress import say
from engine.train_flags import TrainFlags
from engine.train_state import Saver, TrainState
from engine.validation import Validation
from engine.warm_start import TakeOverRule, warm_start


def resumable(train_dir: str, manifest: dict[str, Any], must_agree: Sequence[str]) -> StoredWeights | None:
    """The newest checkpoint in train_dir, or None.

    Raises:
        UserError: it is of a run that differs in one of the manifest's entries `must_agree`; or only the best checkpoint of
            an earlier run is there, which would be taken for this one's.
    """
    stored = checkpoints.newest_in(train_dir)
    best = pathlib.Path(train_dir) / checkpoints.BEST
    if stored is not None:
        refuse_other_run(train_dir, stored, manifest, must_agree)
    elif any(best.glob("*.index")):
        raise UserError(
            f"--train_dir={train_dir}: it holds no checkpoint to go on from, only the best one of an earlier run in {best}:"
            " move that elsewhere, from where --checkpoint_path takes it"
        )
    return stored


def refuse_other_run(train_dir: str, stored: StoredWeights, manifest: dict[str, Any], must_agree: Sequence[str]) -> None:
    """`UserError` where the checkpoint `stored` in train_dir differs in one of the manifest's entries `must_agree`."""
    for key in must_agree:
        if stored.manifest.get(key) != manifest[key]:
            raise UserError(
                f"--train_dir={train_dir}: it holds a run with {key} = {stored.manifest.get(key)}, but {manifest[key]} is"
                " asked for; give another --train_dir"
            )


def begin(
    state: TrainState,
    saver: Saver,
    existing: StoredWeights | None,
    config: TrainFlags,
    *,
    take_over: TakeOverRule | None = None,
    validation: Validation | None = None,
) -> bool:
    """Sets the state to where training starts, and tells the user; False when nothing is left to train.

    Nothing is written. With `--dry_run` that was all.
    """
    if existing is not None:
        restored = saver.restore(existing.prefix)
        _say_resumed(config, existing, int(state.step))
        _say_restored(state, restored)
    elif (stored := source(config)) is not None:
        _warm_start(config, state, stored, take_over)
    else:
        say(f"all {len(state.net.variables_by_name)} variables start from fresh initial values")
    _say_trained(state)
    if int(state.step) >= config.max_number_of_steps:
        say(f"nothing to do: --max_number_of_steps={config.max_number_of_steps}")
        return False
    if validation is not None and validation.exhausted(int(state.step)):
        return False
    if config.dry_run:
        say("--dry_run: nothing was trained or written")
    return not config.dry_run


def source(config: TrainFlags) -> StoredWeights | None:
    """The checkpoint that --checkpoint_path names; None when it is not given."""
    return checkpoints.find(config.checkpoint_path) if config.checkpoint_path else None


def _say_resumed(config: TrainFlags, existing: StoredWeights, step: int) -> None:
    say(f"going on from {existing.prefix} at step {step}")
    try:
        before = flags.to_json(flags.load(type(config), pathlib.Path(config.train_dir) / "config.json"))
    except UserError as error:
        say(f"note: which flags differ from before is unknown: {error}")
    else:
        now = flags.to_json(dataclasses.replace(config, dry_run=False))
        for name, value in now.items():
            if before[name] != value:
                say(f"note: --{name} was {before[name]}, is {value}")
    if config.checkpoint_path:
        say(f"note: --checkpoint_path={config.checkpoint_path} is not used: the checkpoint in train_dir wins")
    if existing.manifest["optimizer"] != config.optimizer:
        say(f"note: the weights are kept, {config.optimizer} starts fresh")


def _say_restored(state: TrainState, restored: Sequence[str]) -> None:
    """One line each on what came from train_dir's checkpoint and what could not."""
    parts = {
        "model": f"{len(state.net.variables_by_name)} variables of the net",
        "optimizer": f"{len(state.optimizer.variables)} of the optimizer",
    }
    if state.averages is not None:
        parts["averages"] = f"{len(state.averages.averages)} moving averages"
    say(f"  restored: {', '.join(shown for part, shown in parts.items() if part in restored)}")
    if fresh := [shown for part, shown in parts.items() if part not in restored]:
        say(f"  fresh: {', '.join(fresh)}")


def _say_trained(state: TrainState) -> None:
    every = len(state.net.trainable_by_name)
    if frozen := every - len(state.trainable):
        say(f"{len(state.trainable)} variables are trained, {frozen} are frozen")


def _warm_start(config: TrainFlags, state: TrainState, stored: StoredWeights, take_over: TakeOverRule | None) -> None:
    warm_start(
        state.net,
        stored,
        model_scope=config.checkpoint_model_scope,
        exclude_scopes=config.checkpoint_exclude_scopes,
        ignore_missing=config.ignore_missing_vars,
        take_over=take_over,
    )
    if state.averages is not None:
        state.averages.reset()
