"""Finished runs, page by page. Shards are read window by window; a run is never in memory whole."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from whence import cancel
from whence.errors import UnknownNameError, WhenceError
from whence.extras import need_parquet
from whence.results.explanation_files import to_wire
from whence.runner.manifest import Journal, Manifest, ShardReport
from whence.runner.show import damage, explanation_of, held, looked_at, opened, record_of
from whence.runner.summary import summary
from whence.web.refusals import ApiError

__all__ = ["Runs", "Wanted"]

log = logging.getLogger("whence.web")

COLUMNS = ["row", "id", "text", "prediction", "target", "error"]
SEARCHED = [*COLUMNS, "probability"]
SHOWN = 300
"""Characters of a text in a list."""


class Runs:
    """The runs given at start, by the name of their folder."""

    def __init__(self, folders: tuple[str | Path, ...]) -> None:
        self._folders: dict[str, Path] = {}
        for folder in folders:
            path = Path(folder).expanduser().resolve()
            looked_at(path)  # says what to type if there is no run
            name, n = path.name, 2
            while name in self._folders:
                name, n = f"{path.name}-{n}", n + 1
            self._folders[name] = path
        if folders:
            need_parquet()
        self._summaries: dict[str, tuple[int, dict[str, Any]]] = {}

    def names(self) -> list[str]:
        return list(self._folders)

    def list(self) -> list[dict[str, Any]]:
        """The answer of /api/runs."""
        return [self._entry(name) for name in self._folders]

    def _entry(self, name: str) -> dict[str, Any]:
        try:
            manifest, journal = self._looked_at(name)
        except ApiError:  # its manifest can't be read: the others can
            nothing = {"rows": 0, "failed": 0, "complete": False, "damaged": True, "labelled": False}
            return {"name": name, **nothing, "method": "", "model": ""}
        return {
            "name": name,
            "rows": journal.rows,
            "failed": journal.failed,
            "complete": manifest.complete,
            "damaged": bool(damage(manifest, journal)),
            "labelled": bool((manifest.settings.get("columns") or {}).get("target")),
            "method": str(manifest.settings["method"].get("name", "")),
            "model": _without_path(str(manifest.settings["model"].get("model", ""))),
        }

    def rows(self, name: str, offset: int, limit: int, wanted: Wanted) -> dict[str, Any]:
        """Rows from `offset` on that are wanted, and how many there are."""
        manifest, journal = self._opened(name)
        reports = [report for _, report in sorted(journal.done.items())]
        with _reading(name):
            if not wanted.some and wanted.order == "row":
                return {"total": journal.rows, "rows": _paged(manifest, journal, reports, offset, limit)}
            found = _searched(journal, reports, wanted)
            numbers = [row for _, row in found[offset : offset + limit]]
            records = [record_of(row, manifest, journal) for row in numbers]
            return {"total": len(found), "rows": [_listed(r, manifest) for r in records if r is not None]}

    def row(self, name: str, index: int) -> dict[str, Any]:
        """One row as an explanation."""
        manifest, journal = self._looked_at(name)
        with _reading(name):
            record = record_of(index, manifest, journal)
        if record is None:
            if damage(manifest, journal):  # it may be among what was lost
                raise _damaged(name)
            message = f"There is no row {index}: the run holds {held(manifest, journal)}."
            raise ApiError(404, "unknown_row", message, "See rows.")
        if record["error"] is not None:
            message = f"Row {index} (id {record['id']}) could not be explained: {record['error']}"
            raise ApiError(422, "row_failed", message, "Choose another row.")
        wire = to_wire(explanation_of(record, manifest))
        wire["stamp"]["model"] = _without_path(str(wire["stamp"].get("model", "")))
        return wire

    def summary(self, name: str) -> dict[str, Any]:
        """The global picture; read once, and again after the run has grown."""
        path = self._folder(name)
        size = self._opened(name)[1].rows
        if name not in self._summaries or self._summaries[name][0] != size:
            with _reading(name):
                self._summaries[name] = (size, _summed(name, path))
        return self._summaries[name][1]

    def _folder(self, name: str) -> Path:
        if name not in self._folders:
            message, _, known = str(UnknownNameError("run", name, self._folders)).partition(" Known: ")
            hint = f"Known: {known}" if known else "Start the server with --run FOLDER."
            raise ApiError(404, "unknown_run", message[:300], hint[:500])
        return self._folders[name]

    def _opened(self, name: str) -> tuple[Manifest, Journal]:
        path = self._folder(name)
        with _reading(name):
            return opened(path)

    def _looked_at(self, name: str) -> tuple[Manifest, Journal]:
        """The same of a run that may lack some rows."""
        path = self._folder(name)
        with _reading(name):
            return looked_at(path)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """What the library says of damaged files is for this machine: it has paths, and what to type."""
    try:
        yield
    except WhenceError as error:
        log.error("run %r: %s", name, error)
        raise _damaged(name) from None


def _damaged(name: str) -> ApiError:
    message = f"The run {name!r} is damaged: its files are not as they were written."
    return ApiError(500, "damaged_run", message, "Where the server runs, type  whence verify FOLDER.")


def _without_path(model: str) -> str:
    """The name of a model; of a folder on this machine, only its own name."""
    return Path(model).name if model.startswith(("/", "~", ".")) else model


def _summed(name: str, path: Path) -> dict[str, Any]:
    found = asdict(summary(path))
    del found["out"]

    def words(influences: Any) -> Any:
        return [{"word": w, "times": t, "mean": m} for w, t, m in influences]

    return found | {
        "name": name,
        "words": words(found["words"]),
        "by_class": {k: words(v) for k, v in found["by_class"].items()},
        "slowest": [{"row": r, "seconds": s, "tokens": t} for r, s, t in found["slowest"]],
        "failures": [{"row": r, "id": i, "error": e} for r, i, e in found["failures"]],
    }


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which rows of a run, and in which order."""

    query: str = ""
    """In the text, id, prediction or target."""
    failed: bool | None = None
    label: str = ""
    """What was predicted."""
    wrong: bool | None = None
    """Whether the prediction is another than the target, which is the truth where the run was told it."""
    least: float = 0.0
    """Probability of the prediction."""
    order: str = "row"

    @property
    def some(self) -> bool:
        return bool(self.query or self.label or self.least) or self.failed is not None or self.wrong is not None

    def place(self, record: dict[str, Any]) -> float:
        """What rows are sorted by: surest first, least sure first, or as in the data. Those without a probability come
        last."""
        sign = {"sure": -1, "unsure": 1}.get(self.order, 0)
        share = record["probability"]
        if not sign:
            return 0.0
        return sign * share if share is not None and math.isfinite(share) else math.inf

    def takes(self, record: dict[str, Any]) -> bool:
        if self.failed is not None and (record["error"] is not None) != self.failed:
            return False
        if self.label and record["prediction"] != self.label:
            return False
        if self.wrong is not None and (record["error"] is not None or self.wrong != _is_wrong(record)):
            return False
        if self.least and not (record["probability"] is not None and record["probability"] >= self.least):
            return False
        query = self.query.casefold()
        return not query or any(
            query in str(record[k] or "").casefold() for k in ("text", "id", "prediction", "target")
        )


def _is_wrong(record: dict[str, Any]) -> bool:
    return bool(record["prediction"] != record["target"])


def _groups(journal: Journal, report: ShardReport, columns: Any) -> Iterator[tuple[int, Any]]:
    """Windows of a shard: their size, and a function that reads them."""
    _, parquet = need_parquet()
    with parquet.ParquetFile(journal.path_of(report)) as file:
        for group in range(file.num_row_groups):
            cancel.check()
            yield file.metadata.row_group(group).num_rows, lambda g=group: file.read_row_group(g, columns=columns)


def _paged(
    manifest: Manifest, journal: Journal, reports: list[ShardReport], offset: int, limit: int
) -> list[dict[str, Any]]:
    """Rows `offset` to `offset + limit` of those done: only the windows that hold them are read."""
    page: list[dict[str, Any]] = []
    for report in reports:
        if offset >= report.rows:
            offset -= report.rows
            continue
        for size, read in _groups(journal, report, None):
            if offset < size:
                page += [_listed(r, manifest) for r in read().slice(offset, limit - len(page)).to_pylist()]
            offset = max(0, offset - size)
            if len(page) >= limit:
                return page
    return page


def _searched(journal: Journal, reports: list[ShardReport], wanted: Wanted) -> list[tuple[float, int]]:
    """Places of all rows that are wanted, in order; shards without a failed row are passed over when only these are."""
    found: list[tuple[float, int]] = []
    for report in reports:
        if wanted.failed and not report.failed:
            continue
        for _, read in _groups(journal, report, SEARCHED):
            for record in read().to_pylist():
                if wanted.takes(record):
                    found.append((wanted.place(record), record["row"]))
    return sorted(found)


def _listed(record: dict[str, Any], manifest: Manifest) -> dict[str, Any]:
    text = record["text"]
    shown = text if text is None or len(text) <= SHOWN else text[: SHOWN - 1] + "…"
    row = {**{k: record[k] for k in COLUMNS}, "id": str(record["id"]), "text": shown}
    share = record["probability"]
    finite = share is not None and math.isfinite(share)
    return row | {"probability": share if finite else None, "pieces": _pieces(record, manifest)}


def _pieces(record: dict[str, Any], manifest: Manifest) -> list[dict[str, Any]]:
    """The beginning of the text in words with their scores; nothing where there is no text."""
    if record["error"] is not None or record["text"] is None or not record["tokens"] or not record["word"]:
        return []
    exp = explanation_of(record, manifest)
    made, end = [], 0
    for word in exp.words():
        spans = [exp.offsets[i] for i in word.tokens]
        start, stop = spans[0][0], spans[-1][1]
        if stop <= start or start < end:
            continue  # a special token
        if stop > SHOWN:
            break
        score = float(word.score) if math.isfinite(word.score) else None
        made.append({"gap": record["text"][end:start], "text": record["text"][start:stop], "score": score})
        end = stop
    return made
