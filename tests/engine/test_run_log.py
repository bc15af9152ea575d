import json

import pytest

from engine.errors import UserError
from engine.run_log import RunLog


def test_lines_of_steps_that_are_done_again_are_dropped(tmp_path):
    log = RunLog(tmp_path, {"batch_size": 4}, step=0)
    for step in (10, 20, 30):
        log.scalars(step, {"loss": step / 2})
    with (tmp_path / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step": 4')  # cut short by a kill
    log = RunLog(tmp_path, {"batch_size": 8}, step=20)
    log.scalars(30, {"loss": 7.0})
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"step": 10, "loss": 5.0}, {"step": 20, "loss": 10.0}, {"step": 30, "loss": 7.0}]
    assert json.loads((tmp_path / "config.json").read_text()) == {"batch_size": 8}


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to .*file"):
        RunLog(tmp_path / "file", {}, step=0)
