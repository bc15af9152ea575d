"""Which folder is a class, which a split: `CLASS/picture.jpg`, or `SPLIT/CLASS/picture.jpg`."""

import dataclasses
import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn

from engine.errors import UserError
from tools.class_folders.walk import Tree, walk
from tools.records.notes import Note, counted, group_notes

SPLITS = ("train", "val", "validation", "test")
_OTHER_WORDS = {"training": "train", "valid": "validation", "testing": "test"}
_MOST_NAMED = 10


class Picture(NamedTuple):
    """`name` is its path below the data set's folder, with slashes. `split` is empty until it is known."""

    name: str
    class_name: str
    split: str = ""


@dataclasses.dataclass(frozen=True)
class DataSet:
    """`has_splits`: its pictures are in folders of splits. `passed_over` counts what is no picture or hidden."""

    root: Path
    has_splits: bool
    pictures: list[Picture]
    passed_over: int
    notes: list[Note]


def open_data_set(root: Path, flag: str) -> DataSet:
    """The data set in `root`; UserError, naming `flag`, both layouts and what is there, if it has neither of them.

    The name of a split's folder counts in any case. A class is called like its folder, without blanks around the name;
    folders below that of a class are part of it.
    """
    try:
        os.scandir(root).close()
    except OSError as error:
        raise UserError(f"{flag}={root}: {error.strerror}") from error
    tree = walk(root)
    has_splits = _has_splits(tree, f"{flag}={root}")
    pictures, strays = [], defaultdict(list)
    for path in tree.pictures:
        *folders, _ = path.split("/")
        if len(folders) <= has_splits:
            strays["/".join(folders)].append(path)
        else:
            split = folders[0].lower() if has_splits else ""
            pictures.append(Picture(path, _class_name(folders[has_splits], flag), split))
    notes = [*tree.notes, *_stray_notes(strays.values()), *_empty_notes(tree, depth=1 + has_splits)]
    return DataSet(root, has_splits, pictures, tree.passed_over, notes)


def _has_splits(tree: Tree, where: str) -> bool:
    """Whether the first folders are splits; UserError if they are neither splits nor classes."""
    nested = [path.split("/") for path in tree.pictures if "/" in path]
    tops = sorted({parts[0] for parts in nested})
    holding = {parts[0] for parts in nested if len(parts) == 2}
    splits = [top for top in tops if top.lower() in SPLITS]
    if not tops:
        _refuse(where, f"no folder with pictures in it; it holds {_listed(tree)}")
    _refuse_other_words(tops, holding, where)
    if not splits:
        _refuse_one_level_up(nested, tops, holding, where)
        return False
    if splits == tops:
        if all(len(parts) == 2 for parts in nested):
            _refuse(where, f"{', '.join(splits)} with pictures in it, but no class folder")
        return True
    # `train` is also something to take pictures of.
    if len(splits) == 1 and splits[0] in holding:
        return False
    classes = [top for top in tops if top not in splits]
    _refuse(where, f"a mixture of splits ({_some(splits)}) and classes ({_some(classes)})")


def _refuse_other_words(tops: list[str], holding: set[str], where: str) -> None:
    words = [top for top in tops if top.lower() in _OTHER_WORDS and top not in holding]
    if words and all(top in words or top.lower() in SPLITS for top in tops):
        renamed = ", ".join(f"{word} to {_OTHER_WORDS[word.lower()]}" for word in words)
        _refuse(where, f"folders that seem to be splits, of another name: rename {renamed}")


def _refuse_one_level_up(nested: list[list[str]], tops: list[str], holding: set[str], where: str) -> None:
    if len(tops) == 1 and not holding and len({parts[1] for parts in nested}) > 1:
        _refuse(where, f"one folder that holds all others: the data set seems to be one level down, in {tops[0]}")


def _refuse(where: str, found: str) -> NoReturn:
    layouts = f"CLASS/picture.jpg, or SPLIT/CLASS/picture.jpg where SPLIT is one of {', '.join(SPLITS)}"
    raise UserError(f"{where}: {found}. Pictures are expected as {layouts}")


def _listed(tree: Tree) -> str:
    names = [f"{folder}/" for folder in tree.folders if "/" not in folder] + [path for path in tree.pictures if "/" not in path]
    parts = [_some(names)] if names else []
    if tree.passed_over:
        parts.append(f"{counted(tree.passed_over, 'file')} that {'is' if tree.passed_over == 1 else 'are'} no picture")
    return " and ".join(parts) or "nothing"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def normalized(name: str) -> str:
    """A class's name as it is compared and stored."""
    # macOS writes an accent as a letter of its own; the same class must match in every split and list.
    return unicodedata.normalize("NFC", name).strip()


def _class_name(folder: str, flag: str) -> str:
    name = normalized(folder)
    is_text = not any("\ud800" <= letter <= "\udfff" for letter in name)
    if not is_text or len(name.splitlines()) != 1:
        raise UserError(f"{flag}: the folder {folder!r} cannot be a class: its name must be one line of UTF-8 text; rename it")
    return name


def _stray_notes(strays: Iterable[list[str]]) -> list[Note]:
    """A note for each picture of each folder that is not one of a class."""
    notes = []
    for paths in strays:
        others = f", nor {'is' if len(paths) == 2 else 'are'} {counted(len(paths) - 1, 'other')} beside it" if paths[1:] else ""
        notes += group_notes("skipped", "picture in no class folder", paths[0], paths, f"in no class folder{others}")
    return notes


def _empty_notes(tree: Tree, depth: int) -> list[Note]:
    """A note for each folder down to `depth` that holds no picture, and of which nothing else was said."""
    noted = {note.file for note in tree.notes}
    holding = {
        "/".join(path.split("/")[:level]) for path in tree.pictures for level in range(1, depth + 1) if path.count("/") >= level
    }
    empty = [folder for folder in tree.folders if folder.count("/") < depth and folder not in holding | noted]
    return [Note("warned", "folder without a picture", folder, "no picture in this folder") for folder in empty]
