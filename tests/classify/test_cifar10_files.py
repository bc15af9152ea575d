"""Finding, unpacking of real archives, and files that are not what they should be."""

import gzip
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tracemalloc
import zlib

import numpy as np
import pytest

from classify import cifar10_files
from classify.cifar10_download import Archive
from classify.cifar10_files import FOLDER, SPLITS, prepare, read
from engine.errors import UserError
from tests.classify.archive_server import NAMES, assert_same_files, no_network, tar_bytes

REAL = pathlib.Path(__file__).parents[3] / "shared" / "data" / "cifar10"


def test_files_that_are_there_need_no_network(server, cifar10_dir):
    for given in (cifar10_dir, cifar10_dir / FOLDER):
        assert prepare(given, no_network(server.archive)) == cifar10_dir / FOLDER
    assert server.asked == []


def test_one_level_too_high_is_found(server, cifar10_dir, tmp_path):
    shutil.copytree(cifar10_dir, tmp_path / "data")
    assert prepare(tmp_path, no_network(server.archive)) == tmp_path / "data" / FOLDER


def test_the_most_complete_folder_is_taken(server, cifar10_dir, tmp_path):
    (tmp_path / "a" / FOLDER).mkdir(parents=True)
    shutil.copytree(cifar10_dir, tmp_path / "b")
    (tmp_path / "test_batch.bin").write_bytes(b"astray")
    assert prepare(tmp_path, no_network(server.archive)) == tmp_path / "b" / FOLDER


def test_downloaded_and_unpacked(server, cifar10_dir, tmp_path):
    folder = prepare(tmp_path / "new" / "folder", server.archive)
    assert_same_files(folder, cifar10_dir)
    assert {path.name for path in folder.parent.iterdir()} == {FOLDER, "cifar-10-binary.tar.gz"}
    prepare(tmp_path / "new" / "folder", server.archive)
    assert server.asked == [None]


def test_an_archive_that_is_there_is_used(server, whole, cifar10_dir, tmp_path):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(whole)
    assert_same_files(prepare(tmp_path, no_network(server.archive)), cifar10_dir)


def test_missing_batches_are_named(server, cifar10_dir, whole, tmp_path):
    shutil.copytree(cifar10_dir / FOLDER, tmp_path / FOLDER)
    (tmp_path / FOLDER / "data_batch_2.bin").unlink()
    (tmp_path / FOLDER / "data_batch_5.bin").unlink()
    with pytest.raises(UserError, match="data_batch_2.bin, data_batch_5.bin missing; put them there, or delete the folder"):
        prepare(tmp_path, server.archive)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(whole)
    assert_same_files(prepare(tmp_path, no_network(server.archive)), cifar10_dir)


def test_files_that_are_there_are_not_overwritten(server, whole, cifar10_dir, tmp_path):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "data_batch_1.bin").write_bytes(b"somebody's own")
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(whole)
    folder = prepare(tmp_path, no_network(server.archive))
    assert (folder / "data_batch_1.bin").read_bytes() == b"somebody's own"
    assert (folder / "data_batch_2.bin").read_bytes() == (cifar10_dir / FOLDER / "data_batch_2.bin").read_bytes()


def test_nobody_is_told_to_delete_a_folder_of_another_name(server, tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(b"astray")
    with pytest.raises(UserError, match="data_batch_1.bin.* missing; put them there, or move those that are there away"):
        prepare(tmp_path, server.archive)
    assert server.asked == []


@pytest.mark.parametrize("count", [1, 6])
def test_what_a_killed_run_left_is_cleared_away(server, whole, cifar10_dir, tmp_path, count):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(whole)
    left = tmp_path / f".{FOLDER}.unpacked" / FOLDER
    left.mkdir(parents=True)
    for name in NAMES[:count]:
        (left / name).write_bytes(b"half")
    assert_same_files(prepare(tmp_path, no_network(server.archive)), cifar10_dir)
    assert {path.name for path in tmp_path.iterdir()} == {FOLDER, "cifar-10-binary.tar.gz"}


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "member",
    [
        "../evil",
        "/tmp/evil_of_a_test",
        f"{FOLDER}/../../evil",
        "other/file",
        special(f"{FOLDER}/link", tarfile.SYMTYPE, "/etc"),
        special(f"{FOLDER}/hard", tarfile.LNKTYPE, "/etc/passwd"),
        special(f"{FOLDER}/fifo", tarfile.FIFOTYPE),
        special(f"{FOLDER}/device", tarfile.CHRTYPE),
    ],
    ids=["above", "absolute", "dots", "beside", "link", "hard_link", "fifo", "device"],
)
def test_nothing_is_unpacked_outside(cifar10_dir, tmp_path, member):
    members = [(f"{FOLDER}/{name}", b"x") for name in NAMES] + [(member, b"")]
    content = tar_bytes(members)
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "cifar-10-binary.tar.gz").write_bytes(content)
    archive = Archive("http://127.0.0.1:9/cifar-10-binary.tar.gz", len(content), hashlib.md5(content).hexdigest())
    name = member if isinstance(member, str) else member.name
    with pytest.raises(UserError, match=f"its member '{name}' is no plain file inside"):
        prepare(data_dir, archive)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert [path.name for path in data_dir.iterdir()] == ["cifar-10-binary.tar.gz"]


def break_the_packing(content):
    """What is no block of packed data, from the middle on."""
    packer = zlib.compressobj(wbits=31)
    plain = gzip.decompress(content)
    return packer.compress(plain[: len(plain) // 2]) + packer.flush(zlib.Z_FULL_FLUSH) + b"\x07" * 1000


@pytest.mark.parametrize(
    "damage",
    [break_the_packing, lambda content: content[:-20], lambda content: b"no archive"],
    ids=["packing", "cut", "no_tar"],
)
def test_a_damaged_archive_is_one_line(tmp_path, damage):
    content = damage(tar_bytes([(f"{FOLDER}/{name}", b"x" * 50_000) for name in NAMES]))
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(content)
    archive = Archive("http://127.0.0.1:9/cifar-10-binary.tar.gz", len(content), hashlib.md5(content).hexdigest())
    with pytest.raises(UserError, match=rf"^{path}: cannot be unpacked \(.*\); delete it to have it fetched anew$") as error:
        prepare(tmp_path, archive)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == [path]


def test_other_versions_are_named(server, tmp_path):
    for name, version in (("cifar-10-batches-py", "Python"), ("cifar-10-batches-mat", "MATLAB")):
        folder = tmp_path / version / name
        folder.mkdir(parents=True)
        for given in (folder, folder.parent):
            with pytest.raises(UserError, match=rf"{version} version of CIFAR-10 .*binary version is needed"):
                prepare(given, server.archive)
    assert server.asked == []


@pytest.mark.parametrize("place", ["", FOLDER])
@pytest.mark.parametrize(("name", "version"), [("data_batch_1", "Python"), ("data_batch_1.mat", "MATLAB")])
def test_loose_files_of_other_versions_are_named(server, tmp_path, place, name, version):
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / name).write_bytes(b"\x80\x02")
    with pytest.raises(UserError, match=rf"{version} version .*{FOLDER}: data_batch_1.bin .*put cifar-10-binary.tar.gz from"):
        prepare(tmp_path, server.archive)
    assert server.asked == []


def test_another_version_beside_the_archive_is_no_matter(server, whole, cifar10_dir, tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(whole)
    assert_same_files(prepare(tmp_path, no_network(server.archive)), cifar10_dir)


@pytest.mark.parametrize("name", ["file", FOLDER])
def test_a_file_where_a_folder_belongs(server, tmp_path, name):
    (tmp_path / name).write_text("x")
    for given in {tmp_path / name, tmp_path if name == FOLDER else tmp_path / name}:
        with pytest.raises(UserError, match=f"--data_dir=.*{name} is a file, not a folder"):
            prepare(given, server.archive)
    assert server.asked == []


def test_pictures_and_labels_by_the_layout(tmp_path):
    record = bytes([7]) + bytes(range(256)) * 4 + bytes([1]) * 1024 + bytes([2]) * 1024
    (tmp_path / "test_batch.bin").write_bytes(record * 2)
    images, labels = read(tmp_path, "test")
    assert (images.shape, images.dtype, labels.tolist()) == ((2, 32, 32, 3), np.uint8, [7, 7])
    assert images[1, 0, 5].tolist() == [5, 1, 2]
    assert images[1, 8, 0].tolist() == [0, 1, 2]
    assert images[0, 31, 31].tolist() == [255, 1, 2]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "empty"),
        (b"\0" * 3074, "3074 bytes, not a multiple of 3073"),
        (b"\0" * 3073 + b"\x0a" + b"\0" * 3072, "record 1 has the label 10, beyond 9"),
    ],
)
def test_damaged_files_are_named(tmp_path, content, named):
    (tmp_path / "test_batch.bin").write_bytes(content)
    with pytest.raises(UserError, match=f"test_batch.bin: {named}"):
        read(tmp_path, "test")
    with pytest.raises(UserError, match="data_batch_1.bin: cannot be read"):
        read(tmp_path, "train")


def test_training_files_follow_each_other(cifar10_dir):
    folder = cifar10_dir / FOLDER
    images, labels = read(folder, "train")
    assert (images.shape, images.dtype, labels.dtype) == ((300, 32, 32, 3), np.uint8, np.int64)
    record = (folder / "data_batch_4.bin").read_bytes()[7 * 3073 : 8 * 3073]
    assert labels[3 * 60 + 7] == record[0]
    assert images[3 * 60 + 7].transpose(2, 0, 1).tobytes() == record[1:]


def test_one_file_at_a_time_is_in_memory(tmp_path):
    for name in SPLITS["train"]:
        np.zeros([2000, 3073], np.uint8).tofile(tmp_path / name)
    tracemalloc.start()
    images, _ = read(tmp_path, "train")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < images.nbytes * 1.3


def test_no_tensorflow_is_needed():
    code = "import sys, classify.cifar10_files; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not REAL.is_dir(), reason="the real pictures are not there")
def test_the_real_pictures(tmp_path):
    subprocess.run([sys.executable, REAL / "make_cifar10_bin.py", tmp_path], check=True)
    folder = prepare(tmp_path, no_network(cifar10_files.ARCHIVE))
    for split, count in (("train", 50000), ("test", 10000)):
        images, labels = read(folder, split)
        assert images.shape == (count, 32, 32, 3)
        assert np.bincount(labels).tolist() == [count // 10] * 10
    # Skies and seas are blue: planes in the wrong order would show.
    blue, red = (images[labels == 8][..., channel].mean() for channel in (2, 0))
    assert blue > red
