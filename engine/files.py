"""Writing: files that appear whole or not at all, and failures that name their place."""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from engine.errors import UserError


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
    """Turns a failed write (full disk, read-only folder) into a `UserError` that names `path`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror or error}") from error


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a UTF-8 file, whole or not at all, and the folders it needs.

    Characters that are no Unicode (file names can hold such) are written as escapes.
    """
    path = pathlib.Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(text.encode("utf-8", "backslashreplace"))
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise


def write_json(path: str | os.PathLike, content: Any) -> None:
    """`content` as JSON by `write_text`. NaN is a ValueError, not a broken file."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
