"""Data sets as a converter leaves them: which files hold a split, and what its labels are called."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine import record_reader
from engine.errors import UserError
from engine.record_reader import RecordFiles

_BACKGROUND = ("background", "__background__", "none", "none_of_the_above")


class RecordSet(NamedTuple):
    """One split of a data set.

    Attributes:
        name: the data set's, as in its files' names.
        split: the split's.
        records: its examples.
        label_names: names of the labels 1, 2, ... or, of a set for classification, 0, 1, ...; empty when unknown.
        first_label: of those names.
    """

    name: str
    split: str
    records: RecordFiles
    label_names: tuple[str, ...]
    first_label: int


def open_records(dataset_dir: str, dataset_name: str, split: str, aliases: Mapping[str, str] | None = None) -> RecordSet:
    """Finds the files of a split and the names of its labels; the folder's only data set when no name is given.

    Names come from NAME.json, else from labels.txt. `aliases` are the names of files that are called differently.

    Raises:
        UserError: there are no such files, or no records in them; what was looked for and what is there is named.
    """
    folder = pathlib.Path(dataset_dir)
    if not folder.is_dir():
        raise UserError(f"--dataset_dir={dataset_dir}: no such folder")
    name = dataset_name or _only_name(folder)
    if not record_reader.has_shards(folder, name, split):
        name = (aliases or {}).get(name, name)
    records = RecordFiles(record_reader.find_shards(folder, name, split))
    if not len(records):
        raise UserError(f"--dataset_split_name={split}: the files {name}_{split}_*.tfrecord in {folder} hold no record")
    return RecordSet(name, split, records, *_label_names(folder, name))


def is_background(name: str) -> bool:
    """Whether the name of a class means "no object"."""
    return name.lower() in _BACKGROUND


def name_labels(known: Sequence[str], labels: range) -> tuple[str, ...]:
    """A name for each of the labels: the `known` ones, then "class 3" and so on."""
    return (*known, *(f"class {label}" for label in labels[len(known) :]))


def refuse_other_names(data_set: str, names: Sequence[str], checkpoint: str, trained_on: Sequence[str]) -> None:
    """UserError where a data set that tells its names has others than a checkpoint: its labels would mean other things."""
    if names and tuple(names) != tuple(trained_on[: len(names)]):
        raise UserError(
            f"{checkpoint} was trained on the classes {', '.join(trained_on)}, but {data_set} has {', '.join(names)}:"
            " convert it with --labels in the order of the checkpoint"
        )


def _only_name(folder: pathlib.Path) -> str:
    names = sorted(path.stem for path in folder.glob("*.json") if _manifest(path))
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        raise UserError(f"--dataset_name must be given: {folder} holds {len(names)} data sets ({listed})")
    return names[0]


def _manifest(path: pathlib.Path) -> dict | None:
    """What the converter wrote beside the records; None for another JSON file."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and "class_names" in manifest else None


def _label_names(folder: pathlib.Path, name: str) -> tuple[tuple[str, ...], int]:
    """The names, and the label of the first one."""
    if manifest := _manifest(folder / f"{name}.json"):
        return tuple(manifest["class_names"]), manifest.get("first_label", 1)
    labels = folder / "labels.txt"
    return _names_in(labels) if labels.is_file() else ((), 1)


def _names_in(labels: pathlib.Path) -> tuple[tuple[str, ...], int]:
    """Reads `id:name` lines; an id 0 called background, where a file has it, is no class."""
    try:
        lines = labels.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{labels}: cannot be read as UTF-8 text ({error})") from None
    names = {}
    for line in lines:
        if not line.strip():
            continue
        label, _, name = line.partition(":")
        if not label.strip().isdigit() or not name.strip():
            raise UserError(f"{labels}: {line!r} is not of the form id:name")
        names[int(label)] = name.strip()
    if is_background(names.get(0, "")):
        del names[0]
    first = min(names, default=1)
    if first > 1 or sorted(names) != list(range(first, first + len(names))):
        raise UserError(f"{labels}: the ids are {sorted(names)}, not 0, 1, 2, ... or 1, 2, ... without gaps")
    if len(set(names.values())) < len(names):
        raise UserError(f"{labels}: a name stands for two classes")
    return tuple(names[label] for label in sorted(names)), first
