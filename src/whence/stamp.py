"""What a result was made with: versions of everything that decides its numbers."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["TESTED", "__version__", "untested", "versions"]

__version__ = "0.1.0"
TESTED = {"torch": ("2.11", "2.13"), "transformers": ("5.17", "5.22")}
"""First and last versions that whence was tested with. No ceiling for pip: it would replace a torch of several GB that
somebody has, or refuse to install beside it, where most often all is well. A sentence says so instead."""


def versions(*packages: str) -> dict[str, str]:
    """The versions of whence, torch and transformers, and of further packages.

    >>> sorted(versions())
    ['torch', 'transformers', 'whence']
    """
    return {"whence": __version__, **{name: _version(name) for name in ("torch", "transformers", *packages)}}


def untested(found: dict[str, str] | None = None) -> str | None:
    """What to say of versions that whence was not tested with; None if it was.

    >>> untested({"torch": "2.14.0+cpu", "transformers": "5.20.1"}).partition(": ")[0]
    'whence 0.1.0 was tested with torch 2.11 to 2.13, and this is 2.14.0+cpu'
    """
    found = {name: _version(name) for name in TESTED} if found is None else found
    other = [
        f"{name} {first} to {last}, and this is {found[name]}"
        for name, (first, last) in TESTED.items()
        if found[name] != "unknown" and not _minor(first) <= _minor(found[name]) <= _minor(last)
    ]
    said = f"whence {__version__} was tested with {'; with '.join(other)}"
    return f"{said}: whence audit MODEL shows whether accounts close" if other else None


def _minor(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder of sources
        return "unknown"
