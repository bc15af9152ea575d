"""What a command says while it works, on stderr: lines, and a progress bar that they do not break."""

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

# In a log file a bar is a line now and then, not one several times a second.
_SECONDS_BETWEEN_LINES = 30.0


def progress(items: Iterable[Any] | None, label: str, *, total: int, unit: str) -> tqdm:
    """`items` with a bar that counts them; without items a bar to `update` by hand."""
    interval = 0.1 if sys.stderr.isatty() else _SECONDS_BETWEEN_LINES
    return tqdm(items, desc=label, total=total, unit=unit, file=sys.stderr, mininterval=interval)


def say(line: str) -> None:
    """Prints a line on stderr, above a bar if there is one."""
    tqdm.write(line, file=sys.stderr)
    sys.stderr.flush()
