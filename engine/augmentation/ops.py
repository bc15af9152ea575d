"""What a recipe is made of: ops from sample to sample, and the ways to put them together."""

from collections.abc import Callable, Sequence

import numpy as np

# "image" [H, W, 3] uint8 RGB, "boxes" [N, 4] float32, and further arrays with one row per object ("labels", "difficult").
Sample = dict[str, np.ndarray]
# An op returns a new dict and leaves the sample it was given, and the arrays inside, as they were.
Op = Callable[[Sample, np.random.Generator], Sample]


def keyed_generator(seed: int, epoch: int, example: int) -> np.random.Generator:
    """Random numbers that belong to one example of one epoch, whatever ran before.

    Seed and epoch are Philox's key; the example is the highest word of its 256-bit counter, so the
    streams of two examples lie 2**192 blocks apart and never meet.
    """
    key = np.array([seed % 2**64, epoch % 2**64], np.uint64)
    counter = np.array([0, 0, 0, example % 2**64], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def run_in_order(ops: Sequence[Op], sample: Sample, rng: np.random.Generator) -> Sample:
    """The sample after all ops, first to last."""
    for op in ops:
        sample = op(sample, rng)
    return sample


def maybe(probability: float, op: Op) -> Op:
    """An op that applies `op` with the given probability."""

    def toss_and_apply(sample: Sample, rng: np.random.Generator) -> Sample:
        return op(sample, rng) if rng.random() < probability else sample

    return toss_and_apply


def one_of(*orders: Sequence[Op]) -> Op:
    """An op that runs one of several sequences of ops, each equally likely."""

    def pick_and_run(sample: Sample, rng: np.random.Generator) -> Sample:
        return run_in_order(orders[rng.integers(len(orders))], sample, rng)

    return pick_and_run
