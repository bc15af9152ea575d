"""Fetching against a real server on this machine, unpacking of real archives, and files that are not what they should be."""

import hashlib
import http.server
import io
import pathlib
import shutil
import subprocess
import sys
import tarfile
import threading

import numpy as np
import pytest

from classify import cifar10_files
from classify.cifar10_files import FOLDER, SPLITS, Archive, prepare, read
from engine.errors import UserError

NAMES = [name for names in SPLITS.values() for name in names]
REAL = pathlib.Path(__file__).parents[3] / "shared" / "data" / "cifar10"


def tar_bytes(members):
    """An archive of (name, content) or ready-made TarInfo entries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def whole(cifar10_dir):
    return tar_bytes([(f"{FOLDER}/{name}", (cifar10_dir / FOLDER / name).read_bytes()) for name in NAMES])


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the server's `content`; honours Range when `ranges`; breaks off after `cut` bytes while there is one."""

    def do_GET(self):
        server = self.server
        content, start = server.content, 0
        asked = self.headers.get("Range")
        server.asked.append(asked)
        if server.status != 200:
            self.send_error(server.status)
            return
        if asked and server.ranges:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        part = content[start : start + server.cut.pop(0)] if server.cut else content[start:]
        self.wfile.write(part)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(whole):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.content, server.ranges, server.cut, server.status, server.asked = whole, True, [], 200, []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/cifar-10-binary.tar.gz"
        server.archive = Archive(url, len(whole), hashlib.md5(whole).hexdigest())
        yield server
        server.shutdown()


def no_network(archive):
    return Archive("http://127.0.0.1:9/cifar-10-binary.tar.gz", archive.size, archive.md5)


def assert_same_files(folder, cifar10_dir):
    assert {path.name for path in folder.iterdir()} == set(NAMES)
    for name in NAMES:
        assert (folder / name).read_bytes() == (cifar10_dir / FOLDER / name).read_bytes()


def test_files_that_are_there_need_no_network(server, cifar10_dir):
    for given in (cifar10_dir, cifar10_dir / FOLDER):
        assert prepare(given, no_network(server.archive)) == cifar10_dir / FOLDER
    assert server.asked == []


def test_one_level_too_high_is_found(server, cifar10_dir, tmp_path):
    shutil.copytree(cifar10_dir, tmp_path / "data")
    assert prepare(tmp_path, no_network(server.archive)) == tmp_path / "data" / FOLDER


def test_downloaded_and_unpacked(server, cifar10_dir, tmp_path):
    folder = prepare(tmp_path / "new" / "folder", server.archive)
    assert_same_files(folder, cifar10_dir)
    assert {path.name for path in folder.parent.iterdir()} == {FOLDER, "cifar-10-binary.tar.gz"}
    prepare(tmp_path / "new" / "folder", server.archive)
    assert server.asked == [None]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_break_is_told_and_the_next_run_goes_on(server, cifar10_dir, tmp_path, ranges):
    server.ranges, server.cut = ranges, [5000]
    with pytest.raises(UserError, match=r"ended after 5,000 of [\d,]+ bytes; the same command goes on"):
        prepare(tmp_path, server.archive)
    assert not (tmp_path / FOLDER).exists()
    assert_same_files(prepare(tmp_path, server.archive), cifar10_dir)
    assert server.asked == [None, "bytes=5000-"]


def test_a_wrong_file_is_fetched_once_more(server, cifar10_dir, tmp_path, capsys):
    (tmp_path / "cifar-10-binary.tar.gz.part").write_bytes(b"x" * 100)
    assert_same_files(prepare(tmp_path, server.archive), cifar10_dir)
    assert "wrong size or checksum, thrown away and fetched once more" in capsys.readouterr().err
    server.content = b"y" * len(server.content)
    with pytest.raises(UserError, match="is not the archive"):
        prepare(tmp_path / "other", server.archive)
    assert not (tmp_path / "other" / FOLDER).exists()


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_refuses_is_one_line(server, tmp_path, status):
    server.status = status
    with pytest.raises(UserError, match="could not be fetched") as error:
        prepare(tmp_path, server.archive)
    assert "\n" not in str(error.value)
    assert f"put cifar-10-binary.tar.gz, or the folder {FOLDER} out of it, into {tmp_path}" in str(error.value)


def test_without_network_it_says_what_to_put_where(server, tmp_path):
    with pytest.raises(UserError, match=rf"could not be fetched \(.*refused.*put cifar-10-binary.tar.gz.*into {tmp_path}"):
        prepare(tmp_path, no_network(server.archive))


def test_an_archive_that_is_there_is_used(server, whole, cifar10_dir, tmp_path):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(whole)
    assert_same_files(prepare(tmp_path, no_network(server.archive)), cifar10_dir)


def test_half_an_archive_is_completed_or_named(server, whole, cifar10_dir, tmp_path, capsys):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(whole[:4000])
    with pytest.raises(UserError, match="could not be fetched"):
        prepare(tmp_path, no_network(server.archive))
    assert "cifar-10-binary.tar.gz is not whole (4,000 of" in capsys.readouterr().err
    assert_same_files(prepare(tmp_path, server.archive), cifar10_dir)


def test_missing_batches_are_named(server, cifar10_dir, whole, tmp_path):
    shutil.copytree(cifar10_dir / FOLDER, tmp_path / FOLDER)
    (tmp_path / FOLDER / "data_batch_2.bin").unlink()
    (tmp_path / FOLDER / "data_batch_5.bin").unlink()
    with pytest.raises(UserError, match="data_batch_2.bin, data_batch_5.bin missing; put them there, or delete the folder"):
        prepare(tmp_path, server.archive)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(whole)
    assert_same_files(prepare(tmp_path, no_network(server.archive)), cifar10_dir)


def link(name, target):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


@pytest.mark.parametrize(
    "member",
    ["../evil", "/tmp/evil_of_a_test", f"{FOLDER}/../../evil", "other/file", link(f"{FOLDER}/link", "/etc")],
    ids=["above", "absolute", "dots", "beside", "link"],
)
def test_nothing_is_unpacked_outside(cifar10_dir, tmp_path, member):
    members = [(f"{FOLDER}/{name}", b"x") for name in NAMES] + [(member, b"")]
    content = tar_bytes(members)
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "cifar-10-binary.tar.gz").write_bytes(content)
    archive = Archive("http://127.0.0.1:9/cifar-10-binary.tar.gz", len(content), hashlib.md5(content).hexdigest())
    with pytest.raises(UserError, match="is no plain file inside"):
        prepare(data_dir, archive)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert [path.name for path in data_dir.iterdir()] == ["cifar-10-binary.tar.gz"]


def test_other_versions_are_named(server, tmp_path):
    for name, version in (("cifar-10-batches-py", "Python"), ("cifar-10-batches-mat", "MATLAB")):
        folder = tmp_path / version / name
        folder.mkdir(parents=True)
        for given in (folder, folder.parent):
            with pytest.raises(UserError, match=rf"{version} version of CIFAR-10 .*binary version is needed"):
                prepare(given, server.archive)
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x02")
    with pytest.raises(UserError, match="data_batch_1 is of the Python or MATLAB version"):
        prepare(tmp_path, server.archive)
    assert server.asked == []


def test_a_file_as_data_dir(server, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="--data_dir=.*file: not a folder"):
        prepare(tmp_path / "file", server.archive)


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
        (b"", "0 bytes, not a multiple of 3073"),
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
