"""Loads a library without the messages that its C++ side prints before any log level applies."""

import contextlib
import importlib.abc
import importlib.machinery
import os
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence


def silence_import(name: str) -> None:
    """When the module `name` is imported, whenever that is, what native code prints on stderr meanwhile is dropped.

    If the import fails it is printed after all.
    """
    if name not in sys.modules:
        sys.meta_path.insert(0, _QuietFinder(name))


class _QuietFinder(importlib.abc.MetaPathFinder):
    """Lets the usual finders find the module, and wraps its loading."""

    def __init__(self, name: str):
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: _load(load, module)
        return spec


def _load(load, module: types.ModuleType) -> None:
    with _native_stderr_dropped():
        load(module)


@contextlib.contextmanager
def _native_stderr_dropped() -> Iterator[None]:
    own = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(own, kept.read())
            raise
        finally:
            os.dup2(own, 2)
            os.close(own)
