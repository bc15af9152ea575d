"""A command's options: frozen dataclass <-> command-line flags <-> config.json.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Config:
        batch_size: int = flag(32, "pictures in a step", minimum=1)

    def main(config: Config) -> None: ...

    if __name__ == "__main__":
        flags.run(Config, main)

Field types: `str`, `int`, `float`, `bool`, each also with `| None` (not given), and `tuple[str, ...]`
and `tuple[int, ...]` (comma lists). absl does the parsing, so `--flagfile`, `--help`, `--name=value` and
`--name value` work, and a misspelt name is refused with the nearest known one.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import sys
import typing
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags as absl_flags

from engine.errors import UserError


def flag(
    default: Any,
    help_text: str,
    *,
    choices: Sequence[str] | None = None,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    required: bool = False,
) -> Any:
    """A dataclass field that is also a command-line flag.

    `above` is an exclusive minimum. A `required` flag must not be empty, and without a default it must be given.
    """
    metadata = {"help": help_text, "choices": choices, "minimum": minimum, "above": above, "maximum": maximum}
    return dataclasses.field(default=default, metadata=metadata | {"required": required})


def run(config_class: type, main: Callable, *, positional: str | None = None) -> None:
    """Parses the command line, calls `main(config)` and turns a `UserError` into one line and exit code 1.

    With `positional` (a word for the usage line, such as "PICTURE") the command takes arguments that are
    no flags, and `main(config, arguments)` is called.
    """
    try:
        config, arguments = parse(config_class, sys.argv, positional=positional)
        result = main(config, arguments) if positional else main(config)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    sys.exit(result)


def parse(config_class: type, argv: Sequence[str], *, positional: str | None = None) -> tuple[Any, list[str]]:
    """`argv` (program name first) as a `config_class` and the arguments that are no flags.

    Raises:
        UserError: an unknown flag, a value of the wrong type or out of range, a missing required flag.
    """
    values = _define(config_class)
    try:
        arguments = values(list(argv))[1:]
    except absl_flags.Error as error:
        raise UserError(_one_line(error)) from None
    if values["help"].value:
        print(_help(config_class, values, positional))
        sys.exit(0)
    if arguments and positional is None:
        raise UserError(f"unexpected argument {arguments[0]!r}: flags are written --name=value, without blanks around '='")
    given = {f.name: _from_absl(f.name, hint, values[f.name].value) for f, hint in _fields(config_class)}
    return _checked(config_class, given), arguments


def one_of(config: Any, name: str, alias: str) -> Any:
    """The value of a flag that has two names; `UserError` when both are given and differ."""
    value, other = getattr(config, name), getattr(config, alias)
    if None not in (value, other) and value != other:
        raise UserError(f"--{name}={value} and --{alias}={other} name the same thing")
    return other if value is None else value


def to_json(config: Any) -> dict[str, Any]:
    """The options as plain JSON values."""
    return {f.name: _plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def from_json(config_class: type, stored: dict[str, Any], *, source: str) -> Any:
    """The inverse of `to_json`; names that are missing take their defaults.

    Raises:
        UserError: an unknown name, a value of the wrong type or out of range; `source` is named.
    """
    known = {f.name: hint for f, hint in _fields(config_class)}
    if unknown := sorted(set(stored) - set(known)):
        raise UserError(f"{source}: unknown option {', '.join(unknown)}")
    for name, value in stored.items():
        if not _fits(known[name], value):
            raise UserError(f"{source}: {name}: {value!r} is not of type {_type_name(known[name])}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()}
    return _checked(config_class, values)


def load(config_class: type, path: str | pathlib.Path) -> Any:
    """Reads a config.json. Raises `UserError` naming the file for what cannot be read or does not fit."""
    try:
        stored = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable config.json ({error})") from None
    return from_json(config_class, stored, source=str(path))


# One dataclass field at a time.


def _fields(config_class: type) -> list[tuple[dataclasses.Field, Any]]:
    hints = typing.get_type_hints(config_class)
    return [(f, hints[f.name]) for f in dataclasses.fields(config_class)]


def _base_type(hint: Any) -> Any:
    """`int | None` -> `int`; other hints as they are."""
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    return options[0] if type(None) in typing.get_args(hint) else hint


def _type_name(hint: Any) -> str:
    base = _base_type(hint)
    return "a comma-separated list" if typing.get_origin(base) is tuple else base.__name__


def _define(config_class: type) -> absl_flags.FlagValues:
    values = absl_flags.FlagValues()
    absl_flags.DEFINE_bool("help", False, "show this help", flag_values=values, short_name="h")
    absl_flags.DEFINE_string("flagfile", "", "read further flags from this file, one a line", flag_values=values)
    for field, hint in _fields(config_class):
        _define_one(values, field, _base_type(hint))
    return values


def _define_one(values: absl_flags.FlagValues, field: dataclasses.Field, base: Any) -> None:
    name, text, default = field.name, field.metadata["help"], field.default
    if base is bool:
        absl_flags.DEFINE_bool(name, default, text, flag_values=values)
    elif base is int:
        absl_flags.DEFINE_integer(name, default, text, flag_values=values)
    elif base is float:
        absl_flags.DEFINE_float(name, default, text, flag_values=values)
    elif field.metadata["choices"]:
        absl_flags.DEFINE_enum(name, default, field.metadata["choices"], text, flag_values=values)
    elif typing.get_origin(base) is tuple:
        absl_flags.DEFINE_list(name, [str(item) for item in default], text, flag_values=values)
    else:
        absl_flags.DEFINE_string(name, default, text, flag_values=values)


def _from_absl(name: str, hint: Any, value: Any) -> Any:
    base = _base_type(hint)
    if typing.get_origin(base) is not tuple:
        return value
    item_type = typing.get_args(base)[0]
    try:
        return tuple(item_type(item.strip()) for item in value if item.strip())
    except ValueError:
        raise UserError(f"--{name}={','.join(value)}: not a comma-separated list of {item_type.__name__}") from None


def _fits(hint: Any, value: Any) -> bool:
    base = _base_type(hint)
    if value is None:
        return base is not hint
    if typing.get_origin(base) is tuple:
        item_type = typing.get_args(base)[0]
        return isinstance(value, (list, tuple)) and all(isinstance(item, item_type) for item in value)
    if base is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is base


def _checked(config_class: type, values: dict[str, Any]) -> Any:
    for field, _ in _fields(config_class):
        if field.name in values:
            _check_one(field, values[field.name])
        elif field.metadata["required"]:
            raise UserError(f"--{field.name} must be given: {field.metadata['help']}")
    return config_class(**values)


def _check_one(field: dataclasses.Field, value: Any) -> None:
    rules, shown = field.metadata, f"--{field.name}={value}"
    if value is None or value == "":
        if rules["required"]:
            raise UserError(f"--{field.name} must be given: {rules['help']}")
        return
    if rules["choices"] and value not in rules["choices"]:
        raise UserError(f"{shown}: must be one of {', '.join(rules['choices'])}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{shown}: must be a finite number")
    if rules["minimum"] is not None and value < rules["minimum"]:
        raise UserError(f"{shown}: must be at least {rules['minimum']}")
    if rules["above"] is not None and value <= rules["above"]:
        raise UserError(f"{shown}: must be greater than {rules['above']}")
    if rules["maximum"] is not None and value > rules["maximum"]:
        raise UserError(f"{shown}: must be at most {rules['maximum']}")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _help(config_class: type, values: absl_flags.FlagValues, positional: str | None) -> str:
    module = sys.modules[config_class.__module__]
    usage = f"flags{'' if positional is None else f'; {positional}... are the arguments that are no flags'}:"
    lines = [(module.__doc__ or "").strip(), "", usage]
    for field, hint in _fields(config_class):
        choices = f" ({'|'.join(field.metadata['choices'])})" if field.metadata["choices"] else ""
        is_needed = field.metadata["required"] and not field.default
        default = "required" if is_needed else f"default {_shown_default(field.default)}"
        lines.append(f"  --{field.name}: {field.metadata['help']}{choices} [{_type_name(hint)}; {default}]")
    return "\n".join([*lines, f"  --flagfile: {values['flagfile'].help}", "  --help: show this help"])


def _shown_default(default: Any) -> str:
    if isinstance(default, tuple):
        return ",".join(str(item) for item in default) or "none"
    return "none" if default in (None, "") else str(default)
