"""The folders of a Pascal-VOC data set: which annotations and pictures there are, and which belong to a split.

An annotation and its picture share a stem (`a.xml`, `a.jpg`), which is also the id that split files list.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from engine.errors import UserError
from engine.images import SUFFIXES

_USUAL_SPLITS = ("train", "val", "trainval", "test")
_PRESENCE_FLAG = re.compile(r"\s+(?:-1|0|1)$")
_FOLDERS = ("Annotations", "JPEGImages")
_SPLITS_FOLDER = "ImageSets/Main"


@dataclasses.dataclass(frozen=True)
class DataSet:
    """`annotations`: id -> file in `Annotations`; `images`: stem -> files in `JPEGImages`, the likeliest first.

    `split_files`: split -> path, the per-class lists (`cat_train.txt`) left out; empty where the set has no `ImageSets/Main`.
    """

    root: Path
    annotations: dict[str, str]
    images: dict[str, list[str]]
    split_files: dict[str, Path]

    def annotation_path(self, name: str) -> Path:
        """Path of a file in `Annotations`."""
        return self.root / _FOLDERS[0] / name

    def image_path(self, name: str) -> Path:
        """Path of a file in `JPEGImages`."""
        return self.root / _FOLDERS[1] / name


def open_data_set(root: Path, flag: str) -> DataSet:
    """The data set in `root`; UserError, naming `flag`, what was looked for and what is there, if there is none."""
    for folder in _FOLDERS:
        if not (root / folder).is_dir():
            raise UserError(f"{flag}={root}: {_what_is_wrong(root, folder)}")
    annotations = {_key(path.stem): path.name for path in _files(root / _FOLDERS[0], (".xml",))}
    images: dict[str, list[str]] = {}
    for path in sorted(_files(root / _FOLDERS[1], SUFFIXES), key=_image_rank):
        images.setdefault(_key(path.stem), []).append(path.name)
    return DataSet(root, annotations, images, _split_files(root / _SPLITS_FOLDER))


def choose_splits(data_set: DataSet, split: str | None, flag: str) -> list[str]:
    """The splits to convert: the one asked for, or all of them, or `train` alone where the set has no split files."""
    if not data_set.split_files:
        return [split or "train"]
    if split is None:
        return sorted(data_set.split_files, key=lambda name: (name not in _USUAL_SPLITS, name))
    if split not in data_set.split_files and not _list_path(data_set, split).is_file():
        known = ", ".join(sorted(data_set.split_files))
        raise UserError(f"{flag}={split}: no file {_list_path(data_set, split)}; the splits there are: {known}")
    return [split]


def read_split(data_set: DataSet, split: str) -> tuple[list[str], list[str]]:
    """(ids, missing) of a split, each once, in the order listed; `missing` are lines that name nothing in the data set.

    A line may carry the flag of per-class lists (`a -1`), which says whether the class is in the picture and is ignored here;
    a file extension; a path. Without split files every annotation belongs to the split.
    """
    if not data_set.split_files:
        return sorted(data_set.annotations), []
    path = _list_path(data_set, split)
    try:
        text = path.read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    ids: dict[str, None] = {}
    missing: dict[str, None] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        found = next((key for key in _possible_ids(line) if key in data_set.annotations or key in data_set.images), None)
        if found is None:
            missing[_PRESENCE_FLAG.sub("", line)] = None
        else:
            ids[found] = None
    return list(ids), list(missing)


def find_image(data_set: DataSet, stem: str, filename: str) -> str | None:
    """The picture of the annotation `stem`: the one of the same stem; `filename` (its XML's) decides among several.

    Where there is none, the file called `filename`, or that has its stem, unless it is another annotation's own.
    Folders in `filename` are ignored, so it cannot lead out of the data set.
    """
    basename = unicodedata.normalize("NFC", re.split(r"[/\\]", filename)[-1])
    own = data_set.images.get(stem)
    if own:
        return next((name for name in own if unicodedata.normalize("NFC", name) == basename), own[0])
    for key in (_without_extension(basename), basename):
        if key in data_set.images and key not in data_set.annotations:
            named = data_set.images[key]
            return next((name for name in named if unicodedata.normalize("NFC", name) == basename), named[0])
    return None


def _what_is_wrong(root: Path, folder: str) -> str:
    if not root.exists():
        return "no such folder"
    if not root.is_dir():
        return "not a folder"
    entries = sorted(path.name + "/" * path.is_dir() for path in root.iterdir())
    held = ", ".join(entries[:10]) + (f" and {len(entries) - 10} more" if len(entries) > 10 else "")
    text = f"no folder {folder} in it; it holds: {held or 'nothing'}"
    deeper = next((path.parent for pattern in ("*", "*/*") for path in sorted(root.glob(f"{pattern}/Annotations"))), None)
    if deeper:
        return f"{text}. The data set seems to be one level down: {deeper}"
    if all((root.absolute().parent / name).is_dir() for name in _FOLDERS):
        return f"{text}. The data set seems to be one level up: {root.absolute().parent}"
    return text


def _files(folder: Path, extensions: Iterable[str]) -> list[Path]:
    # Hidden files are the system's own: `._a.xml` beside `a.xml` holds what another file system could not.
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in extensions and not path.name.startswith("."))


def _image_rank(path: Path) -> tuple[int, str]:
    return SUFFIXES.index(path.suffix.lower()), path.name


def _key(stem: str) -> str:
    # macOS writes an accent as a letter of its own; the same name must match whoever wrote it.
    return unicodedata.normalize("NFC", stem)


def _split_files(folder: Path) -> dict[str, Path]:
    paths = {path.stem: path for path in _files(folder, (".txt",))} if folder.is_dir() else {}
    return {name: path for name, path in paths.items() if not _is_class_list(name, path, set(paths))}


def _is_class_list(name: str, path: Path, names: set[str]) -> bool:
    """Whether the file is a list like `cat_train.txt`: CLASS_SPLIT, and a presence flag in every line."""
    if not any(name.endswith("_" + split) for split in {*names, *_USUAL_SPLITS} if split != name):
        return False
    lines = list(filter(None, map(str.strip, path.read_bytes().decode("utf-8", "replace").splitlines())))
    return all(_PRESENCE_FLAG.search(line) for line in lines)


def _list_path(data_set: DataSet, split: str) -> Path:
    return data_set.split_files.get(split, data_set.root / _SPLITS_FOLDER / f"{split}.txt")


def _possible_ids(line: str) -> list[str]:
    """What a line may mean, the most literal first: `cat 1` is an id with a space if there is such a file."""
    unflagged = _PRESENCE_FLAG.sub("", line)
    names = [line, _without_extension(line), unflagged, _without_extension(unflagged)]
    return [_key(name) for name in (*names, _without_extension(PurePosixPath(unflagged.replace("\\", "/")).name))]


def _without_extension(name: str) -> str:
    path = PurePosixPath(name)
    return name[: -len(path.suffix)] if path.suffix.lower() in (*SUFFIXES, ".xml", ".txt") else name
