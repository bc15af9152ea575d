"""CIFAR-10 (Krizhevsky 2009), binary version: fetched, checked, unpacked and read.

A file is a row of records of 3,073 bytes: the label, then the red, green and blue planes of 32x32 pixels.
"""

import hashlib
import pathlib
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.errors import UserError
from engine.files import writing
from engine.progress import progress, say

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SPLITS = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
FOLDER = "cifar-10-batches-bin"
_OTHER_VERSIONS = {"cifar-10-batches-py": "Python", "cifar-10-batches-mat": "MATLAB"}
_SIDE = 32
_RECORD = 1 + 3 * _SIDE * _SIDE
_CHUNK = 1 << 20
_TIMEOUT_SECS = 30.0


@dataclass(frozen=True)
class Archive:
    """Where the archive is, and what makes it whole."""

    url: str
    size: int
    md5: str

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


ARCHIVE = Archive("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", 170052171, "c32a1d4ab5d03f1284b67883e8d87530")


class Cifar10(NamedTuple):
    """images [N, 32, 32, 3] uint8 RGB and labels [N] int64, 0 to 9."""

    images: np.ndarray
    labels: np.ndarray


def prepare(data_dir: str | pathlib.Path, archive: Archive = ARCHIVE) -> pathlib.Path:
    """The folder with all six files, in `data_dir` or `data_dir` itself; downloaded and unpacked when it is not there.

    Raises:
        UserError: files are missing or of another version, or the archive cannot be fetched; what to do is said.
    """
    data_dir = pathlib.Path(data_dir)
    if data_dir.exists() and not data_dir.is_dir():
        raise UserError(f"--data_dir={data_dir}: not a folder")
    folder = _find_folder(data_dir)
    missing = _missing(folder)
    if not missing:
        return folder
    archive_path = folder.parent / archive.name
    if folder.is_dir() and len(missing) < len(_all_files()) and not archive_path.is_file():
        raise UserError(
            f"{folder}: {', '.join(missing)} missing; put them there, or delete the folder to have everything fetched anew"
        )
    _refuse_other_versions(data_dir)
    with writing(data_dir):
        folder.parent.mkdir(parents=True, exist_ok=True)
    _unpack(_fetch(archive, archive_path), folder)
    return folder


def read(folder: str | pathlib.Path, split: str) -> Cifar10:
    """The pictures of `split` ("train" or "test"), about as large in memory as on disk.

    Raises:
        UserError: a file is missing, empty, cut short, or holds a label above 9.
    """
    parts = [_read_file(pathlib.Path(folder) / name) for name in SPLITS[split]]
    records = parts[0] if len(parts) == 1 else np.concatenate(parts)
    planes = records[:, 1:].reshape(-1, 3, _SIDE, _SIDE)
    return Cifar10(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0].astype(np.int64))


def _read_file(path: pathlib.Path) -> np.ndarray:
    """[N, 3073] uint8."""
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if not data.size or data.size % _RECORD:
        raise UserError(
            f"{path}: {data.size} bytes, not a multiple of {_RECORD}: cut short, or not the binary version of CIFAR-10;"
            " delete its folder to have it fetched anew"
        )
    records = data.reshape(-1, _RECORD)
    wrong = np.flatnonzero(records[:, 0] >= len(CLASS_NAMES))
    if wrong.size:
        raise UserError(
            f"{path}: record {wrong[0]} has the label {records[wrong[0], 0]}, beyond 9: damaged, or not the binary version"
        )
    return records


def _all_files() -> list[str]:
    return [name for names in SPLITS.values() for name in names]


def _missing(folder: pathlib.Path) -> list[str]:
    return [name for name in _all_files() if not (folder / name).is_file()]


def _find_folder(data_dir: pathlib.Path) -> pathlib.Path:
    """data_dir itself when the files lie there, else the folder of the archive's name in it or one level further down."""
    if len(_missing(data_dir)) < len(_all_files()) or data_dir.name == FOLDER:
        return data_dir
    below = [data_dir / FOLDER, *(sorted(data_dir.glob(f"*/{FOLDER}")) if data_dir.is_dir() else [])]
    return next((folder for folder in below if folder.is_dir()), data_dir / FOLDER)


def _refuse_other_versions(data_dir: pathlib.Path) -> None:
    advice = f"the binary version is needed: {FOLDER}/data_batch_1.bin ... test_batch.bin, from {ARCHIVE.name}"
    for name, version in _OTHER_VERSIONS.items():
        if data_dir.name == name or (data_dir / name).is_dir():
            raise UserError(f"--data_dir={data_dir}: holds the {version} version of CIFAR-10 ({name}); {advice}")
    for name in ("data_batch_1", "data_batch_1.mat"):
        if (data_dir / name).is_file():
            raise UserError(f"--data_dir={data_dir}: {name} is of the Python or MATLAB version of CIFAR-10; {advice}")


# Fetching.


def _fetch(archive: Archive, path: pathlib.Path) -> pathlib.Path:
    """The whole archive at `path`: the one that is there, the rest of one, or a new one."""
    if path.is_file() and not _is_whole(path, archive):
        size = path.stat().st_size
        say(f"{path} is not whole ({size:,} of {archive.size:,} bytes): it is fetched beside it")
    if path.is_file() and _is_whole(path, archive):
        return path
    part = path.with_name(path.name + ".part")
    for attempt in (1, 2):
        _download(archive, part)
        if _is_whole(part, archive):
            part.replace(path)
            return path
        say(f"{part}: wrong size or checksum, thrown away" + (" and fetched once more" if attempt == 1 else ""))
        part.unlink()
    raise UserError(f"{archive.url}: what it sends is not the archive (its size or MD5 is wrong); {_by_hand(path.parent)}")


def _is_whole(path: pathlib.Path, archive: Archive) -> bool:
    if path.stat().st_size != archive.size:
        return False
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == archive.md5


def _download(archive: Archive, part: pathlib.Path) -> None:
    """Appends to `part` what is missing from it, or starts again where the server cannot do that."""
    have = part.stat().st_size if part.is_file() else 0
    if have >= archive.size:
        return
    request = urllib.request.Request(archive.url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECS) as response:
            resumed = response.status == 206
            _save(response, part, "ab" if resumed else "wb", have if resumed else 0, archive)
    except (OSError, urllib.error.URLError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        reason = getattr(error, "reason", None) or error
        raise UserError(f"{archive.url} could not be fetched ({reason}); {_by_hand(part.parent)}") from None


def _save(response: object, part: pathlib.Path, mode: str, have: int, archive: Archive) -> None:
    bar = progress(None, f"fetching {archive.name}", total=archive.size, unit="B")
    with bar, writing(part), open(part, mode) as file:
        bar.update(have)
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            bar.update(len(chunk))
    if part.stat().st_size < archive.size:
        raise UserError(
            f"{archive.url}: the connection ended after {part.stat().st_size:,} of {archive.size:,} bytes;"
            " the same command goes on from there"
        )


def _by_hand(folder: pathlib.Path) -> str:
    return f"put {ARCHIVE.name}, or the folder {FOLDER} out of it, into {folder}"


# Unpacking.


def _unpack(archive_path: pathlib.Path, folder: pathlib.Path) -> None:
    """Unpacks beside `folder` and renames, so that the folder is there whole or not at all."""
    with writing(folder.parent):
        aside = pathlib.Path(tempfile.mkdtemp(prefix=".cifar10.", dir=folder.parent))
    try:
        with tarfile.open(archive_path) as tar:
            _extract(tar, archive_path, aside)
        if missing := _missing(aside / FOLDER):
            raise UserError(f"{archive_path}: holds no {', '.join(missing)}; delete it to have it fetched anew")
        with writing(folder):
            _move(aside / FOLDER, folder)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UserError(f"{archive_path}: cannot be unpacked ({error}); delete it to have it fetched anew") from None
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
        target = aside / place
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as file:
                shutil.copyfileobj(tar.extractfile(member), file, _CHUNK)


def _move(unpacked: pathlib.Path, folder: pathlib.Path) -> None:
    """Renames the folder into place; into one that is there already, file by file, without touching those it has."""
    if not folder.exists():
        unpacked.rename(folder)
        return
    for file in unpacked.iterdir():
        if not (folder / file.name).exists():
            file.rename(folder / file.name)
