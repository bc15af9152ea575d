"""What a recipe is made of: ops from sample to sample, and the ways to put them together."""

from collections.abc import Callable, Sequence

import numpy as np

# "image" [H, W, 3] uint8 RGB, "boxes" [N, 4] float32, and further arrays with one row per object ("labels", "difficult").
Sample = dict[str, np.ndarray]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
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


def keyed_uniforms(seed: int, epochs: np.ndarray, examples: np.ndarray, count: int) -> np.ndarray:
    """[B, count] uniform in [0, 1): `count` numbers that belong to each (seed, epoch, example), for a batch at once.

    SplitMix64's finaliser (Steele et al. 2014) applied to each part of the key in turn.
    """
    state = _mixed(np.uint64(seed % 2**64) + np.zeros(len(epochs), np.uint64))
    for part in (epochs, examples):
        state = _mixed(state + np.asarray(part).astype(np.uint64))
    draws = _mixed(state[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN)
    return (draws >> np.uint64(11)).astype(np.float64) / 2**53


def _mixed(bits: np.ndarray) -> np.ndarray:
    bits = bits + _GOLDEN
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


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
