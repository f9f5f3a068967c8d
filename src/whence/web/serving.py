"""Run the application until Ctrl-C."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from whence.errors import InputError
from whence.web.connections import Connection
from whence.web.settings import Limits

__all__ = ["address", "bound", "is_loopback", "names", "serve"]

ALL = ("0.0.0.0", "::")
"""Every address of this machine."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names(host: str, further: Sequence[str] = ()) -> tuple[str, ...]:
    """What requests may call a server by that listens at `host`: an address for all has the machine's own name."""
    for name in further:
        if re.search(r"[/\[\]]|^[^:]*:[^:]*$", name):  # IPv6 has two colons or more
            bare = re.sub(r"^\w+://|/.*|[\[\]]|:\d*(?=/|$)", "", name)
            raise InputError(f"{name!r} is more than a name, and has to be without a port: type  --allow-host {bare}")
    own = socket.gethostname() if host in ALL else host
    return tuple(dict.fromkeys(("localhost", "127.0.0.1", "::1", own, *further)))


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # unnamed, asyncio leaves Nagle's delay on
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is in use: type  whence serve --port {port + 1}") from None
        if error.errno == errno.EACCES:
            raise InputError(f"port {port} needs rights that you lack: type  whence serve --port 8000") from None
        raise InputError(f"can't listen at {host!r}: {error}. Type  whence serve --host 127.0.0.1") from None
    return opened


def address(opened: socket.socket, name: str = "localhost") -> str:
    """What to type into a browser; a server that listens at every address of the machine goes by `name`."""
    host, port = opened.getsockname()[:2]
    if host in ALL:
        host = name
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Cancels what runs as soon as it is told to end, so that nobody waits for an explanation that nobody reads."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None], ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop, self._ready = stop, ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stop()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def serve(app: FastAPI, opened: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serve at a listening socket until interrupted. `ready` is called once requests are answered."""
    limits: Limits = app.state.limits
    config = uvicorn.Config(
        app,
        http=partial(Connection, limits=limits),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        lifespan="on",
    )
    try:
        _Server(config, app.state.stop, ready).run(sockets=[opened])
    except KeyboardInterrupt:  # uvicorn ends cleanly, then repeats the signal
        pass
    finally:
        opened.close()
