"""The archive of CIFAR-10's binary version: fetched over HTTP, gone on with after a break, and checked."""

import contextlib
import hashlib
import http.client
import pathlib
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from engine.errors import UserError
from engine.files import writing
from engine.progress import progress, say

FOLDER = "cifar-10-batches-bin"
_CHUNK = 1 << 20
_MOST_AT_ONCE = 1 << 16
_TIMEOUT_SECS = 30.0
_GOES_ON = "the same command goes on from there"


@dataclass(frozen=True)
class Archive:
    """Where the archive is, and what makes it whole."""

    url: str
    size: int
    md5: str

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


ARCHIVE = Archive("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", 170052171, "c32a1d4ab5d03f1284b67883e8d87530")


def fetch(archive: Archive, path: pathlib.Path) -> pathlib.Path:
    """The whole archive at `path`: the one that is there, the rest of half a one, or a new one.

    Raises:
        UserError: it cannot be fetched, or what stands at `path` is another file; what to do is said.
    """
    if is_whole(path, archive):
        return path
    part = path.with_name(path.name + ".part")
    if path.is_file():
        _begin_with(path, part, archive)
    for outcome in ("thrown away and fetched once more", "thrown away"):
        _download(archive, part)
        if is_whole(part, archive):
            _put(part, path)
            return path
        say(f"{part}: wrong size or checksum, {outcome}")
        part.unlink(missing_ok=True)
    raise UserError(f"{archive.url}: what it sends is not the archive (its size or MD5 is wrong); {_by_hand(path.parent)}")


def is_whole(path: pathlib.Path, archive: Archive) -> bool:
    """Whether the file at `path` has the archive's size and MD5; False where there is none."""
    if not path.is_file() or path.stat().st_size != archive.size:
        return False
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == archive.md5


def _begin_with(half: pathlib.Path, part: pathlib.Path, archive: Archive) -> None:
    """Takes what somebody else's download left, unless our own is under way already."""
    size = half.stat().st_size
    if size >= archive.size:
        raise UserError(f"{half}: not the archive (its size or MD5 is wrong); delete it to have the right one fetched")
    say(f"{half} is not whole ({size:,} of {archive.size:,} bytes): the rest is fetched")
    if not part.exists():
        shutil.copyfile(half, part)


def _put(part: pathlib.Path, path: pathlib.Path) -> None:
    """Renames, over the beginning of the same file but over nothing else."""
    if path.is_file():
        with open(path, "rb") as old, open(part, "rb") as new:
            while chunk := old.read(_CHUNK):
                if chunk != new.read(len(chunk)):
                    raise UserError(f"{path}: not the beginning of the archive; delete it, the whole one is ready in {part}")
    part.replace(path)


def _download(archive: Archive, part: pathlib.Path) -> None:
    """Appends to `part` what is missing from it, or starts again where the server cannot do that."""
    have = part.stat().st_size if part.is_file() else 0
    if have >= archive.size:
        return
    response = _ask(archive, have, part)
    if response is None:
        return
    with response:
        declared = _declared_size(response)
        if declared not in (None, archive.size):
            raise UserError(
                f"{archive.url}: sends {declared:,} bytes, the archive has {archive.size:,} (a login page of the network?);"
                f" {_by_hand(part.parent)}"
            )
        _save(response, part, have if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0, archive)


def _ask(archive: Archive, have: int, part: pathlib.Path) -> http.client.HTTPResponse | None:
    """The answer of the server; None where it says that there is nothing behind the first `have` bytes."""
    request = urllib.request.Request(archive.url, headers={"Range": f"bytes={have}-"} if have else {})
    kept = f"the {have:,} bytes in {part} are kept for the next attempt; or " if have else ""
    with _network(archive, kept + _by_hand(part.parent)):
        try:
            return urllib.request.urlopen(request, timeout=_TIMEOUT_SECS)
        except urllib.error.HTTPError as error:
            if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
            return None


def _declared_size(response: http.client.HTTPResponse) -> int | None:
    """Size of the whole file, not of the rest that is sent; None where the server does not tell."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        size = response.headers.get("Content-Range", "").rpartition("/")[2]
    else:
        size = response.headers.get("Content-Length", "")
    return int(size) if size.isdecimal() else None


def _save(response: http.client.HTTPResponse, part: pathlib.Path, have: int, archive: Archive) -> None:
    bar = progress(None, f"fetching {archive.name}", total=archive.size, unit="B")
    with bar, writing(part), open(part, "ab" if have else "wb") as file:
        bar.update(have)
        for chunk in _chunks(response, archive.size - have, archive):
            have += file.write(chunk)
            bar.update(len(chunk))
    if have < archive.size:
        raise UserError(f"{archive.url}: the connection ended after {have:,} of {archive.size:,} bytes; {_GOES_ON}")


def _chunks(response: http.client.HTTPResponse, left: int, archive: Archive) -> Iterator[bytes]:
    """At most `left` bytes: what a server sends beyond the archive's size could fill a disk."""
    while left:
        # read1 returns what has come, so that a break loses none of it.
        with _network(archive, _GOES_ON):
            chunk = response.read1(min(_MOST_AT_ONCE, left))
        if not chunk:
            return
        left -= len(chunk)
        yield chunk


@contextlib.contextmanager
def _network(archive: Archive, remedy: str) -> Iterator[None]:
    """Turns a failure of the network into a `UserError` that ends with `remedy`."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if type(error) is urllib.error.URLError else error
        text = " ".join(str(reason).split()) or type(reason).__name__
        raise UserError(f"{archive.url} could not be fetched ({text}); {remedy}") from None


def _by_hand(folder: pathlib.Path) -> str:
    return f"put {ARCHIVE.name}, or the folder {FOLDER} out of it, into {folder}"
