"""A trace as one HTML file: point at what was written, and the text before it shows where that came from."""

from __future__ import annotations

import base64
import html
from dataclasses import replace
from typing import Any

import numpy as np

from whence.results import Trace
from whence.results.explanation_files import to_wire
from whence.results.showing import draws
from whence.viz.cards import Card, cards, copies
from whence.viz.passages import Passage, named, others, passages, spoken
from whence.viz.report import SCRIPTS, document, shade
from whence.viz.tabular import Grid, latex
from whence.viz.traces import by_side, cell_score, heading, scale, score_of, sources
from whence.viz.verdicts import verdict

__all__ = ["data_of", "page", "steps_of", "table_of", "tex"]

LONGEST = 500
"""Rows up to which they stand in a table as well."""
FULL = 32767
"""Steps from zero to the largest score of a row."""
UNKNOWN = -32768
"""What stands for a score that is not finite."""


@draws(Trace, "html")
def page(trace: Trace) -> str:
    """Prompt and written text as they read; rows, spans of them and the reverse are chosen in the page."""
    title = spoken(trace)
    parts = [Card("What was written, and where it came from", (table_of(trace),))] if len(trace) <= LONGEST else []
    return document(
        title=title if len(title) <= 120 else title[:119] + "…",
        verdict=verdict(trace),
        body=f'<div id="whence-trace" class="w-trace"><noscript>{_still(trace)}</noscript></div>{cards(parts)}',
        data={**data_of(trace), "copies": copies(parts)},
        scripts=(*SCRIPTS, "maps.js", "rows.js", "trace.js", "tracing.js", "sorting.js"),
        styles=("trace.css",),
    )


def table_of(trace: Trace) -> Grid:
    """A row for all that was written: its score, and the strongest of what stood before it."""
    rows = [(str(n + 1), named(text), score_of(trace, n), sources(trace, n)) for n, text in enumerate(trace.written)]
    heads = ("#", "written", "score", "came from")
    return Grid.of("What was written", heads, rows, words=frozenset({1, 3}))


@draws(Trace, "tex")
def tex(trace: Trace) -> str:
    return latex(table_of(trace))


def data_of(trace: Trace) -> dict[str, Any]:
    """What the page needs to know, small: scores in steps of 1/32767 of each row's largest, two bytes each."""
    steps, sizes = steps_of(trace.scores)
    whole = to_wire(replace(trace.whole, image=None))
    kept = ("method", "options", "stamp", "target", "target_score", "left_out")
    return {
        "whole": {name: whole[name] for name in kept},
        "tokens": [trace.whole.feature(n) for n in range(len(trace.whole))],
        "scores": base64.b64encode(steps.astype("<i2").tobytes()).decode(),
        "steps": sizes,
        "places": [list(place) for place in trace.places],
        "target_scores": [_finite(score) for score in trace.target_scores],
        "receipts": [_receipt(receipt.to_dict()) for receipt in trace.receipts],
        "passages": [_passage(passage) for passage in passages(trace)],
        "others": [_other(trace, *one) for one in others(trace)],
    }


def steps_of(scores: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Rows in whole steps, and how large a step of each row is."""
    known = np.isfinite(scores)
    finite = np.where(known, scores, 0.0).astype(np.float64)
    largest = np.abs(finite).max(axis=1, initial=0.0)
    sizes = [float(f"{value / FULL:.9g}") for value in largest]
    steps = np.rint(finite / np.array([size or 1.0 for size in sizes])[:, None])
    return np.where(known, steps.clip(-FULL, FULL), UNKNOWN).astype(np.int16), sizes


def _finite(score: float) -> float | None:
    return float(score) if np.isfinite(score) else None


def _receipt(receipt: dict[str, Any]) -> dict[str, Any]:
    return {
        "inputs": _finite(receipt["inputs"]),
        "target": _finite(receipt["target"]),
        "sinks": {kind: _finite(amount) for kind, amount in receipt["sinks"].items()},
        "unruled": receipt["unruled"],
        "complete": receipt["complete"],
    }


def _passage(passage: Passage) -> dict[str, Any]:
    cells = [
        [cell.gap, cell.text, cell.start, cell.stop, -1 if cell.row is None else cell.row, int(cell.special)]
        for cell in passage.cells
    ]
    return {"name": passage.name, "quiet": passage.quiet, "cells": cells}


def _other(trace: Trace, name: str, own: slice, source: str) -> dict[str, Any]:
    """A picture with the column of each of its squares, where it can be drawn; else its columns alone."""
    whole = trace.whole
    numbers = np.arange(len(whole), dtype=np.float64).reshape(whole.scores.shape)
    alone = replace(whole, scores=numbers, conservation=None).only(source).laid_out()
    made: dict[str, Any] = {"name": name, "start": own.start, "stop": own.stop, "image": None, "squares": None}
    if alone.is_image:
        made |= {"image": to_wire(alone)["image"], "squares": alone.scores.astype(int).tolist()}
    return made


def _still(trace: Trace) -> str:
    """What is seen without JavaScript: all that was written, explained as one."""
    full, blocks = scale(trace), []
    for passage in passages(trace):
        spans = "".join(
            f'{html.escape(cell.gap)}<span class="w-t {shade(cell_score(cell, trace.whole.scores), full)}" '
            f'title="{cell_score(cell, trace.whole.scores):+.4g}">{html.escape(cell.text)}</span>'
            for cell in passage.cells
        )
        kind = " w-template" if passage.quiet else ""
        blocks.append(
            f'<div class="w-passage{kind}"><div class="w-who">{html.escape(passage.name)}</div>'
            f'<div class="w-text" dir="auto">{spans}</div></div>'
        )
    receipt = f'<p class="w-quiet">receipt: {html.escape(str(trace.whole.conservation))}</p>'
    return (
        f'<div class="w-card"><h2>{html.escape(heading(trace))}</h2>{"".join(blocks)}'
        f'<p class="w-quiet">{html.escape(by_side(trace))}</p>{receipt if trace.whole.conservation else ""}</div>'
    )
