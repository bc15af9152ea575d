"""All pictures below a folder, by their names alone; links are followed, but never in circles."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

from engine.images import SUFFIXES
from tools.records.notes import Note, reason_of

# What archivers and photo servers leave behind: their folders hold small copies or descriptions of the real pictures.
_LEFTOVERS = {"__MACOSX", "@eaDir"}


@dataclasses.dataclass
class Tree:
    """What stands below a folder. Paths are relative to it, with slashes, in order of their names within each folder.

    `passed_over` counts hidden files and folders, leftovers, and files that are no pictures by their ending.
    """

    pictures: list[str] = dataclasses.field(default_factory=list)
    folders: list[str] = dataclasses.field(default_factory=list)
    passed_over: int = 0
    notes: list[Note] = dataclasses.field(default_factory=list)


def walk(root: Path) -> Tree:
    """Looks through `root`. Folders that cannot be read and pictures that are no files are among the notes."""
    tree = Tree()
    pending: list[tuple[str, frozenset[tuple[int, int]]]] = [("", frozenset())]
    while pending:
        folder, above = pending.pop()
        try:
            own = _identity(root / folder)
            with os.scandir(root / folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            tree.notes.append(Note("skipped", "unreadable folder", folder, reason_of(error)))
            continue
        if own in above:
            tree.notes.append(Note("warned", "link to a folder above it", folder, "leads to a folder above it; not followed"))
            continue
        prefix = f"{folder}/" if folder else ""
        inner = [prefix + entry.name for entry in entries if _is_inner_folder(tree, prefix, entry)]
        tree.folders += inner
        pending += [(path, above | {own}) for path in reversed(inner)]
    return tree


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _is_inner_folder(tree: Tree, prefix: str, entry: os.DirEntry) -> bool:
    """Whether the entry is a folder to look through; what is none is taken into `tree`."""
    if entry.name.startswith(".") or entry.name in _LEFTOVERS:
        tree.passed_over += 1
    elif _holds(entry.is_dir):
        return True
    elif not entry.name.lower().endswith(SUFFIXES):
        tree.passed_over += 1
    elif _holds(entry.is_file):
        tree.pictures.append(prefix + entry.name)
    else:
        # Reading a pipe would wait for ever.
        detail = "a link to nowhere" if entry.is_symlink() else "not a regular file"
        tree.notes.append(Note("skipped", "unusable picture", prefix + entry.name, detail))
    return False


def _holds(test: Callable[[], bool]) -> bool:
    try:
        return test()
    except OSError:  # a link to itself
        return False
