"""`map` over several processes: results in order, a handful in flight, no orphans."""

import contextlib
import fcntl
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import TypeVar

from engine.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Room for a few results in the pipe, so that a worker does not wait while another one's slow item is awaited.
_PIPE_BYTES = 1 << 20


def available_cores() -> int:
    """Cores that this process may use; fewer than the machine has inside a container or under `taskset`."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(function: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Iterator[Result]:
    """`function(item)` for each item, in the order of the items, computed by `workers` processes.

    Worker k of n takes items k, k + n, ... and blocks once its results fill a pipe of 1 MiB. With one worker everything
    happens in this process. `function` and the items must be picklable. What `function` raises is raised here;
    a worker that dies (killed for its memory, say) is a UserError that names its item.
    """
    workers = min(workers, len(items))
    if workers <= 1:
        yield from map(function, items)
        return
    pool = [_start(function, items[first::workers]) for first in range(workers)]
    try:
        for index, item in enumerate(items):
            yield _receive(pool[index % workers][1], item)
    finally:
        for process, results in pool:
            results.close()
            process.terminate()
            process.join()


def _start(function: Callable[[Item], Result], items: Sequence[Item]) -> tuple[multiprocessing.Process, Connection]:
    # A fork starts at once and shares what is imported; but TensorFlow's threads do not survive it.
    method = "fork" if sys.platform == "linux" and "tensorflow" not in sys.modules else "spawn"
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # more than this user may have: the usual 64 KiB do
            fcntl.fcntl(sender, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    process = context.Process(target=_work, args=(function, items, sender), daemon=True)
    process.start()
    sender.close()  # the worker's copy must be the only one: its death is then an end of file here
    return process, receiver


def _work(function: Callable[[Item], Result], items: Sequence[Item], results: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends its workers
    with contextlib.suppress(BrokenPipeError):  # the parent is gone
        for item in items:
            try:
                result, error = function(item), None
            except Exception as raised:
                result, error = None, raised
            results.send((result, error))


def _receive(results: Connection, item: Item) -> Result:
    try:
        result, error = results.recv()
    except EOFError:
        raise UserError(f"a worker process died at {item}: out of memory? try fewer --workers") from None
    if error is not None:
        raise error
    return result
