"""Every way to name a checkpoint, and what is said about paths that are none."""

import re
import zipfile

import numpy as np
import pytest

from engine import checkpoints
from engine.errors import UserError
from tests.engine.slim_files import write_slim, write_v1

ARRAYS = {"net/conv1/biases": np.arange(3, dtype=np.float32)}


def assert_found(path, prefix):
    stored = checkpoints.find(path)
    assert stored.prefix == str(prefix)
    np.testing.assert_array_equal(stored.read("net/conv1/biases"), [0, 1, 2])


@pytest.mark.parametrize("ending", ["", ".index", ".data-00000-of-00001", ".meta"])
def test_a_prefix_or_any_of_its_files(tmp_path, ending):
    prefix = write_slim(tmp_path / "net.ckpt", ARRAYS)
    (tmp_path / "net.ckpt.meta").write_bytes(b"graph")
    assert_found(prefix + ending, prefix)


@pytest.mark.parametrize("write", [write_slim, write_v1])
def test_a_folder_of_a_single_checkpoint_and_the_moved_folder(tmp_path, write):
    (tmp_path / "a").mkdir()
    write(tmp_path / "a" / "vgg_16.ckpt", ARRAYS)
    assert_found(tmp_path / "a", tmp_path / "a" / "vgg_16.ckpt")
    assert_found((tmp_path / "a").rename(tmp_path / "b"), tmp_path / "b" / "vgg_16.ckpt")
    write(tmp_path / "b" / "other.ckpt", ARRAYS)
    with pytest.raises(UserError, match=r"several checkpoints and none of them numbered: .*other\.ckpt$"):
        checkpoints.find(tmp_path / "b")


def test_a_file_of_version_1(tmp_path):
    assert_found(write_v1(tmp_path / "vgg_16.ckpt", ARRAYS), tmp_path / "vgg_16.ckpt")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("weights.h5", b"\x89HDF\r\n\x1a\n" * 20, "an HDF5 file"),
        ("renamed.ckpt", b"\x89HDF\r\n\x1a\n" * 20, "an HDF5 file"),
        ("graph.pb", b"\x0a\x10" * 50, "a frozen graph"),
        ("w.pth", b"PK\x03\x04" * 20, "a PyTorch file"),
        ("w.keras", b"PK\x03\x04" * 20, "a Keras model"),
        ("vgg_16.ckpt", b"PK\x03\x04" * 20, "a zip archive"),
        ("vgg_16.tar.gz", b"\x1f\x8b\x08" * 20, "a gzip archive: unpack it first"),
        ("vgg_16.ckpt", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        ("vgg_16.ckpt", b"", "empty"),
        ("vgg_16.ckpt", b"hello" * 99, "something else or damaged"),
    ],
)
def test_other_files_are_recognised(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{re.escape(name)}: not a readable .* seems to be {said}.*; a checkpoint is a folder"):
        checkpoints.find(tmp_path / name)


def test_numpy_files(tmp_path):
    np.savez(tmp_path / "w.npz", w=ARRAYS["net/conv1/biases"])
    assert zipfile.is_zipfile(tmp_path / "w.npz")
    with pytest.raises(UserError, match="seems to be NumPy arrays"):
        checkpoints.find(tmp_path / "w.npz")


def test_folders_without_a_checkpoint(tmp_path):
    with pytest.raises(UserError, match="an empty folder"):
        checkpoints.find(tmp_path)
    (tmp_path / "run").mkdir()
    write_slim(tmp_path / "run" / "model.ckpt-5", ARRAYS)
    with pytest.raises(UserError, match=rf"no checkpoint .* there are some in {tmp_path / 'run'}$"):
        checkpoints.find(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    with pytest.raises(UserError, match="a SavedModel, not a checkpoint"):
        checkpoints.find(tmp_path)


def test_paths_that_do_not_exist(tmp_path):
    write_slim(tmp_path / "model.ckpt-120", ARRAYS)
    with pytest.raises(UserError, match=r"model\.ckpt-1200: no checkpoint there; beside it: model\.ckpt-120; a checkpoint is"):
        checkpoints.find(tmp_path / "model.ckpt-1200")
    with pytest.raises(UserError, match=f"there is no folder {tmp_path / 'nowhere'}"):
        checkpoints.find(tmp_path / "nowhere" / "model.ckpt-1")
    (tmp_path / "model.ckpt-120.index").unlink()
    with pytest.raises(UserError, match=r"model\.ckpt-120\.index is missing"):
        checkpoints.find(tmp_path / "model.ckpt-120")
