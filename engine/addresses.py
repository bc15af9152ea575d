"""HOST:PORT of processes that work together: mistakes are named before anything waits for them."""

import re
import socket
from collections.abc import Sequence

from engine.errors import UserError


def check_addresses(hosts: Sequence[str], own: str, source: str) -> None:
    """Raises `UserError` naming the `source` for an address that cannot be, or that the process of `own` cannot listen on."""
    for host in hosts:
        if not re.fullmatch(r"(\[.+\]|[^:\s]+):\d{1,5}", host) or not 0 < int(host.rpartition(":")[2]) < 65536:
            raise UserError(f"{source}: {host!r} is not of the form HOST:PORT")
    if repeated := [host for host in hosts if hosts.count(host) > 1]:
        raise UserError(f"{source}: {repeated[0]} stands there twice")
    for host in hosts:
        try:
            socket.getaddrinfo(name_of(host), None)
        except OSError as error:
            raise UserError(f"{source}: {host}: {error.strerror or error}") from None
    _check_port(source, own)


def _check_port(source: str, host: str) -> None:
    """TensorFlow ends the whole process when it cannot have its port."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("", int(host.rpartition(":")[2])))
            listening.listen()
        except OSError as error:
            raise UserError(f"{source}: {host}: this process's port cannot be used ({error.strerror})") from None


def is_listening(host: str) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection((name_of(host), int(host.rpartition(":")[2])), timeout=5).close()
    except OSError:
        return False
    return True


def name_of(host: str) -> str:
    """HOST of HOST:PORT."""
    return host.rpartition(":")[0].strip("[]")
