"""The pictures that a user names on the command line."""

import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from engine import images
from engine.errors import UserError
from engine.stored_images import decode_as_stored


def list_pictures(inputs: Sequence[str]) -> tuple[list[pathlib.Path], dict[pathlib.Path, str]]:
    """The files meant by the arguments, files or folders, each once; and those that are not there, with the reason."""
    files: dict[pathlib.Path, None] = {}
    unread = {}
    for path in map(pathlib.Path, inputs):
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix.lower() in images.SUFFIXES and file.is_file())
            files |= dict.fromkeys(inside)
            if not inside:
                unread[path] = "a folder without pictures"
        elif path.is_file():
            files[path] = None
        else:
            unread[path] = "no such file"
    return list(files), unread


def read_pictures(files: Iterable[pathlib.Path], unread: dict[pathlib.Path, str]) -> Iterator[tuple[pathlib.Path, np.ndarray]]:
    """Each file with its picture [H, W, 3] uint8 RGB, upright, as a converter would store it.

    Those that cannot be read are left out and put into `unread` with the reason.
    """
    for file in files:
        try:
            yield file, decode_as_stored(file.read_bytes())
        except UserError as error:
            unread[file] = str(error)
        except OSError as error:
            unread[file] = error.strerror or str(error)
