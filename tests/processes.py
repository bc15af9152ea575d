"""Commands that run at the same time, for tests; none outlives its test."""

import socket
import subprocess
import sys
import threading

import pytest

from tests.conftest import ROOT


class Process:
    """A command of the project whose stderr is read as it comes."""

    def __init__(self, argv, env=None):
        command = [sys.executable, *map(str, argv)]
        self.popen = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=env)
        self.lines, self._news, self._ended = [], threading.Condition(), False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.popen.stderr:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    @property
    def told(self):
        return "".join(self.lines)

    def wait_for_line(self, start, timeout=120):
        with self._news:
            self._news.wait_for(lambda: self._ended or any(line.startswith(start) for line in self.lines), timeout)
        assert any(line.startswith(start) for line in self.lines), f"no line {start!r}:\n{self.told}"

    def wait(self, timeout=120):
        """The exit code; everything is in `lines` then."""
        code = self.popen.wait(timeout)
        self._reader.join(timeout)
        return code

    def end(self):
        self.popen.kill()
        self.wait()
        self.popen.stderr.close()


@pytest.fixture
def start():
    """Starts commands: `start(argv, env=None) -> Process`."""
    started = []

    def start_one(argv, env=None):
        started.append(Process(argv, env))
        return started[-1]

    yield start_one
    for process in started:
        process.end()


def free_addresses(count):
    """localhost:PORT with ports that nobody uses just now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("", 0))
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses
