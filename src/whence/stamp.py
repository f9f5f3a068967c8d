"""What a result was made with: versions of everything that decides its numbers."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__", "versions"]

__version__ = "0.1.0"


def versions(*packages: str) -> dict[str, str]:
    """The versions of whence, torch and transformers, and of further packages.

    >>> sorted(versions())
    ['torch', 'transformers', 'whence']
    """
    return {"whence": __version__, **{name: _version(name) for name in ("torch", "transformers", *packages)}}


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder of sources
        return "unknown"
