import contextlib
import json
import os
import subprocess
import sys

import pytest

from engine import staging
from engine.errors import UserError
from engine.staging import Staging, finish, is_interrupted, locked
from engine.tfrecords import UNFINISHED


def contents(folder):
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def publish(folder, files, obsolete=(), name="set"):
    with Staging(folder, name) as aside:
        for file, text in files.items():
            aside.write_text(file, text)
        with locked(folder):
            aside.publish(obsolete)


def test_files_appear_together_and_replace_the_old_ones(tmp_path):
    publish(tmp_path / "new/folder", {"a.tfrecord": "1", "b.json": "2"})
    assert contents(tmp_path / "new/folder") == {"a.tfrecord": "1", "b.json": "2"}
    publish(tmp_path / "new/folder", {"b.json": "3"}, obsolete=["a.tfrecord", "gone.tfrecord"])
    assert contents(tmp_path / "new/folder") == {"b.json": "3"}


def test_nothing_is_left_of_a_run_that_fails(tmp_path):
    publish(tmp_path, {"a": "old"})
    with contextlib.suppress(RuntimeError), Staging(tmp_path, "set") as aside:
        aside.write_text("a", "new")
        assert contents(aside.folder) == {"a.part": "new"}
        raise RuntimeError
    assert contents(tmp_path) == {"a": "old"}


def test_every_crash_while_moving_is_finished_by_the_next_run(tmp_path, monkeypatch):
    """Stops before each file operation of a publication in turn; the next run must end with the new files alone."""
    new = {"s_000.tfrecord": "n0", "s_001.tfrecord": "n1", "s.json": "new"}
    old = {"s_000.tfrecord": "o0", "s_001.tfrecord": "o1", "s_002.tfrecord": "o2", "s.json": "old"}
    for steps in range(20):
        folder = tmp_path / str(steps)
        publish(folder, old)
        if not _crash_after(steps, folder, new, ["s_001.tfrecord", "s_002.tfrecord"], monkeypatch):
            assert contents(folder) == new
            assert steps > 6
            return
        seen = {path.name: path.read_text() for path in folder.glob("s_*.tfrecord")}
        assert not {"o", "n"} <= {text[0] for text in seen.values()}, "old and new shards stand together"
        decided = is_interrupted(folder, "s")
        with Staging(folder, "s"):
            pass
        assert contents(folder) == (new if decided else old)
    pytest.fail("never came to an end")


def _crash_after(steps, folder, new, obsolete, monkeypatch):
    """Publishes, but every file operation after the first `steps` fails as in a killed process; whether one did."""
    left = [steps]

    def limited(operation):
        def run(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                raise _CrashError
            return operation(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        for name in ("unlink", "rename", "replace"):
            patch.setattr(os, name, limited(getattr(os, name)))
        for name in ("unlink", "rename", "replace"):
            patch.setattr(staging.Path, name, limited(getattr(staging.Path, name)))
        try:
            publish(folder, new, obsolete, name="s")
        except _CrashError:
            return True
    return False


class _CrashError(BaseException):
    pass


def test_folders_of_killed_runs_are_removed_but_not_those_of_running_ones(tmp_path):
    (tmp_path / ".set.partial.dead").mkdir()
    (tmp_path / ".set.partial.dead/a.part").write_text("1")
    with Staging(tmp_path, "set") as running, Staging(tmp_path, "set") as second:
        assert sorted(tmp_path.iterdir()) == sorted([running.folder, second.folder])
        second.write_text("a", "1")
        second.publish([])
    assert contents(tmp_path) == {"a": "1"}


def test_finish_does_nothing_without_an_interrupted_run(tmp_path):
    publish(tmp_path, {"a": "1"})
    finish(tmp_path, "set")
    assert contents(tmp_path) == {"a": "1"}
    assert not is_interrupted(tmp_path, "set")


def test_finish_after_some_moves_does_not_delete_what_was_moved(tmp_path):
    ready = tmp_path / ".set.ready"
    ready.mkdir()
    (tmp_path / "s_000.tfrecord").write_text("new")
    (ready / ("s_001.tfrecord" + UNFINISHED)).write_text("new")
    finish(tmp_path, "set")
    assert contents(tmp_path) == {"s_000.tfrecord": "new", "s_001.tfrecord": "new"}


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write to .*file/sub: Not a directory"):
        Staging(tmp_path / "file/sub", "set")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_read_only_folder_is_a_clear_error(tmp_path):
    os.chmod(tmp_path, 0o755)
    program = f"""
import os, sys
from pathlib import Path
from engine.staging import Staging
from engine.errors import UserError
os.setuid(65534)
try:
    Staging(Path({json.dumps(str(tmp_path))}), "set")
except UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"cannot write to {tmp_path}: Permission denied\n"
    assert list(tmp_path.iterdir()) == []
