"""Evaluation during training: what it says, the checkpoint that does best, and when to stop since nothing gets better."""

import json
import math
import os
import pathlib
import shutil
from collections.abc import Callable

from engine.checkpoints import BEST
from engine.errors import UserError
from engine.files import write_json, writing
from engine.progress import say
from engine.run_log import RunLog
from engine.train_flags import TrainFlags
from engine.train_state import Saver, TrainState

_FILE = "best.json"


class Validation:
    """Evaluates a run now and then; keeps its best checkpoint in train_dir/best, whatever else is deleted.

    train_dir/best/best.json says the step, metric and value of that checkpoint, so that a resumed run knows what to beat.

    Args:
        config: its eval_every_steps, patience, eval_split_name and train_dir.
        evaluate: () -> numbers by name, of the weights that the net holds; None stands for a number that has no value.
        metric: the one that decides; more is better.

    Raises:
        UserError: train_dir/best/best.json cannot be understood.
    """

    def __init__(self, config: TrainFlags, evaluate: Callable[[], dict[str, float | None]], metric: str):
        self._config, self._evaluate, self._metric = config, evaluate, metric
        self._folder = pathlib.Path(config.train_dir) / BEST
        self._best_step, self._best = _read_best(self._folder / _FILE)

    def due(self, step: int) -> bool:
        """Whether to evaluate after this step: at every so many, and at the last one."""
        return step % self._config.eval_every_steps == 0 or step >= self._config.max_number_of_steps

    def run(self, state: TrainState, saver: Saver, run_log: RunLog) -> None:
        """Evaluates the averages of the weights, where there are some, and keeps the checkpoint if it is the best so far."""
        step = int(state.step)
        with state.averaged():
            values = self._evaluate()
        run_log.scalars(step, {name: value for name, value in values.items() if value is not None})
        value = values[self._metric]
        if value is None:
            raise UserError(
                f"--eval_split_name={self._config.eval_split_name}: {self._metric} has no value on it; has it objects?"
            )
        better = value > self._best
        beside = "the best so far" if better else f"best: {self._best:.4f} at step {self._best_step}"
        say(f"step {step}: {self._metric} = {value:.4f} on {self._config.eval_split_name}; {beside}")
        if better:
            self._keep(saver.save(), step, value)

    def _keep(self, prefix: str, step: int, value: float) -> None:
        """The files first, then what is said of them, then the previous ones go: a crash leaves one that is whole."""
        with writing(self._folder):
            self._folder.mkdir(exist_ok=True)
            # Nothing else: results of evaluations may lie there as well.
            previous = list(self._folder.glob("*.ckpt-*"))
            files = sorted(pathlib.Path(prefix).parent.glob(f"{pathlib.Path(prefix).name}.*"))
            for file in sorted(files, key=lambda file: file.suffix == ".index"):  # a checkpoint is there once its index is
                _copy(file, self._folder / file.name)
            write_json(self._folder / _FILE, {"step": step, "metric": self._metric, "value": value})
            for file in previous:
                if file.name not in {kept.name for kept in files}:
                    file.unlink()
        self._best_step, self._best = step, value

    def exhausted(self, step: int) -> bool:
        """Whether `patience` evaluations after the best one have passed without a better one; it is said when they have."""
        patience = self._config.patience
        if patience is None or self._best == -math.inf or step - self._best_step < patience * self._config.eval_every_steps:
            return False
        say(
            f"stopped early at step {step}: {self._metric} was best at step {self._best_step} ({self._best:.4f}, kept in"
            f" {self._folder}) and --patience={patience} evaluations since then were not better"
        )
        return True


def _read_best(path: pathlib.Path) -> tuple[int, float]:
    if not path.is_file():
        return 0, -math.inf
    try:
        said = json.loads(path.read_text("utf-8"))
        return int(said["step"]), float(said["value"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: does not say step and value of the best checkpoint ({error}); delete it to begin anew"
        ) from None


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    """A second name for the file where the file system can do that, which takes no space; else a copy. Whole or not at all."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        os.link(source, draft)
    except OSError:
        shutil.copyfile(source, draft)
    draft.replace(target)
