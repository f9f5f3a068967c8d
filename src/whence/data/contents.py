"""What files hold, block by block: every byte counts, and a change is named by where it is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from whence.data.remote import RemoteFile

__all__ = ["contents"]

BLOCK = 16 * 2**20
"""Bytes of a block; small files share one."""


def contents(paths: Sequence[Path | RemoteFile]) -> dict[str, Any]:
    """Number and size of the files, and a digest of each block of them, under the name and byte where it begins.

    Where the files are is not part of it: `./d.jsonl` holds what `d.jsonl` does.
    """
    blocks = dict(_blocks(paths))
    return {"files": len(paths), "bytes": sum(p.stat().st_size for p in paths), "blocks": blocks}


def _blocks(paths: Sequence[Path | RemoteFile]) -> Iterator[tuple[str, str]]:
    digest, held, begun = hashlib.blake2b(digest_size=16), 0, ""
    for number, path in enumerate(paths):
        at = 0
        with path.open("rb") as file:
            digest.update(b"\0%s\0" % os.fsencode(path.name))
            begun = begun or f"{number} {path.name} byte 0"
            while piece := file.read(BLOCK - held):
                begun = begun or f"{number} {path.name} byte {at}"
                digest.update(piece)
                at, held = at + len(piece), held + len(piece)
                if held == BLOCK:
                    yield begun, digest.hexdigest()
                    digest, held, begun = hashlib.blake2b(digest_size=16), 0, ""
    if begun:
        yield begun, digest.hexdigest()
