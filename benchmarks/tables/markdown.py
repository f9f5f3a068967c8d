"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["interval", "table", "tidy"]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return [*(f"| {line} |" for line in lines), ""]


def interval(value: float, low: float, high: float, digits: str = ".3f", *, best: bool = False, note: str = "") -> str:
    """The value, bold where it is the best, with its interval in small print."""
    text = f"{value:{digits}}"
    return f"{f'**{text}**' if best else text} <sub>{low:{digits}}–{high:{digits}}{note}</sub>"


def tidy(rows: list[dict[str, Any]], better: dict[str, str] | None = None) -> list[str]:
    """Rows of an evaluation, one line per method, one column per metric; the best of each column is bold."""
    metrics = list(dict.fromkeys(r["metric"] for r in rows))
    found = {(r["method"], r["metric"]): r for r in rows}
    best = {}
    for metric in metrics:
        pick = min if (better or {}).get(metric) == "lower" else max
        best[metric] = pick(r["value"] for r in rows if r["metric"] == metric)
    arrows = [f"{m} {'↓' if (better or {}).get(m) == 'lower' else '↑'}" for m in metrics]

    def cell(method: str, metric: str) -> str:
        r = found.get((method, metric))
        return "" if r is None else interval(r["value"], r["low"], r["high"], best=r["value"] == best[metric])

    methods = dict.fromkeys(r["method"] for r in rows)
    return table(["method", *arrows], ([f"`{m}`", *(cell(m, metric) for metric in metrics)] for m in methods))
