"""`NAME.json`, which tells every later command the class names, splits and sizes of a data set."""

import json
from pathlib import Path

from engine.errors import UserError


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


def merge(old: dict | None, name: str, class_names: list[str], splits: dict[str, dict]) -> dict:
    """The manifest with `splits` replaced and the other ones kept.

    UserError if a split that is kept was made with other class names: its records' ids would mean other classes.
    """
    kept = {split: entry for split, entry in (old["splits"] if old else {}).items() if split not in splits}
    if kept and old["class_names"] != class_names:
        raise UserError(
            f"{name}.json lists the classes {', '.join(old['class_names'])} for its split {', '.join(kept)}, this run has "
            f"{', '.join(class_names)}: give the same --labels, convert all splits in one run, or choose another --output_name"
        )
    return {"name": name, "class_names": class_names, "splits": {**kept, **splits}}


def dumps(manifest: dict) -> str:
    """The text of the file."""
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def labels_text(class_names: list[str]) -> str:
    """The text of `labels.txt`: `id:name` lines."""
    return "".join(f"{label}:{name}\n" for label, name in enumerate(class_names, start=1))


def may_write_labels(directory: Path, name: str, class_names: list[str]) -> bool:
    """Whether `labels.txt` is free for this data set: no other one in the folder has other class names."""
    others = (path.stem for path in directory.glob("*.json") if path.stem != name)
    for other in others:
        try:
            manifest = read(directory, other)
        except UserError:
            continue
        if manifest and manifest["class_names"] != class_names:
            return False
    return True
