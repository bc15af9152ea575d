"""The class names of a data set. Ids are their positions, from 1; 0 is background."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from engine.errors import UserError

_BACKGROUND = {"background", "__background__", "none", "none_of_the_above"}
_NUMBERED_LINE = re.compile(r"(\d+):(.+)")


def read(path: Path, flag: str) -> list[str]:
    """The names in a file: one a line, spaces inside kept, or `id:name` lines as in our own `labels.txt`.

    `flag` is how the user gave the file, for messages. UserError for a file that cannot be read, an empty one,
    doubled names, ids that are not 1, 2, 3 ..., and a name that means background.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{flag}: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{flag}: {path} is not UTF-8 text") from error
    names = _without_ids([line.strip() for line in text.splitlines() if line.strip()], f"{flag}: {path}")
    if not names:
        raise UserError(f"{flag}: {path} holds no class name")
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise UserError(f"{flag}: {path} holds '{doubled[0]}' more than once")
    for name in names:
        if is_background(name):
            raise UserError(f"{flag}: {path} holds '{name}'; take that line out: id 0 is background without being listed")
    return names


def _without_ids(lines: list[str], where: str) -> list[str]:
    """`1:cat` lines as `cat`, where every line has that form; any other file as it is."""
    matches = [_NUMBERED_LINE.fullmatch(line) for line in lines]
    if not lines or not all(matches):
        return lines
    if matches[0][1] == "0" and is_background(matches[0][2].strip()):
        matches = matches[1:]
    if [int(match[1]) for match in matches] != list(range(1, len(matches) + 1)):
        raise UserError(f"{where}: its ids are not 1, 2, 3 ... in order; give the names alone, one a line")
    return [match[2].strip() for match in matches]


def discover(objects_per_file: Mapping[str, Sequence[str]]) -> list[str]:
    """The sorted names of all objects (file name -> its objects' names); UserError if one means background."""
    for file, names in objects_per_file.items():
        for name in names:
            if is_background(name):
                raise UserError(
                    f"{file} has an object of class '{name}', but id 0 is background already; name the real classes "
                    "in a file for --labels and add --skip_unknown to leave such objects out"
                )
    return sorted({name for names in objects_per_file.values() for name in names})


def is_background(name: str) -> bool:
    """Whether a name means "no object"."""
    return name.lower() in _BACKGROUND


def unknown(objects_per_file: Mapping[str, Sequence[str]], class_names: Sequence[str]) -> str:
    """The names that are none of `class_names`, with counts, a file and a hint each, as one line; empty if there are none."""
    counts: Counter[str] = Counter()
    first_file: dict[str, str] = {}
    for file, names in objects_per_file.items():
        for name in set(names) - set(class_names):
            counts[name] += names.count(name)
            first_file.setdefault(name, file)
    return ", ".join(
        f"'{name}' ({count} object{'s' * (count != 1)}, in {first_file[name]}{_hint(name, class_names)})"
        for name, count in sorted(counts.items())
    )


def _hint(name: str, class_names: Iterable[str]) -> str:
    if is_background(name):
        return "; id 0 is background already"
    twin = next((known for known in class_names if known.lower() == name.lower()), None)
    return f"; differs only by case from '{twin}'" if twin else ""
