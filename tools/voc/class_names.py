"""The class names in annotations. Ids are their positions in the class list, from 1; 0 is background."""

from collections import Counter
from collections.abc import Mapping, Sequence

from engine.errors import UserError
from engine.record_sets import is_background
from tools.records.class_names import case_hint
from tools.records.notes import counted


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


def unknown(objects_per_file: Mapping[str, Sequence[str]], class_names: Sequence[str]) -> str:
    """The names that are none of `class_names`, with counts, a file and a hint each, as one line; empty if there are none."""
    counts: Counter[str] = Counter()
    first_file: dict[str, str] = {}
    for file, names in objects_per_file.items():
        for name in set(names) - set(class_names):
            counts[name] += names.count(name)
            first_file.setdefault(name, file)
    return ", ".join(
        f"'{name}' ({counted(count, 'object')}, in {first_file[name]}{_hint(name, class_names)})"
        for name, count in sorted(counts.items())
    )


def _hint(name: str, class_names: Sequence[str]) -> str:
    return "; id 0 is background already" if is_background(name) else case_hint(name, class_names)
