"""Several files that replace older ones together: whole or not at all, even through a kill or a full disk.

Files are written into a hidden folder beside their goal. One rename of that folder (`.NAME.ready`) decides; from there
on the files are moved into place, and a run that finds such a folder, left by a crash, finishes the move first.
"""

import contextlib
import fcntl
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from engine.files import writing
from engine.tfrecords import UNFINISHED

_OBSOLETE = "obsolete.json"


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds off every other process that publishes into `directory`, where its file system knows locks."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_interrupted(directory: Path, name: str) -> bool:
    """Whether a crash came between two moves: the files of `name` are incomplete until `finish` has run."""
    return _ready(directory, name).is_dir()


def finish(directory: Path, name: str) -> None:
    """Moves the files of a decided publication into place; does nothing where none was interrupted."""
    ready = _ready(directory, name)
    if not ready.is_dir():
        return
    # Old files go before the first new one comes, so no reader sees both. The list goes with them: a second
    # attempt must not delete what the first one has already moved into place.
    obsolete = ready / _OBSOLETE
    if obsolete.exists():
        for old in json.loads(obsolete.read_text("utf-8")):
            (directory / old).unlink(missing_ok=True)
        obsolete.unlink()
    # Shards first: the manifest that names them must not run ahead of them.
    shards_first = sorted(ready.glob("*" + UNFINISHED), key=lambda path: (".tfrecord" not in path.name, path.name))
    for path in shards_first:
        path.replace(directory / path.name.removesuffix(UNFINISHED))
    shutil.rmtree(ready)


def _ready(directory: Path, name: str) -> Path:
    return directory / f".{name}.ready"


class Staging:
    """A hidden folder for the files of one run; use it as a context manager around everything that writes.

    `directory` is made if absent. Leaving without `publish` leaves no trace and the old files as they were.
    """

    def __init__(self, directory: Path, name: str):
        self._directory = directory
        self._name = name
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
            with locked(directory):
                finish(directory, name)
                self._remove_abandoned()
                self.folder = Path(tempfile.mkdtemp(prefix=f".{name}.partial.", dir=directory))
                self._lock = os.open(self.folder, os.O_RDONLY)
                with contextlib.suppress(OSError):
                    fcntl.flock(self._lock, fcntl.LOCK_EX)

    def __enter__(self) -> "Staging":
        return self

    def __exit__(self, error: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._lock)
        shutil.rmtree(self.folder, ignore_errors=True)

    def write_text(self, name: str, text: str) -> None:
        """Adds the file `name`, to be published with the others."""
        with writing(self._directory):
            (self.folder / (name + UNFINISHED)).write_text(text, "utf-8")

    def publish(self, obsolete: Iterable[str]) -> None:
        """Deletes the files named `obsolete` and moves every `*.part` file into place. Call it under `locked(directory)`."""
        with writing(self._directory):
            (self.folder / _OBSOLETE).write_text(json.dumps(sorted(obsolete)), "utf-8")
            self.folder.rename(_ready(self._directory, self._name))
            finish(self._directory, self._name)

    def _remove_abandoned(self) -> None:
        """Removes folders of runs that were killed: nobody holds their lock any more."""
        for path in self._directory.glob(f".{glob.escape(self._name)}.partial.*"):
            handle = os.open(path, os.O_RDONLY)
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            os.close(handle)
