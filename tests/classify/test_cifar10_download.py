"""Fetching against a real server on this machine that breaks off, cannot resume, or sends something else."""

import hashlib
import re
import socket
import struct
import threading
import time
import urllib.request

import pytest

from classify import cifar10_download
from classify.cifar10_download import ARCHIVE, Archive, fetch
from classify.cifar10_files import FOLDER, prepare
from engine.errors import UserError
from tests.classify.archive_server import assert_same_files, no_network


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
    assert str(status) in str(error.value)
    assert f"put cifar-10-binary.tar.gz, or the folder {FOLDER} out of it, into {tmp_path}" in str(error.value)


def test_without_network_it_says_what_to_put_where(server, tmp_path):
    with pytest.raises(UserError, match=rf"could not be fetched \(.*refused.*put cifar-10-binary.tar.gz.*into {tmp_path}"):
        prepare(tmp_path, no_network(server.archive))


def test_half_an_archive_is_completed_or_named(server, whole, cifar10_dir, tmp_path, capsys):
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(whole[:4000])
    with pytest.raises(UserError, match=rf"could not be fetched.*the 4,000 bytes in {path}.part are kept.*or put cifar-10"):
        prepare(tmp_path, no_network(server.archive))
    assert "cifar-10-binary.tar.gz is not whole (4,000 of" in capsys.readouterr().err
    assert path.read_bytes() == whole[:4000]
    assert_same_files(prepare(tmp_path, server.archive), cifar10_dir)
    assert path.read_bytes() == whole
    assert server.asked == ["bytes=4000-"]


def test_what_is_no_part_of_the_archive_is_kept(server, whole, tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(b"z" * len(whole))
    with pytest.raises(UserError, match="cifar-10-binary.tar.gz: not the archive .* delete it"):
        prepare(tmp_path, server.archive)
    assert server.asked == []
    path.write_bytes(b"z" * 100)
    with pytest.raises(UserError, match="not the beginning of the archive; delete it, the whole one is ready in"):
        prepare(tmp_path, server.archive)
    assert path.read_bytes() == b"z" * 100
    path.unlink()
    prepare(tmp_path, server.archive)
    assert server.asked == ["bytes=100-", None]


@pytest.mark.parametrize("ranges", [True, False])
def test_the_sum_of_a_resumed_file_is_right(server, whole, tmp_path, ranges):
    server.ranges = ranges
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.with_name(path.name + ".part").write_bytes(whole[:7000])
    assert fetch(server.archive, path).read_bytes() == whole
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_range_refused_begins_anew(server, whole, cifar10_dir, tmp_path, capsys):
    part = tmp_path / "cifar-10-binary.tar.gz.part"
    part.write_bytes(whole[:100])

    def refuse_ranges(handler):
        server.answer = None
        handler.send_error(416)

    server.answer = refuse_ranges
    assert_same_files(prepare(tmp_path, server.archive), cifar10_dir)
    assert server.asked == ["bytes=100-", None]
    assert f"{part}: wrong size or checksum, thrown away and fetched once more" in capsys.readouterr().err


def test_more_than_the_archive_begins_anew(server, whole, cifar10_dir, tmp_path):
    (tmp_path / "cifar-10-binary.tar.gz.part").write_bytes(whole + b"more")
    assert_same_files(prepare(tmp_path, server.archive), cifar10_dir)
    assert server.asked == [None]


@pytest.mark.parametrize("have", [0, 100])
def test_another_file_of_the_server_is_named_and_a_beginning_kept(server, whole, tmp_path, have):
    server.content, server.ranges = b"<html>please log in</html>", False
    part = tmp_path / "cifar-10-binary.tar.gz.part"
    part.write_bytes(whole[:have])
    with pytest.raises(UserError, match=rf"sends 26 bytes, the archive has {len(whole):,} .*put cifar-10-binary.tar.gz"):
        prepare(tmp_path, server.archive)
    assert part.read_bytes() == whole[:have]


def test_an_endless_answer_fills_no_disk(server, whole, tmp_path):
    largest = []

    def send_endlessly(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b"x" * 65536)
            largest.extend(path.stat().st_size for path in tmp_path.glob("*.part"))

    server.handle_error = lambda *_: None  # the client hangs up, and that is no news
    server.answer = send_endlessly
    with pytest.raises(UserError, match="is not the archive"):
        prepare(tmp_path, server.archive)
    assert max(largest, default=0) <= len(whole)
    assert list(tmp_path.iterdir()) == []


def reset(handler):
    """Half an answer, then the connection is torn down (RST)."""
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(handler.server.content[:3000])
    time.sleep(0.05)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def break_chunks(handler):
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"2000\r\n" + handler.server.content[:3000])


def stall(handler):
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(handler.server.content[:3000])
    time.sleep(0.5)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(reset, "reset by peer"), (break_chunks, "IncompleteRead"), (stall, "timed out")],
    ids=["reset", "chunks", "stalled"],
)
def test_every_kind_of_break_keeps_what_came(server, whole, tmp_path, monkeypatch, answer, reason):
    monkeypatch.setattr(cifar10_download, "_TIMEOUT_SECS", 0.2)
    server.handle_error = lambda *_: None  # the closed connection is no news
    server.answer = answer
    path = tmp_path / "cifar-10-binary.tar.gz"
    with pytest.raises(UserError, match=rf"could not be fetched \(.*{reason}.*\); the same command goes on from there"):
        fetch(server.archive, path)
    assert path.with_name(path.name + ".part").read_bytes() == whole[:3000]
    server.answer = None
    assert fetch(server.archive, path).read_bytes() == whole
    assert server.asked == [None, "bytes=3000-"]


def test_what_speaks_no_http_is_one_line(server, tmp_path):
    server.answer = lambda handler: handler.wfile.write(b"SSH-2.0-none\r\n")
    with pytest.raises(UserError, match=r"could not be fetched \(SSH-2.0-none\); put") as error:
        prepare(tmp_path, server.archive)
    assert "\n" not in str(error.value)


def test_an_unknown_host_is_one_line(server, whole, tmp_path):
    archive = Archive("http://host.invalid/cifar-10-binary.tar.gz", len(whole), hashlib.md5(whole).hexdigest())
    with pytest.raises(UserError, match=r"http://host.invalid/.* could not be fetched \(.+\); put") as error:
        prepare(tmp_path, archive)
    assert "\n" not in str(error.value)


@pytest.fixture
def fresh_opener():
    """urllib reads the proxy variables once, at the first request of a process."""
    urllib.request.install_opener(None)
    yield
    urllib.request.install_opener(None)


@pytest.mark.usefixtures("fresh_opener")
def test_a_proxy_is_asked(server, whole, cifar10_dir, tmp_path, monkeypatch):
    monkeypatch.delenv("no_proxy")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", server.archive.url.rpartition("/")[0])
    archive = Archive("http://host.invalid/cifar-10-binary.tar.gz", len(whole), hashlib.md5(whole).hexdigest())
    assert_same_files(prepare(tmp_path, archive), cifar10_dir)
    assert server.asked == [None]


def test_several_at_once_fetch_it_once(server, cifar10_dir, tmp_path):
    workers = [threading.Thread(target=prepare, args=(tmp_path, server.archive)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert_same_files(tmp_path / FOLDER, cifar10_dir)
    assert server.asked == [None]


def test_the_official_archive():
    assert ARCHIVE.name == "cifar-10-binary.tar.gz"
    assert ARCHIVE.size == 170_052_171
    assert re.fullmatch("[0-9a-f]{32}", ARCHIVE.md5)
