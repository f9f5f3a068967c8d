"""One row of a run as an explanation, to draw or to save."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from whence import cancel
from whence.errors import InputError, WhenceError
from whence.extras import need_parquet
from whence.results import Conservation, Explanation, Prediction
from whence.runner.manifest import Journal, Manifest, folder_of

__all__ = ["damage", "explanation_of", "held", "looked_at", "opened", "record_of", "show", "tables"]


def looked_at(out: str | Path, *, whole: bool = False) -> tuple[Manifest, Journal]:
    """The manifest and journal of a run, damaged or not; with `whole`, its shards compared to the byte."""
    path = folder_of(out)
    manifest = Manifest.read(path) if path.is_dir() else None
    if manifest is None:
        raise InputError(f"{str(path)!r} holds no run: type  whence run DATA --model ID --out {path}")
    return manifest, Journal(path, whole=whole)


def opened(out: str | Path) -> tuple[Manifest, Journal]:
    """The manifest and journal of a run whose shards are all there. One that lacks some would be another run."""
    manifest, journal = looked_at(out)
    if wrong := damage(manifest, journal):
        raise WhenceError(wrong)
    return manifest, journal


def damage(manifest: Manifest, journal: Journal) -> str:
    """What is wrong with a run, and what to type; nothing if all is there."""
    name, reason = next(iter(journal.damaged.items()), ("", ""))
    if not reason and manifest.complete and journal.rows != manifest.rows:
        name, reason = journal.path.name, f"has {journal.rows} of {manifest.rows} rows"
    if not reason:
        return ""
    return (
        f"{name} of {str(journal.out)!r} {reason}. Type  whence verify {journal.out}  to see what else is not as it "
        "was written; the same whence run explains the rows again"
    )


def tables(out: str | Path, columns: list[str] | None = None) -> Iterator[Any]:
    """The output window by window, as pyarrow tables, in the order of the rows."""
    _, parquet = need_parquet()
    _, journal = opened(out)
    for _, report in sorted(journal.done.items()):
        with parquet.ParquetFile(journal.path_of(report)) as file:
            for group in range(file.num_row_groups):
                cancel.check()
                yield file.read_row_group(group, columns=columns)


def show(out: str | Path, row: int) -> Explanation:
    """The explanation of row number `row` of a run. Reads one window of one shard."""
    manifest, journal = looked_at(out)
    record = record_of(row, manifest, journal)
    if record is None and (wrong := damage(manifest, journal)):  # it may be among what is lost
        raise WhenceError(wrong)
    if record is None:
        raise InputError(f"row {row} is not in {str(out)!r}, which holds {held(manifest, journal)}")
    if record["error"] is not None:
        raise InputError(f"row {row} (id {record['id']}) could not be explained: {record['error']}")
    return explanation_of(record, manifest)


def held(manifest: Manifest, journal: Journal) -> str:
    """The rows of a run in words."""
    return f"rows 0 to {manifest.rows - 1}" if manifest.rows else f"{journal.rows} rows so far"


def record_of(row: int, manifest: Manifest, journal: Journal) -> dict[str, Any] | None:
    """A row of the output; None if it is not there."""
    report = journal.done.get(row // manifest.plan.rows_per_shard)
    if row < 0 or report is None or row >= report.start + report.rows:
        return None
    _, parquet = need_parquet()
    within = row - report.start
    with parquet.ParquetFile(journal.path_of(report)) as file:
        group = 0
        while within >= (size := file.metadata.row_group(group).num_rows):
            within -= size
            group += 1
        record: dict[str, Any] = file.read_row_group(group).slice(within, 1).to_pylist()[0]
    return record


def explanation_of(record: dict[str, Any], manifest: Manifest) -> Explanation:
    """A row of the output as an explanation."""
    scores = np.asarray(record["scores"], dtype=np.float32)
    tokens = tuple(record["tokens"] or ())
    words = tuple(record["word"] or ())
    method = dict(manifest.settings["method"])
    share = record["probability"]
    return Explanation(
        scores=scores.reshape(record["shape"]) if record["shape"] else scores,
        tokens=tokens,
        target=record["target"] or "",
        target_score=record["target_score"],
        method=method.pop("name"),
        options=method,
        prediction=Prediction(
            labels=(record["prediction"],) if record["prediction"] else (),
            probabilities=(share,) if share is not None else (),
        ),
        conservation=_receipt(record),
        text=record["text"],
        offsets=_offsets(record["text"], tokens, words),
        word_ids=words,
        special=tuple(w is None for w in words),
        stamp={**manifest.settings["model"], "row": record["row"], "id": record["id"]},
    )


def _receipt(record: dict[str, Any]) -> Conservation | None:
    if record["receipt_inputs"] is None:
        return None
    sinks = record["receipt_sinks"]
    return Conservation(
        inputs=record["receipt_inputs"],
        target=record["target_score"],
        sinks={s["kind"]: s["amount"] for s in sinks or ()},
        complete=sinks is not None,
    )


def _offsets(text: str | None, tokens: tuple[str, ...], words: tuple[int | None, ...]) -> tuple[tuple[int, int], ...]:
    """Where each token stands in the text. Tokens are pieces of it, in order, so they need not be stored."""
    if text is None or not words:
        return ()
    offsets, end = [], 0
    for token, word in zip(tokens, words, strict=True):
        start = -1 if word is None else text.find(token, end)
        if start < 0:
            offsets.append((0, 0))
        else:
            end = start + len(token)
            offsets.append((start, end))
    return tuple(offsets)
