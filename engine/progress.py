"""A progress bar on stderr, for a person at a terminal, and lines that do not break it."""

import sys
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def progress(items: Iterable[Item], label: str, total: int, unit: str) -> Iterable[Item]:
    """`items`, with a bar that counts them where stderr is a terminal; a log file gets none."""
    if not sys.stderr.isatty():
        return items
    from tqdm import tqdm  # not free to import, and of no use without a terminal

    return tqdm(items, desc=label, total=total, unit=unit, file=sys.stderr)


def say(line: str) -> None:
    """Prints a line on stderr, above a bar if there is one."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        tqdm.write(line, file=sys.stderr)
    else:
        print(line, file=sys.stderr)
