"""CIFAR-10 (Krizhevsky 2009), binary version: fetched, checked, unpacked and read.

A file is a row of records of 3,073 bytes: the label, then the red, green and blue planes of 32x32 pixels.
"""

import contextlib
import pathlib
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from classify.cifar10_download import ARCHIVE, FOLDER, Archive, fetch, is_whole
from engine.errors import UserError
from engine.files import writing
from engine.staging import locked

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SPLITS = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
# Version: its folder, its first file, all its files.
_OTHER_VERSIONS = {
    "Python": ("cifar-10-batches-py", "data_batch_1", "pickles data_batch_1 ... test_batch"),
    "MATLAB": ("cifar-10-batches-mat", "data_batch_1.mat", "data_batch_1.mat ... test_batch.mat"),
}
_SIDE = 32
_RECORD = 1 + 3 * _SIDE * _SIDE
_ANEW = "or not the binary version of CIFAR-10; delete the .bin files in its folder to have all fetched anew"


class Cifar10(NamedTuple):
    """images [N, 32, 32, 3] uint8 RGB and labels [N] int64, 0 to 9."""

    images: np.ndarray
    labels: np.ndarray


def prepare(data_dir: str | pathlib.Path, archive: Archive = ARCHIVE) -> pathlib.Path:
    """The folder with all six files, in `data_dir` or `data_dir` itself; downloaded and unpacked when it is not there.

    Several processes may ask at once: one works, the others wait for it.

    Raises:
        UserError: files are missing or of another version, or the archive cannot be fetched; what to do is said.
    """
    data_dir = pathlib.Path(data_dir)
    try:
        folder = _find_folder(data_dir)
    except OSError as error:
        raise UserError(f"--data_dir={data_dir}: cannot be read ({error.strerror})") from None
    if not _missing(folder):
        return folder
    home = folder.parent if folder.name == FOLDER else folder
    with writing(home):
        home.mkdir(parents=True, exist_ok=True)
        with locked(home):
            # Another process may have completed it while this one waited.
            if _missing(folder):
                _complete(data_dir, folder, archive, home / archive.name)
    return folder


def read(folder: str | pathlib.Path, split: str) -> Cifar10:
    """The pictures of `split` ("train" or "test"). Reading takes the memory of the result and of one file.

    Raises:
        UserError: a file is missing, empty, cut short, or holds a label above 9.
    """
    paths = [pathlib.Path(folder) / name for name in SPLITS[split]]
    counts = [_count_records(path) for path in paths]
    images = np.empty([sum(counts), _SIDE, _SIDE, 3], np.uint8)
    labels = np.empty([sum(counts)], np.int64)
    end = 0
    for path, count in zip(paths, counts, strict=True):
        start, end = end, end + count
        _read_into(path, images[start:end], labels[start:end])
    return Cifar10(images, labels)


@contextlib.contextmanager
def _reading(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _count_records(path: pathlib.Path) -> int:
    with _reading(path):
        size = path.stat().st_size
    if size and size % _RECORD == 0:
        return size // _RECORD
    what = f"{size} bytes, not a multiple of {_RECORD}" if size else "empty"
    raise UserError(f"{path}: {what}: cut short, {_ANEW}")


def _read_into(path: pathlib.Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Fills images [n, 32, 32, 3] uint8 and labels [n] with the file's n records."""
    with _reading(path):
        records = np.fromfile(path, np.uint8).reshape(len(labels), _RECORD)
    wrong = np.flatnonzero(records[:, 0] >= len(CLASS_NAMES))
    if wrong.size:
        raise UserError(f"{path}: record {wrong[0]} has the label {records[wrong[0], 0]}, beyond 9: damaged, {_ANEW}")
    images[:] = records[:, 1:].reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
    labels[:] = records[:, 0]


# Finding.


def _all_files() -> list[str]:
    return [name for names in SPLITS.values() for name in names]


def _missing(folder: pathlib.Path) -> list[str]:
    return [name for name in _all_files() if not (folder / name).is_file()]


def _find_folder(data_dir: pathlib.Path) -> pathlib.Path:
    """The most complete of data_dir itself, the folder of the archive's name in it, and such folders one level further down.

    Where none holds any of the files: the place where they belong.
    """
    home = data_dir if data_dir.name == FOLDER else data_dir / FOLDER
    for place in (data_dir, home):
        if place.exists() and not place.is_dir():
            raise UserError(f"--data_dir={data_dir}: {place} is a file, not a folder")
    # Hidden folders may be half: a killed run leaves one.
    found = [data_dir, data_dir / FOLDER, *sorted(data_dir.glob(f"[!.]*/{FOLDER}"))]
    best = min(found, key=lambda folder: len(_missing(folder)))
    return best if len(_missing(best)) < len(_all_files()) else home


def _complete(data_dir: pathlib.Path, folder: pathlib.Path, archive: Archive, archive_path: pathlib.Path) -> None:
    missing = _missing(folder)
    if len(missing) < len(_all_files()) and not is_whole(archive_path, archive):
        anew = "delete the folder to have everything fetched anew"
        other = anew if folder.name == FOLDER else "move those that are there away to have everything fetched"
        raise UserError(f"{folder}: {', '.join(missing)} missing; put them there, or {other}")
    if not archive_path.is_file():
        _refuse_other_versions(data_dir, folder)
    _unpack(fetch(archive, archive_path), folder)


def _refuse_other_versions(data_dir: pathlib.Path, folder: pathlib.Path) -> None:
    for version, (name, first, files) in _OTHER_VERSIONS.items():
        found = [path for path in (data_dir / name, data_dir / first, folder / first) if path.exists()]
        if found or data_dir.name == name:
            raise UserError(
                f"--data_dir={data_dir}: holds the {version} version of CIFAR-10 ({name}: {files}); the binary version is"
                f" needed ({FOLDER}: data_batch_1.bin ... test_batch.bin): put {ARCHIVE.name} from {ARCHIVE.url} there, or"
                " name a folder without the other version to have it fetched"
            )


# Unpacking.


def _unpack(archive_path: pathlib.Path, folder: pathlib.Path) -> None:
    """Unpacks beside `folder` and renames, so that the folder is there whole or not at all."""
    aside = archive_path.with_name(f".{FOLDER}.unpacked")
    # Only a killed run leaves this; the lock says that nobody is at work in it.
    shutil.rmtree(aside, ignore_errors=True)
    try:
        with tarfile.open(archive_path) as tar:
            _extract(tar, archive_path, aside)
        if missing := _missing(aside / FOLDER):
            raise UserError(f"{archive_path}: holds no {', '.join(missing)}; delete it to have it fetched anew")
        with writing(folder):
            _move(aside / FOLDER, folder)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{archive_path}: cannot be unpacked ({reason}); delete it to have it fetched anew") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _extract(tar: tarfile.TarFile, archive_path: pathlib.Path, aside: pathlib.Path) -> None:
    for member in tar:
        place = pathlib.PurePosixPath(member.name)
        inside = place.parts[:1] == (FOLDER,) and ".." not in place.parts
        if not inside or not (member.isreg() or member.isdir()):
            raise UserError(f"{archive_path}: its member {member.name!r} is no plain file inside {FOLDER}; nothing is unpacked")
        if member.isdir():
            continue
        # Read outside of `writing`: a fault of the archive is none of the place it goes to. 30 MB at most.
        content = tar.extractfile(member).read()
        target = aside / place
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def _move(unpacked: pathlib.Path, folder: pathlib.Path) -> None:
    """Renames the folder into place; into one that is there already, file by file, without touching those it has."""
    if not folder.exists():
        unpacked.rename(folder)
        return
    for file in unpacked.iterdir():
        if not (folder / file.name).exists():
            file.rename(folder / file.name)
