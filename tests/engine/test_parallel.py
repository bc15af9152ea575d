import os
import signal
import subprocess
import sys
import time

import pytest

from engine.parallel import available_cores, ordered_map

PROGRAM = r"""
import os, signal, sys, time
from engine.errors import UserError
from engine.parallel import ordered_map

def square(n):
    time.sleep(0.002 * (n % 3))
    return n * n

def fail_at_5(n):
    if n == 5:
        raise ValueError("five")
    return n

def die_at_5(n):
    if n == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return n

def slow(n):
    os.write(1, b"%d\n" % os.getpid())  # at once: lines of two processes must not mix
    time.sleep(0.05)
    return bytes(100_000)

"""


def run(body):
    done = subprocess.run([sys.executable, "-c", PROGRAM + body], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


@pytest.mark.parametrize("workers", [1, 2, 3, 50])
def test_results_come_in_order(workers):
    assert run(f"print(list(ordered_map(square, range(20), {workers})))") == f"{[n * n for n in range(20)]}\n"


def test_no_items():
    assert list(ordered_map(str, [], 4)) == []


def test_errors_are_raised_here_in_their_place():
    body = """
got = []
try:
    for n in ordered_map(fail_at_5, range(20), 2):
        got.append(n)
except ValueError as error:
    print(got, error)
"""
    assert run(body) == "[0, 1, 2, 3, 4] five\n"


def test_a_worker_that_dies_is_a_clear_error():
    body = """
try:
    list(ordered_map(die_at_5, range(20), 2))
except UserError as error:
    print(error)
"""
    assert run(body).startswith("a worker process died at 5: out of memory?")


def test_stopping_early_ends_the_workers():
    body = """
results = ordered_map(square, range(10**6), 3)
print(next(results))
results.close()
import multiprocessing
print(multiprocessing.active_children())
"""
    assert run(body) == "0\n[]\n"


def test_workers_do_not_outlive_a_killed_parent():
    parent = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + "list(ordered_map(slow, range(10**4), 2))"], stdout=subprocess.PIPE, text=True
    )
    workers = set()
    while len(workers) < 2:
        workers.add(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while any(_is_running(pid) for pid in workers):
        assert time.monotonic() < deadline, "workers still run"
        time.sleep(0.05)


def _is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_spawned_workers_serve_as_well():
    body = """
import sys, types
sys.modules["tensorflow"] = types.ModuleType("tensorflow")  # whose threads forbid a fork
print(list(ordered_map(abs, [-1, -2, -3], 2)))
"""
    assert run(body) == "[1, 2, 3]\n"


def test_cores():
    assert 1 <= available_cores() <= os.cpu_count()
