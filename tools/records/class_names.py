"""A list of class names that the user gives. Labels are positions in it, from 1 where 0 is background, else from 0."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from engine.errors import UserError
from engine.record_sets import is_background

_NUMBERED_LINE = re.compile(r"(\d+):(.+)")


def read(path: Path, flag: str, first_label: int = 1) -> list[str]:
    """The names in a file: one a line, spaces inside kept, or `id:name` lines as in our own `labels.txt`.

    `flag` is how the user gave the file, for messages. UserError for a file that cannot be read, an empty one,
    doubled names, ids that do not count up from `first_label`, and, where that is 1, a name that means background.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{flag}: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{flag}: {path} is not UTF-8 text") from error
    names = _without_ids([line.strip() for line in text.splitlines() if line.strip()], f"{flag}: {path}", first_label)
    if not names:
        raise UserError(f"{flag}: {path} holds no class name")
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise UserError(f"{flag}: {path} holds '{doubled[0]}' more than once")
    for name in names if first_label else []:
        if is_background(name):
            raise UserError(f"{flag}: {path} holds '{name}'; take that line out: id 0 is background without being listed")
    return names


def _without_ids(lines: list[str], where: str, first_label: int) -> list[str]:
    """`1:cat` lines as `cat`, where every line has that form; any other file as it is."""
    matches = [_NUMBERED_LINE.fullmatch(line) for line in lines]
    if not lines or not all(matches):
        return lines
    if first_label and matches[0][1] == "0" and is_background(matches[0][2].strip()):
        matches = matches[1:]
    if [int(match[1]) for match in matches] != list(range(first_label, first_label + len(matches))):
        counting = ", ".join(map(str, range(first_label, first_label + 3)))
        raise UserError(f"{where}: its ids are not {counting} ... in order; give the names alone, one a line")
    return [match[2].strip() for match in matches]


def case_hint(name: str, class_names: Iterable[str]) -> str:
    """What to add to a message on an unknown name: the class that it may be meant for; empty if there is none."""
    twin = next((known for known in class_names if known.lower() == name.lower()), None)
    return f"; differs only by case from '{twin}'" if twin else ""
