"""A made-up CIFAR-10 whose classes differ by colour, so that a few steps learn it."""

import numpy as np
import pytest

from classify.cifar10_files import FOLDER, SPLITS
from tests.classify.archive_server import NAMES, serving, tar_bytes


def make_records(count, rng):
    """[count, 3073] uint8: class c is a picture of brightness around 20 + 20 c with noise."""
    labels = np.arange(count) % 10
    planes = rng.normal(20 + 20 * labels[:, None], 12, [count, 3072]).clip(0, 255)
    # Standardisation removes the brightness: the class is in the contrast of the upper half against the lower one, too.
    planes = planes.reshape(count, 3, 32, 32)
    planes[:, :, :16] += (labels * 12)[:, None, None, None]
    records = np.concatenate([labels[:, None], planes.clip(0, 255).reshape(count, 3072)], axis=1)
    return records.astype(np.uint8)


@pytest.fixture(scope="session")
def cifar10_dir(tmp_path_factory):
    """A data_dir with the binary layout: 5 x 60 training and 130 test pictures."""
    data_dir = tmp_path_factory.mktemp("cifar10")
    folder = data_dir / FOLDER
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in SPLITS["train"]:
        make_records(60, rng).tofile(folder / name)
    make_records(130, rng).tofile(folder / "test_batch.bin")
    return data_dir


@pytest.fixture(scope="session")
def whole(cifar10_dir):
    """Its archive."""
    return tar_bytes([(f"{FOLDER}/{name}", (cifar10_dir / FOLDER / name).read_bytes()) for name in NAMES])


@pytest.fixture
def server(whole, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving(whole) as server:
        yield server
