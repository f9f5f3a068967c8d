"""The hub of models, and whether it can be reached: where it can't, its library asks again for minutes."""

from __future__ import annotations

import os
import socket
import threading
import urllib.request
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

__all__ = ["answers", "at_once", "kept_alone", "why_not"]

Load = TypeVar("Load", bound=Callable[..., Any])
PATIENCE = 3.0
"""Seconds to wait for a connection."""


def answers() -> bool:
    """Whether a connection to the hub can be opened. Behind a proxy nobody knows: the hub's library finds out."""
    from huggingface_hub import constants

    address = urlsplit(constants.ENDPOINT)
    proxies = urllib.request.getproxies()
    if proxies.get(address.scheme) or proxies.get("all"):
        return True
    try:
        port = address.port or (443 if address.scheme == "https" else 80)
        with socket.create_connection((address.hostname or "", port), timeout=PATIENCE):
            return True
    except OSError:
        return False


class _Silence:
    """The hub's library told to ask nobody: one setting for all threads, as long as any of them needs it."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0

    def __enter__(self) -> None:
        self._count(1)

    def __exit__(self, *error: object) -> None:
        self._count(-1)

    def _count(self, more: int) -> None:
        from huggingface_hub import constants

        with self.lock:
            self.users += more
            constants.HF_HUB_OFFLINE = self.users > 0


_silence = _Silence()


@contextmanager
def kept_alone() -> Iterator[None]:
    """Inside, what this machine has kept of the hub is found at once, and what it has not is missed at once.

    Nothing changes where the hub answers.
    """
    from huggingface_hub import constants

    with _silence.lock:
        known = _silence.users > 0  # another thread has asked
        chosen = constants.HF_HUB_OFFLINE and not known
    if chosen or (not known and answers()):
        yield
        return
    with _silence:
        yield


def at_once(bundled: Container[str]) -> Callable[[Load], Load]:
    """A function that loads by name, which does not wait for a hub that can't be reached.

    Names that are `bundled` or lie on this machine ask nobody.
    """

    def enter(load: Load) -> Load:
        @wraps(load)
        def loaded(name: str, *args: Any) -> Any:
            is_here = name in bundled or Path(name).expanduser().exists()
            with nullcontext() if is_here else kept_alone():
                return load(name, *args)

        return cast(Load, loaded)

    return enter


def why_not() -> str:
    """Why the hub is not asked, in brackets; nothing where it is."""
    from huggingface_hub import constants

    if os.environ.get("HF_HUB_OFFLINE"):
        return " (offline mode is on)"
    return " (the hub can't be reached from here)" if constants.HF_HUB_OFFLINE else ""
