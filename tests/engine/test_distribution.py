"""Replicas in one process: the step's arithmetic, batch normalisation, and flags that cannot be."""

import numpy as np
import pytest

from engine.cluster import connect
from engine.distribution import ONE_DEVICE
from engine.errors import UserError
from engine.train_flags import TrainFlags
from tests.conftest import run_command
from tests.engine.replicated_steps import BATCH, DECAY, SIZE, STEPS, make_batches


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas")
    done = run_command("-m", "tests.engine.replicated_steps", folder / "plain.npz", folder / "xla.npz")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module", params=["plain", "xla"])
def found(request, written):
    with np.load(written / f"{request.param}.npz") as arrays:
        return dict(arrays)


def moving_statistics():
    """By hand: each half of a batch has its own mean and unbiased variance; their means over the halves move the averages."""
    moving = None
    for batch in make_batches():
        halves = batch["image"].numpy().reshape(2, -1, 3)
        of_batch = np.stack([halves.mean(axis=1).mean(axis=0), halves.var(axis=1, ddof=1).mean(axis=0)])
        moving = of_batch if moving is None else DECAY * moving + (1 - DECAY) * of_batch
    return moving


def test_moving_statistics_are_averaged_over_the_replicas(found):
    for copies, expected in zip(
        (found["net/BatchNorm/moving_mean"], found["net/BatchNorm/moving_variance"]), moving_statistics(), strict=True
    ):
        np.testing.assert_array_equal(copies[0], copies[1])
        np.testing.assert_allclose(copies[0], expected, rtol=1e-5)


def test_the_copies_are_the_same(found):
    for name, copies in found.items():
        if name.startswith("net/"):
            np.testing.assert_array_equal(copies[0], copies[1], err_msg=name)


def test_gradients_are_those_of_the_whole_batch(found):
    # The loss is the sum over the pixels of the first channel, per picture: the gradient of its bias is their number.
    np.testing.assert_allclose(found["net/conv1/biases"][0], [-0.5 * SIZE * SIZE * STEPS, 0], rtol=1e-6)
    # Averages with decay min(.5, (1 + n) / (10 + n)) of the biases -8, -16, -24.
    average = 0.0
    for n in (1, 2, 3):
        decay = min(0.5, (1 + n) / (10 + n))
        average = decay * average + (1 - decay) * -8 * n
    np.testing.assert_allclose(found["net/conv1/biases/average"][0], [average, 0], rtol=1e-5)


def test_steps_and_examples_are_counted_once(found):
    assert (found["step"], found["examples"], found["traces"]) == (STEPS, STEPS * BATCH, 1)


def test_one_clone_is_no_replica():
    assert connect(TrainFlags()) is ONE_DEVICE


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"num_clones": 2, "batch_size": 5, "clone_on_cpu": True}, "--batch_size=5: .* over 2 replicas"),
        ({"num_clones": 64, "batch_size": 64}, r"--num_clones=64: there are \d+ GPUs"),
    ],
)
def test_mistakes_are_named(flags, named):
    with pytest.raises(UserError, match=named):
        connect(TrainFlags(**flags))
