import dataclasses
import json
import subprocess
import sys

import pytest

from engine import flags
from engine.errors import UserError
from engine.flags import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    name: str = flag("", "a name", required=True)
    batch_size: int = flag(32, "pictures in a step", minimum=1)
    learning_rate: float = flag(0.1, "rate", above=0, maximum=10)
    limit: int | None = flag(None, "limit")
    mode: str = flag("a", "mode", choices=("a", "b"))
    boundaries: tuple[int, ...] = flag((8, 9), "steps")
    scopes: tuple[str, ...] = flag((), "scopes")
    verbose: bool = flag(False, "say more")


def parse(*argv):
    return flags.parse(Config, ["program", *argv])[0]


def test_defaults_and_given_values():
    assert parse("--name=x") == Config(name="x")
    config = parse("--name", "x", "--batch_size=8", "--limit=3", "--boundaries=1, 2", "--scopes=a/b,c", "--verbose", "--mode=b")
    assert config == Config(name="x", batch_size=8, limit=3, boundaries=(1, 2), scopes=("a/b", "c"), verbose=True, mode="b")


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--name=x", "--batch_size=0"], "--batch_size=0"),
        (["--name=x", "--batch_size=3.5"], "--batch_size=3.5"),
        (["--name=x", "--batch_size", "=", "8"], "batch_size"),
        (["--name=x", "--batch_sise=8"], "Did you mean: batch_size"),
        (["--name=x", "--learning_rate=0"], "--learning_rate=0"),
        (["--name=x", "--learning_rate=11"], "at most 10"),
        (["--name=x", "--learning_rate=nan"], "--learning_rate=nan"),
        (["--name=x", "--mode=c"], "mode"),
        (["--name=x", "--boundaries=1,two"], "--boundaries=1,two"),
        (["--name=x", "stray"], "'stray'"),
        (["--name=x", "--flagfile=/no/such/file"], "/no/such/file"),
        ([], "--name must be given"),
        (["--name="], "--name must be given"),
    ],
)
def test_mistakes_are_named_on_one_line(argv, named):
    with pytest.raises(UserError) as caught:
        parse(*argv)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_flag_file_and_precedence(tmp_path):
    recipe = tmp_path / "r.flags"
    recipe.write_text("# a comment\n--batch_size=4\n--mode=b\n")
    assert parse(f"--flagfile={recipe}", "--name=x", "--batch_size=6") == Config(name="x", batch_size=6, mode="b")


def test_json_round_trip(tmp_path):
    config = parse("--name=x", "--limit=3", "--scopes=a,b")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(flags.to_json(config)))
    assert flags.load(Config, path) == config


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ({"name": "x", "batch_sise": 3}, "batch_sise"),
        ({"name": "x", "batch_size": "3"}, "batch_size"),
        ({"name": "x", "batch_size": True}, "batch_size"),
        ({"name": "x", "batch_size": 0}, "--batch_size=0"),
        ({"name": "x", "boundaries": [1.5]}, "boundaries"),
        ({"name": None}, "name"),
        ({}, "--name"),
    ],
)
def test_json_mistakes_are_named(stored, named):
    with pytest.raises(UserError, match=named):
        flags.from_json(Config, stored, source="config.json")


def test_unreadable_json_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config.json: not a readable"):
        flags.load(Config, tmp_path / "config.json")


PROGRAM = '''"""Says hello."""
import dataclasses
from engine import flags
from engine.errors import UserError
from engine.flags import flag
@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    times: int = flag(1, "how often", minimum=1)
def main(config, arguments):
    if not arguments:
        raise UserError("nobody to greet")
    print("hello " * config.times + arguments[0])
flags.run(Config, main, positional="NAME")
'''


def run(tmp_path, *argv):
    (tmp_path / "hello.py").write_text(PROGRAM)
    return subprocess.run([sys.executable, str(tmp_path / "hello.py"), *argv], capture_output=True, text=True, check=False)


def test_command_help_result_and_failure(tmp_path):
    assert run(tmp_path, "you", "--times=2").stdout == "hello hello you\n"
    shown = run(tmp_path, "--help")
    assert shown.returncode == 0
    assert "Says hello." in shown.stdout
    assert "--times: how often [int; default 1]" in shown.stdout
    failed = run(tmp_path)
    assert (failed.returncode, failed.stdout, failed.stderr) == (1, "", "error: nobody to greet\n")
