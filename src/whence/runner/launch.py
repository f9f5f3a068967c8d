"""`whence.run`: explain a data set, or go on with explaining it."""

from __future__ import annotations

import errno
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from whence.core.recipe import Recipe
from whence.data import AbstractDataset, open_dataset
from whence.data.remote import is_remote, shown_address
from whence.data.rows import Columns, Row, rows
from whence.errors import InputError, UnknownNameError, WhenceError
from whence.extras import need_parquet
from whence.methods.explaining import as_method
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.embedding import Embeds
from whence.models.generating import Generate, checked_generate
from whence.models.loading import load
from whence.models.targets import AbstractTarget, Custom
from whence.options import Above, Count, Least, check
from whence.runner.attempts import note_of, notes
from whence.runner.encoding import Encoder
from whence.runner.local import LocalExecutor
from whence.runner.manifest import SHOWN, Journal, Manifest, ShardReport, folder_of, locked
from whence.runner.meter import Meter, duration, speaker
from whence.runner.plan import Plan, Shard, cut, difference, digest_of, stamp, weights_digests
from whence.runner.preflight import SAMPLE, Forecast, forecast, suggested
from whence.runner.ray_executor import RayExecutor
from whence.runner.shards import leftovers
from whence.runner.window import check_kind
from whence.runner.work import Job
from whence.viz.terminal import printable

__all__ = ["EXECUTORS", "Run", "run"]

EXECUTORS: dict[str, Any] = {"local": LocalExecutor, "ray": RayExecutor}
LONG = 4
"""Windows of rows from which a process for tokenising pays: it takes seconds to start."""
PATIENCE = 60.0
"""Seconds for which a network file system may keep another machine's file from us: as long as it may remember names."""
FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True)
class Run:
    """How a run ended. After a dry run nothing was explained and `estimate` says what it would take."""

    out: Path
    rows: int = 0
    """Rows in the output, those of earlier runs included."""
    failed: int = 0
    shards: int = 0
    seconds: float = 0.0
    """Time of this call."""
    fresh: int = 0
    """Rows that this call explained."""
    complete: bool = False
    estimate: Forecast | None = None

    @property
    def rows_per_second(self) -> float:
        return self.fresh / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        if self.estimate is not None:
            return str(self.estimate)
        failed = f", {self.failed} of them failed" if self.failed else ""
        why = f"\nwhence summary {self.out}  says why rows failed" if self.failed else ""
        new = f"{self.fresh} now, in {duration(self.seconds)}, {self.rows_per_second:.1f} rows/s"
        return f"{self.rows} rows in {self.shards} shards under {self.out}{failed} ({new}){why}"


def run(
    data: Any,
    *,
    model: Any,
    out: str | Path,
    method: str | AbstractMethod | Recipe = "lrp",
    text: str = "text",
    text_pair: str | None = None,
    id_column: str | None = None,
    target: Any = None,
    target_column: str | None = None,
    executor: str = "local",
    workers: int | None = None,
    worker_cpus: float | None = None,
    worker_gpus: float | None = None,
    rows_per_shard: int | None = None,
    batch_tokens: int | None = None,
    scores: str = "float32",
    special_tokens: bool = True,
    truncate: bool = False,
    generate: Generate | None = None,
    split: str = "train",
    subset: str | None = None,
    limit: int | None = None,
    strict: bool = False,
    dry_run: bool = False,
    model_options: dict[str, Any] | None = None,
    progress: bool | Callable[[int, int | None, float], Any] | None = None,
    **options: Any,
) -> Run:
    """Explain a data set and write Parquet shards to `out`. The same call again goes on where it stopped.

    Arguments:
        data: a Parquet, JSON Lines, CSV, TSV or text file, a folder or pattern of such files, here or elsewhere
            (`s3://bucket/reviews/*.parquet`), a folder of images, a hub data set, a frame or a column (pandas, polars,
            pyarrow), or an iterable of texts, pairs or dicts.
        model: a name to load, `(module, tokenizer)`, or a loaded model. Several processes need a name, or a model that
            can be pickled.
        out: the folder for shards and manifest.
        method: as in `explain`, with its `options`.
        text: the column that is explained; with `text_pair` a second one beside it, which a reranker reads with it and
            to which an embedding is compared.
        id_column: names the rows; default their numbers.
        target: as in `explain`; `target_column` has one for each row (for an embedding, a text: see `similar_to`).
        executor: "local" (all devices of this machine) or "ray" (a cluster).
        workers: processes; default one for each device. A small model leaves a GPU waiting for Python: three may share
            one.
        worker_cpus, worker_gpus: what a worker on Ray takes of the cluster, also a part of one. Default: as many CPUs
            as torch has threads here, or one GPU if the model is on one here. `worker_gpus=1` is for a cluster whose
            GPUs are elsewhere.
        rows_per_shard, batch_tokens: found by measuring a sample if not given, and kept when the run goes on.
        scores: type of the scores in the output, "float32" or "float16".
        special_tokens, truncate, generate: as in `explain`.
        split, subset: of a hub data set.
        limit: only the first rows.
        strict: stop at the first row that can't be explained, which is otherwise recorded with its error.
        dry_run: explain a sample only, and estimate time, memory and size.
        model_options: options of `whence.load`, for a model given by name.
        progress: True, False, None (a bar for people) or a function of (rows done, all rows, rows per second).
    """
    check_kind(scores)
    if executor not in EXECUTORS:
        raise UnknownNameError("executor", executor, EXECUTORS)
    need_parquet()
    out = folder_of(out)
    check("workers", workers, Count | None, "run")
    check("worker_cpus", worker_cpus, Annotated[float, Above(0)] | None, "run")
    check("worker_gpus", worker_gpus, Annotated[float, Least(0)] | None, "run")
    if executor != "ray" and not worker_cpus is worker_gpus is None:
        raise InputError("worker_cpus and worker_gpus are for executor='ray': leave them out, or pass it")
    check("rows_per_shard", rows_per_shard, Count | None, "run")
    check("batch_tokens", batch_tokens, Count | None, "run")
    check("limit", limit, Count | None, "run")
    say = speaker(progress)
    say(f"opening {_called(data)}")
    source = open_dataset(
        data, split=split, subset=subset, wanted=[c for c in (text, text_pair, id_column, target_column) if c]
    )
    say(f"loading {_called(model)}")
    adapter = load(model, **(model_options or {})) if isinstance(model, str | Path) else load(model)
    chosen = as_method(method, **options)
    columns = _columns(source, Columns(text, text_pair, id_column, target_column), adapter)
    source = source.only(columns.named())
    _refuse_within(out, data, source)
    if isinstance(adapter, Embeds) and columns.target is None and target is None:
        if columns.pair is None:
            raise InputError(
                "an embedding has no answer of its own: say which column it is compared with, text_pair='…' "
                "(--text-pair), or one text for all rows, target=whence.similar_to('…')"
            )
        columns = replace(columns, pair=None, target=columns.pair)  # each text by itself, compared with the other
    written = checked_generate(generate)
    encoding = {"truncate": truncate, **({"generate": written} if written is not None else {})}
    if isinstance(target, list | tuple):
        raise InputError("one target for each row stands in a column: pass target_column='…'")
    say(f"digests of data and weights, on {adapter.device}")
    weights = weights_digests(adapter)
    settings = {
        "data": source.fingerprint(),
        "columns": vars(columns),
        "limit": limit,
        "model": {**stamp(adapter, weights), **({"device": "cuda"} if worker_gpus else {})},
        "weights": weights,
        "method": _plain({"name": method if isinstance(method, str) else chosen.name, **chosen.options()}),
        "target": _target_name(target),
        "encoding": {**encoding, "special_tokens": special_tokens},
        "scores": scores,
    }
    job = Job(
        model=str(model) if isinstance(model, str | Path) else adapter,
        method=chosen,
        plan=Plan(0, 0, 0, 0),
        out=out,
        target=target,
        model_options=model_options or {},
        encoding=encoding,
        special_tokens=special_tokens,
        strict=strict,
        weights=weights,
        token=uuid4().hex,
    )
    given = {"rows_per_shard": rows_per_shard, "batch_tokens": batch_tokens}
    manifest = _checked(out, settings, given)
    sample = _sample(source, columns, limit)
    if not sample:
        raise InputError(f"{source.name!r} holds no rows")
    if manifest is None:
        if batch_tokens is None or rows_per_shard is None:
            say(f"measuring {len(sample)} rows: how many tokens make a good batch?")
        encoded = Encoder(adapter, encoding)(sample)
        plan = suggested(
            adapter, chosen, encoded, batch_tokens=batch_tokens, rows_per_shard=rows_per_shard, scores=scores
        )
        manifest = Manifest(settings, plan, {"begun": _now()})
    job = replace(job, plan=manifest.plan)
    count = source.count()
    total = count if limit is None else min(limit, count) if count is not None else None
    plan, many = manifest.plan, "rows" if total is None else f"{total:,} rows"
    say(f"explaining {many}, {plan.batch_tokens:,} tokens a batch, {plan.rows_per_shard:,} rows a shard")
    if dry_run:
        return Run(out, estimate=forecast(job, adapter, sample, total))
    launch = _Launch(job, adapter, source, columns, limit, total, manifest, given)
    takes = {"cpus": worker_cpus, "gpus": worker_gpus} if executor == "ray" else {}
    return launch.go(EXECUTORS[executor](workers, **takes), progress)


def _called(thing: Any) -> str:
    """A name as it was typed, without what may be secret in an address; a type where there is none."""
    if not isinstance(thing, str | Path):
        return f"a {type(thing).__name__}"
    return shown_address(str(thing)) if is_remote(str(thing)) else str(thing)


def _refuse_within(out: Path, data: Any, source: AbstractDataset) -> None:
    """Shards stand among no data, whose next run would take them for some."""
    here = out.resolve()
    folders = {path.parent for path in getattr(source, "paths", ()) if isinstance(path, Path)}
    folders |= {Path(data).expanduser()} if isinstance(data, str | Path) and Path(data).expanduser().is_dir() else set()
    if here in {folder.resolve() for folder in folders}:
        raise InputError(
            f"--out {str(out)!r} is the folder of the data, and shards would stand among it: choose another, such as "
            f"{str(out / 'explained')!r}"
        )


def _columns(source: AbstractDataset, columns: Columns, adapter: AbstractAdapter) -> Columns:
    """The columns, checked against those of the data."""
    known = source.columns()
    if adapter.kind == "image" and columns.text == "text" and "text" not in known:
        columns = replace(columns, text=next((c for c in ("path", "image", "img") if c in known), "text"))
    for name, option in ((columns.text, "text"), (columns.pair, "text-pair"), (columns.id, "id-column"),
                         (columns.target, "target-column")):  # fmt: skip
        if name is not None and known and name not in known:
            raise InputError(
                f"no column {name!r} in {source.name!r}. Its columns: {', '.join(map(str, known))}. "
                f"Say which one: {option.replace('-', '_')}=… (--{option})"
            )
    return columns


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v if isinstance(v, str | int | float | bool | None) else str(v) for k, v in values.items()}


def _target_name(target: Any) -> str | None:
    if target is None or isinstance(target, str):
        return target
    if isinstance(target, Custom):
        return target.name
    if isinstance(target, AbstractTarget) or not callable(target):
        return repr(target)
    return getattr(target, "__qualname__", type(target).__name__)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _checked(out: Path, settings: dict[str, Any], given: dict[str, int | None]) -> Manifest | None:
    """The manifest of an earlier run with the same settings; None in a folder that is new or empty."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{str(out)!r} is a file: --out is a folder")
    manifest = Manifest.read(out)
    if manifest is None:
        # A lock and temporary files are what is left of a run that died before it had a manifest.
        foreign = [p for p in out.glob("*") if p.name != "_lock" and p.suffix != ".part"] if out.exists() else []
        if foreign:
            raise InputError(
                f"{str(out)!r} is not empty and holds no run of whence (but {foreign[0].name!r}, for one): "
                "choose another --out"
            )
        return None
    asked = {k: v for k, v in given.items() if v is not None}
    manifest.check({**settings, **asked}, {k: getattr(manifest.plan, k) for k in asked}, out)
    return manifest


def _refuse_other_cut(journal: Journal, plan: Plan) -> None:
    """Shards that were cut otherwise would hold other rows than their numbers say."""
    last = max(journal.done, default=0)
    for n, report in journal.done.items():
        if report.start != n * plan.rows_per_shard or (n != last and report.rows != plan.rows_per_shard):
            raise InputError(
                f"{report.file} holds {report.rows} rows from {report.start} on, which is not how its run was planned: "
                "choose another --out"
            )


def _sample(source: AbstractDataset, columns: Columns, limit: int | None) -> list[Row]:
    """The first rows, without using up an iterator."""
    size = SAMPLE if limit is None else min(SAMPLE, limit)
    return [columns.row(number, record) for number, record in enumerate(source.sample(size))]


@dataclass
class _Launch:
    """One call of `run`: from the first shard that is not done to the end of the data."""

    job: Job
    adapter: AbstractAdapter
    source: AbstractDataset
    columns: Columns
    limit: int | None
    total: int | None
    manifest: Manifest
    given: dict[str, int | None]
    """What the user chose of the plan."""
    seen: int = 0
    """Rows up to the last shard that was handed out or passed over."""

    def go(self, executor: Any, progress: Any) -> Run:
        try:
            return self._gone(executor, progress)
        except OSError as error:
            if error.errno not in FULL:
                raise
            again = "type the same command again to go on"
            raise WhenceError(
                f"the disk is full. Make room; what is in {str(self.job.out)!r} is safe: {again}"
            ) from error

    def _gone(self, executor: Any, progress: Any) -> Run:
        out = self.job.out
        out.mkdir(parents=True, exist_ok=True)
        with locked(out):
            # Another run may have begun, and ended, since the folder was looked at: its plan is the one to go on with.
            self.manifest = _checked(out, self.manifest.settings, self.given) or self.manifest
            self.job = replace(self.job, plan=self.manifest.plan)
            for path in leftovers(out):
                path.unlink()
            journal = Journal(out, whole=True)
            _refuse_other_cut(journal, self.manifest.plan)
            for number in journal.done:
                note_of(out, number).unlink(missing_ok=True)
            for name, reason in journal.damaged.items():
                print(f"{name} {reason}: its rows are explained again", file=sys.stderr)
            journal.mend()
            self.manifest.write(out)
            if self.job.strict and journal.failed:
                raise InputError(f"{journal.failed} rows failed in an earlier run without --strict: see whence summary")
            if not (self.manifest.complete and journal.rows == self.manifest.rows):
                meter = self._explained(executor, journal, progress)
            else:
                self._refuse_other(journal)
                meter = Meter(journal.rows, journal.rows, False)
            for name in journal.foreign():
                print(f"{printable(name)} is of no run here: take it away", file=sys.stderr)
            return Run(
                out, journal.rows, journal.failed, len(journal.done), meter.seconds, meter.done - meter.begun_with, True
            )

    def _explained(self, executor: Any, journal: Journal, progress: Any) -> Meter:
        meter = Meter(self.total, journal.rows, progress)
        is_long = self.total is None or self.total - journal.rows > LONG * self.job.plan.window
        job = replace(self.job, encode_in_process=is_long)
        try:
            with meter, closing(executor.run(job, self.adapter, self._undone(journal), meter.add)) as reports:
                for report in reports:
                    self._refuse_unseen(journal, report)
                    journal.add(report)
        except KeyboardInterrupt:
            print(f"\nstopped. {self._resume(journal)}", file=sys.stderr)
            raise
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise WhenceError(f"the disk is full. Make room; {self._resume(journal)}") from error
        finally:
            for path in notes(self.job.out):  # of processes that were ended in good order
                path.unlink(missing_ok=True)
        self._refuse_lost(journal)
        self._refuse_changed()
        replace(self.manifest, complete=True, rows=self.seen, info={**self.manifest.info, "ended": _now()}).write(
            self.job.out
        )
        return meter

    def _refuse_unseen(self, journal: Journal, report: ShardReport) -> None:
        """What a worker on another machine wrote is seen here, too; some network file systems need a moment."""
        until = time.monotonic() + PATIENCE
        while reason := journal.problem(report, whole=False):
            if time.monotonic() >= until:
                raise WhenceError(
                    f"{report.file}, which a worker wrote, {reason} in {str(self.job.out)!r}: --out has to be a folder "
                    "that all machines see, such as one on NFS"
                )
            time.sleep(0.2)

    def _refuse_other(self, journal: Journal) -> None:
        """A finished run is one of this data: row by row, where nothing else tells it from other data."""
        if self.source.is_told_by_content:
            return
        for shard in self._undone(journal):
            raise InputError(
                f"the run in {str(self.job.out)!r} was finished with {journal.rows} rows, and this data has row "
                f"{shard.start} as well: choose another --out"
            )
        self._refuse_lost(journal)

    def _refuse_lost(self, journal: Journal) -> None:
        """Rows that are written are rows that were read, and as many as there were to read."""
        wanted = self.seen if self.total is None else self.total
        if not journal.rows == self.seen == wanted:
            raise WhenceError(
                f"the data has {wanted} rows, {self.seen} were read and {journal.rows} are in {str(self.job.out)!r}: "
                "rows are lost, or the data was changed. Type the same command again, or choose another --out"
            )

    def _refuse_changed(self) -> None:
        """Data and weights are those that the run began with, to the byte."""
        before = {name: self.manifest.settings[name] for name in ("data", "weights")}
        now = {"data": self.source.fingerprint(), "weights": weights_digests(self.adapter)}
        lines = difference(before, json.loads(json.dumps(now)))
        if lines:
            shown = "\n  ".join(lines[:SHOWN])
            raise WhenceError(
                f"this changed while the run was going, so rows in {str(self.job.out)!r} may be of either:\n  {shown}\n"
                "Begin again with another --out."
            )

    def _resume(self, journal: Journal) -> str:
        of = "" if self.total is None else f" of {self.total}"
        return f"{journal.rows}{of} rows are safe in {str(self.job.out)!r}: type the same command again to go on"

    def _undone(self, journal: Journal) -> Iterator[Shard]:
        """Shards that are not done. Rows that are, are compared as they are passed over."""
        done = dict(journal.done)
        self.seen = 0
        for shard in cut(rows(self.source, self.columns, 0, self.limit), self.job.plan.rows_per_shard):
            self.seen += len(shard.rows)
            if shard.number not in done:
                yield shard
            elif done[shard.number].input != digest_of(shard.rows):
                raise InputError(
                    f"rows {shard.start} to {shard.start + len(shard.rows) - 1} are not those of the earlier run: "
                    "the data has to be the same, in the same order, to go on"
                )
