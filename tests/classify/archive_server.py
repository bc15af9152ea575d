"""Archives made for a test, and a server on this machine that sends one well or badly."""

import contextlib
import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Iterator

from classify.cifar10_download import Archive
from classify.cifar10_files import FOLDER, SPLITS

NAMES = [name for names in SPLITS.values() for name in names]


def tar_bytes(members):
    """An archive of (name, content) or ready-made TarInfo entries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the server's `content`; honours Range when `ranges`; breaks off after `cut` bytes while there is one.

    `answer` of the server, a function of the handler, does something else instead.
    """

    def do_GET(self):
        server = self.server
        content, start = server.content, 0
        asked = self.headers.get("Range")
        server.asked.append(asked)
        if server.answer:
            server.answer(self)
            return
        if server.status != 200:
            self.send_error(server.status)
            return
        if asked and server.ranges:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        part = content[start : start + server.cut.pop(0)] if server.cut else content[start:]
        self.wfile.write(part)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(content: bytes) -> Iterator[http.server.ThreadingHTTPServer]:
    """A server whose `archive` is `content`; what it does with it is set on the server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.content, server.ranges, server.cut, server.status, server.asked = content, True, [], 200, []
        server.answer = None
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/cifar-10-binary.tar.gz"
        server.archive = Archive(url, len(content), hashlib.md5(content).hexdigest())
        yield server
        server.shutdown()


def no_network(archive):
    return Archive("http://127.0.0.1:9/cifar-10-binary.tar.gz", archive.size, archive.md5)


def assert_same_files(folder, cifar10_dir):
    assert {path.name for path in folder.iterdir()} == set(NAMES)
    for name in NAMES:
        assert (folder / name).read_bytes() == (cifar10_dir / FOLDER / name).read_bytes()
