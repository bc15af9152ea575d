"""How long something takes here, and how fast the machine is at the moment."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_SIDE = 4096


def median_seconds(function: Callable[[], Any], rounds: int = 5) -> float:
    """The median of some calls, after one that does not count: it compiles."""
    function()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def matmul_gflops() -> float:
    """Billions of floating-point operations a second in a product of two 4096x4096 matrices of float32."""
    matrix = tf.random.stateless_uniform([_SIDE, _SIDE], [0, 0])
    multiply = tf.function(lambda: tf.reduce_sum(tf.matmul(matrix, matrix)), autograph=False)
    return 2 * _SIDE**3 / median_seconds(lambda: float(multiply())) / 1e9
