"""Files that appear whole or not at all."""

import contextlib
import json
import os
import pathlib
from typing import Any

from engine.errors import UserError


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Writes a JSON file, whole or not at all, and the folders it needs. NaN is a ValueError, not a broken file."""
    path = pathlib.Path(path)
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
