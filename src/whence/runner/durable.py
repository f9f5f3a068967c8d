"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["publish", "replace_text", "sync_folder"]


def publish(temporary: Path, final: Path) -> None:
    """Give a file that was written and synced its name. The rename itself is synced too."""
    os.replace(temporary, final)
    sync_folder(final.parent)


def replace_text(path: Path, text: str) -> None:
    """Write a small file in place of the old one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        publish(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Make the names in a folder last. Windows has no way to do that, and needs none."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
