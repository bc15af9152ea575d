import dataclasses
import json

import numpy as np
import pytest

from engine import checkpoints
from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.run_log import RunLog
from engine.train_flags import TrainFlags, check
from engine.train_state import Saver
from engine.validation import Validation
from tests.engine.test_train_state import advance, make_state


def make_config(folder, **flags):
    settings = {"train_dir": str(folder), "dataset_dir": "data", "eval_every_steps": 2, "max_number_of_steps": 100} | flags
    return dataclasses.replace(TrainFlags(), **settings)


def follow(folder, values, *, first_step=0, **flags):
    """A run whose evaluations, every two steps, give these values; returns its validation and state, and when it ended."""
    folder.mkdir(exist_ok=True)
    state = make_state()
    advance(state, first_step)
    saver, log, values = Saver(state, folder), RunLog(folder, {}, step=first_step), iter(values)
    validation = Validation(make_config(folder, **flags), lambda: {"metric": next(values), "other": None}, "metric")
    for step in range(first_step + 1, 100):
        advance(state, 1)
        if validation.due(step):
            try:
                validation.run(state, saver, log)
            except StopIteration:
                return validation, state, step - 2
            if validation.exhausted(step):
                return validation, state, step
    raise AssertionError


def test_the_best_is_kept_whatever_else_is_deleted(tmp_path, capsys):
    follow(tmp_path, [0.1, 0.3, 0.2, 0.3, 0.25])
    kept = sorted(path.name for path in (tmp_path / "best").iterdir())
    assert kept == ["best.json", "model.ckpt-4.data-00000-of-00001", "model.ckpt-4.index"]
    assert json.loads((tmp_path / "best" / "best.json").read_text()) == {"step": 4, "metric": "metric", "value": 0.3}
    for path in tmp_path.glob("model.ckpt-*"):
        path.unlink()
    stored = StoredWeights(str(tmp_path / "best" / "model.ckpt-4"))
    expected = make_state()
    advance(expected, 4)
    name = "net/conv10/biases"
    np.testing.assert_array_equal(stored.read(name), expected.net.variables_by_name[name])
    told = capsys.readouterr().err
    assert "step 4: metric = 0.3000 on val; the best so far" in told
    assert "step 8: metric = 0.3000 on val; best: 0.3000 at step 4" in told


def test_what_else_lies_beside_the_best_stays(tmp_path):
    (tmp_path / "best" / "eval_val").mkdir(parents=True)
    (tmp_path / "best" / "eval_val" / "metrics.json").write_text("{}")
    follow(tmp_path, [0.1, 0.3])
    assert sorted(path.name for path in (tmp_path / "best").iterdir()) == [
        "best.json",
        "eval_val",
        "model.ckpt-4.data-00000-of-00001",
        "model.ckpt-4.index",
    ]


def test_a_folder_means_its_best_checkpoint(tmp_path):
    _, state, _ = follow(tmp_path, [0.3, 0.2])
    newest = Saver(state, tmp_path).save()
    assert checkpoints.find(tmp_path).prefix == str(tmp_path / "best" / "model.ckpt-2")
    assert checkpoints.find(tmp_path / "best").prefix == str(tmp_path / "best" / "model.ckpt-2")
    assert checkpoints.newest_in(tmp_path).prefix == newest


def test_the_numbers_are_logged(tmp_path):
    follow(tmp_path, [0.3, 0.2])
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"step": 2, "metric": 0.3}, {"step": 4, "metric": 0.2}]


def test_patience(tmp_path, capsys):
    validation, _, stopped = follow(tmp_path, [0.1, 0.4, 0.3, 0.4, 0.5, 0.1, 0.5, 0.2], patience=3)
    assert stopped == 16  # the best is that of step 10
    assert "stopped early at step 16: metric was best at step 10 (0.5000" in capsys.readouterr().err
    assert not validation.exhausted(14)
    again = Validation(make_config(tmp_path, patience=3), dict, "metric")
    assert again.exhausted(16)
    assert not Validation(make_config(tmp_path, patience=4), dict, "metric").exhausted(16)
    assert not Validation(make_config(tmp_path), dict, "metric").exhausted(1000)


def test_a_resumed_run_knows_what_to_beat(tmp_path):
    follow(tmp_path, [0.5])
    follow(tmp_path, [0.4], first_step=2)
    assert json.loads((tmp_path / "best" / "best.json").read_text())["step"] == 2
    follow(tmp_path, [0.6], first_step=4)
    assert json.loads((tmp_path / "best" / "best.json").read_text())["step"] == 6
    assert [path.name for path in (tmp_path / "best").glob("*.index")] == ["model.ckpt-6.index"]


def test_the_averages_are_evaluated_and_the_weights_stay(tmp_path):
    state = make_state()
    advance(state, 2)
    name, seen = "net/conv1/weights", []
    weights = state.net.variables_by_name[name].numpy()

    def evaluate():
        seen.append(state.net.variables_by_name[name].numpy())
        return {"metric": 1.0}

    tmp_path.mkdir(exist_ok=True)
    Validation(make_config(tmp_path), evaluate, "metric").run(state, Saver(state, tmp_path), RunLog(tmp_path, {}, step=0))
    np.testing.assert_array_equal(seen[0], state.averages.averages[name])
    np.testing.assert_array_equal(state.net.variables_by_name[name], weights)
    assert np.abs(seen[0] - weights).max() > 0.01


def test_due_at_every_so_many_steps_and_at_the_end(tmp_path):
    validation = Validation(make_config(tmp_path, eval_every_steps=4, max_number_of_steps=10), dict, "metric")
    assert [step for step in range(1, 11) if validation.due(step)] == [4, 8, 10]


def test_mistakes_are_named(tmp_path):
    with pytest.raises(UserError, match="--eval_split_name=val: metric has no value on it"):
        follow(tmp_path, [None])
    with pytest.raises(UserError, match="--patience=2 needs --eval_every_steps"):
        check(make_config(tmp_path, patience=2, eval_every_steps=0))
    (tmp_path / "best").mkdir()
    for text in ("", "[]", '{"step": 3}', '{"step": "x", "value": 1}'):
        (tmp_path / "best" / "best.json").write_text(text)
        with pytest.raises(UserError, match=r"best\.json: does not say step and value of the best checkpoint"):
            Validation(make_config(tmp_path), dict, "metric")
