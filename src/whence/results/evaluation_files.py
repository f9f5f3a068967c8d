"""Evaluations as tables: for people (text, Markdown, terminal, HTML) and for programs (JSON, CSV, Parquet)."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.errors import InputError
from whence.extras import need_parquet
from whence.results.measured import Axis, Measured
from whence.results.percents import percent
from whence.results.stored import spelled

if TYPE_CHECKING:
    from whence.results.evaluation import Evaluation

__all__ = [
    "TIED",
    "WON",
    "WRITERS",
    "from_dict",
    "grid",
    "heading",
    "markdown",
    "notes",
    "rich_table",
    "text",
    "to_dict",
]

FORMAT = 1
WON, TIED = " *", " ="
"""Behind the value of the best method: alone, or with all that can't be told from it."""


def shown(result: Evaluation) -> list[str]:
    """The metrics of the printed table; details (a colon in the name) are left to `.table()`."""
    return [metric for metric in result.metrics if ":" not in metric]


def grid(result: Evaluation) -> list[list[str]]:
    """Cells of the printed table: a row per method, a column per metric. A star has won, an = can't be told from it."""
    ahead = {metric: result.leaders(metric) for metric in shown(result) if result.better.get(metric)}
    rows = []
    for method in result.methods:
        cells = [method]
        for metric in shown(result):
            found = result.estimate(method, metric)
            leaders = ahead.get(metric, ()) if len(result.methods) > 1 else ()
            star = "" if method not in leaders else WON if len(leaders) == 1 else TIED
            missing = np.isnan(found.value)
            cells.append("–" if missing else f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}]{star}")
        rows.append(cells)
    return rows


def heading(result: Evaluation) -> list[str]:
    arrows = {"higher": " ↑", "lower": " ↓"}
    return ["method", *(metric + arrows.get(result.better.get(metric, ""), "") for metric in shown(result))]


def notes(result: Evaluation) -> list[str]:
    """What the numbers depend on."""
    settings = result.settings
    first = f"{settings.get('model', 'model')}, {len(result)} examples"
    sure = f"[{percent(0.95)} bootstrap interval over examples, {result.resamples} resamples]"
    lines = [f"{first}; {sure}; * best, = can't be told from the best"]
    return lines + [f"{metric}: {result.describe(metric)}" for metric in shown(result)]


def text(result: Evaluation) -> str:
    rows = [heading(result), *grid(result)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", *notes(result)])


def markdown(result: Evaluation) -> str:
    rows = [heading(result), ["---"] * (1 + len(shown(result))), *grid(result)]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes(result)), ""])


def rich_table(result: Evaluation) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for n, name in enumerate(heading(result)):
        table.add_column(name, no_wrap=True, style="bold" if n == 0 else None)
    for row in grid(result):
        table.add_row(*(Text(cell, style="bold green" if cell.endswith("*") else "") for cell in row))
    return Group(table, *(Text(note, style="dim") for note in notes(result)))


def to_dict(result: Evaluation) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "methods": list(result.methods),
        "metrics": list(result.metrics),
        "better": dict(result.better),
        "axes": {k: [list(a.points), a.x, a.y] for k, a in result.axes.items()},
        "settings": dict(result.settings),
        "inputs": list(result.inputs),
        "seed": result.seed,
        "resamples": result.resamples,
        "table": result.table(),
        "measured": [
            {
                "method": method,
                "metric": metric,
                "numerators": held.numerators.tolist(),
                "denominators": held.denominators.tolist(),
                "curves": None if held.curves is None else held.curves.tolist(),
            }
            for (method, metric), held in result.measured.items()
        ],
    }


def from_dict(cls: type[Evaluation], data: dict[str, Any]) -> Evaluation:
    if data.get("format") != FORMAT or "measured" not in data:
        raise InputError(f"this is no evaluation of format {FORMAT}: write one with Evaluation.save('x.json')")
    measured = {
        (row["method"], row["metric"]): Measured(
            np.array(row["numerators"]),
            np.array(row["denominators"]),
            None if row["curves"] is None else np.array(row["curves"]),
        )
        for row in data["measured"]
    }
    return cls(
        methods=tuple(data["methods"]),
        metrics=tuple(data["metrics"]),
        measured=measured,
        better=data["better"],
        axes={k: Axis(tuple(p), x, y) for k, (p, x, y) in data["axes"].items()},
        settings=data["settings"],
        inputs=tuple(data["inputs"]),
        seed=data["seed"],
        resamples=data["resamples"],
    )


def _csv(result: Evaluation) -> str:
    rows, out = result.table(), io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _parquet(result: Evaluation) -> bytes:
    arrow, parquet = need_parquet("writing .parquet")
    sink = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(result.table()), sink)
    return sink.getvalue()


WRITERS: dict[str, Any] = {
    ".json": lambda result: spelled(to_dict(result)),
    ".csv": _csv,
    ".md": markdown,
    ".txt": lambda result: text(result) + "\n",
    ".parquet": _parquet,
}
