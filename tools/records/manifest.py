"""`NAME.json`, which tells every later command the class names, splits and sizes of a data set."""

import dataclasses
import json
from pathlib import Path

from engine.errors import UserError


@dataclasses.dataclass(frozen=True)
class Head:
    """What a manifest says of all splits: the data set's `name`, and `class_names` for labels from `first_label`."""

    name: str
    class_names: list[str]
    first_label: int = 1


def read(directory: Path, name: str) -> dict | None:
    """The manifest of `name` in `directory`, None if there is none; UserError if the file is something else."""
    path = directory / f"{name}.json"
    try:
        manifest = json.loads(path.read_text("utf-8"))
        if isinstance(manifest["class_names"], list) and isinstance(manifest["splits"], dict):
            return manifest
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UserError(f"{path} is no data set's manifest; move it away or choose another --output_name")


def merge(old: dict | None, head: Head, splits: dict[str, dict | None]) -> dict:
    """The manifest with `splits` replaced, those of None removed, and the other ones kept.

    UserError if a split that is kept was made with other class names: its records' ids would mean other classes;
    and if the old set is one of another kind, whose labels start elsewhere.
    """
    if old and _first_label(old) != head.first_label:
        kinds = ("classification", "detection")
        raise UserError(
            f"{head.name}.json is a data set for {kinds[bool(_first_label(old))]}, this run makes one for "
            f"{kinds[bool(head.first_label)]}: choose another --output_name"
        )
    kept = {split: entry for split, entry in (old["splits"] if old else {}).items() if split not in splits}
    if kept and old["class_names"] != head.class_names:
        raise UserError(
            f"{head.name}.json lists the classes {', '.join(old['class_names'])} for its split {', '.join(kept)}, this run has "
            f"{', '.join(head.class_names)}: give the same --labels, convert all splits in one run, or choose another "
            "--output_name"
        )
    # Without the key labels start at 1.
    numbering = {} if head.first_label == 1 else {"first_label": head.first_label}
    new = {split: entry for split, entry in splits.items() if entry is not None}
    return {"name": head.name, "class_names": head.class_names, **numbering, "splits": {**kept, **new}}


def dumps(manifest: dict) -> str:
    """The text of the file."""
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def labels_text(head: Head) -> str:
    """The text of `labels.txt`: `id:name` lines."""
    return "".join(f"{label}:{name}\n" for label, name in enumerate(head.class_names, start=head.first_label))


def may_write_labels(directory: Path, head: Head) -> bool:
    """Whether `labels.txt` is free for this data set: no other one in the folder has other labels."""
    others = (path.stem for path in directory.glob("*.json") if path.stem != head.name)
    for other in others:
        try:
            manifest = read(directory, other)
        except UserError:
            continue
        if manifest and (manifest["class_names"], _first_label(manifest)) != (head.class_names, head.first_label):
            return False
    return True


def _first_label(manifest: dict) -> int:
    return manifest.get("first_label", 1)
