"""What has been measured so far, a line of JSON per example and method, so that an interruption costs little."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whence.errors import InputError
from whence.files import append, write
from whence.results.measured import Measurement

__all__ = ["Measurements"]

Found = dict[str, Measurement]


class Measurements:
    """Lines are only ever appended; a torn last line (a crash while writing) is dropped.

    The first line holds the settings. Another evaluation can't go on with it: the error says what differs.
    """

    def __init__(self, path: str | Path | None, settings: Mapping[str, Any]):
        self.path = None if path is None else Path(path)
        self.settings = json.loads(json.dumps(settings, default=str, ensure_ascii=False))
        self.found: dict[tuple[int, str], Found] = {}
        if self.path is not None:
            self._open(self.path)

    def _open(self, path: Path) -> None:
        lines = _lines(path) if path.exists() else []
        if lines:
            self._check(lines[0], path)
            for row in lines[1:]:
                self.found[row["example"], row["method"]] = {k: _measurement(v) for k, v in row["metrics"].items()}
        # Written again without a torn line, all or nothing.
        first = {"settings": self.settings, "digest": _digest(self.settings)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, "".join(_dumped(row) for row in [first, *lines[1:]]))

    def _check(self, first: Mapping[str, Any], path: Path) -> None:
        if "settings" not in first:
            raise InputError(f"{str(path)!r} is no journal of an evaluation; pass another path as resume=")
        if first.get("digest") == _digest(self.settings):
            return
        changes = "\n".join(f"  {line}" for line in _differences(first["settings"], self.settings))
        raise InputError(
            f"{str(path)!r} belongs to an evaluation with other settings:\n{changes}\n"
            "Pass the same settings to go on with it, another path to begin anew, or delete the file."
        )

    def done(self, example: int, methods: Sequence[str]) -> bool:
        return all((example, method) in self.found for method in methods)

    def add(self, found: Mapping[tuple[int, str], Found]) -> None:
        """Keep what was measured, on disk before the next work begins."""
        self.found.update(found)
        if self.path is None:
            return
        lines = []
        for (example, method), held in found.items():
            row = {k: [list(m.numerators), list(m.denominators), list(m.curve)] for k, m in held.items()}
            lines.append(_dumped({"example": example, "method": method, "metrics": row}))
        append(self.path, "".join(lines))


def _dumped(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _measurement(parts: Sequence[Sequence[float]]) -> Measurement:
    return Measurement(*(tuple(part) for part in parts))


def _lines(path: Path) -> list[dict[str, Any]]:
    rows = []
    text = path.read_text(encoding="utf-8", errors="replace")
    for n, line in enumerate(text.splitlines(keepends=True)):
        try:
            if not line.endswith("\n"):
                break
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            if n == 0:
                raise InputError(
                    f"{str(path)!r} is no journal of an evaluation; pass another path as resume="
                ) from None
            break
    return rows


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _differences(before: Any, now: Any, where: str = "") -> list[str]:
    """Each setting that differs, with both values."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = list(dict.fromkeys([*before, *now]))
        return [line for k in keys for line in _differences(before.get(k), now.get(k), f"{where}.{k}" if where else k)]
    return [] if before == now else [f"{where}: {before!r} in the file, {now!r} now"]
