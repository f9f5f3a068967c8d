"""`whence run`, `whence show`, `whence summary`, `whence verify`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from whence.cli.command import Device, Dtype, Model, Remote, Target, Task, Truncate, app, target_of
from whence.errors import InputError

__all__ = ["run", "show", "summary", "verify"]

Folder = Annotated[Path, typer.Argument(help="The folder that 'whence run' wrote.")]


@app.command()
def run(
    data: Annotated[str, typer.Argument(help="A file, a folder, a pattern, here or at s3://…, or a hub data set.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the Parquet shards.")],
    model: Model = "sentiment",
    method: Annotated[str, typer.Option(help="See 'whence methods'.")] = "lrp",
    option: Annotated[list[str] | None, typer.Option(help="An option of the method, name=value. Repeat.")] = None,
    text: Annotated[str, typer.Option(help="Column to explain.")] = "text",
    text_pair: Annotated[str | None, typer.Option(help="Second column, for pairs.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column that names the rows.")] = None,
    target: Target = None,
    target_column: Annotated[str | None, typer.Option(help="Column with a target for each row.")] = None,
    executor: Annotated[str, typer.Option(help="local or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(help="Processes; default one per device; more may share it.")] = None,
    worker_cpus: Annotated[float | None, typer.Option(help="CPUs of a worker on Ray, also 0.5.")] = None,
    worker_gpus: Annotated[float | None, typer.Option(help="GPUs of a worker on Ray; 0.5: two share one.")] = None,
    rows_per_shard: Annotated[int | None, typer.Option(help="Default: about a minute of work.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Tokens in a batch; default: measured.")] = None,
    scores: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    special: Annotated[bool, typer.Option("--special/--no-special", help="Keep special tokens.")] = True,
    truncate: Truncate = False,
    generate: Annotated[int | None, typer.Option(help="Generate N tokens and explain them.")] = None,
    split: Annotated[str, typer.Option(help="Split of a hub data set.")] = "train",
    subset: Annotated[str | None, typer.Option(help="Subset of a hub data set.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N rows.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first row that can't be explained.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate time, memory and size from a sample.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """Explain a data set. After an interruption, the same command goes on."""
    import whence

    loading = {"task": task, "device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    try:
        with _told_to_end():
            done = whence.run(
                data, model=model, out=out, method=method, text=text, text_pair=text_pair, id_column=id_column,
                target=target_of(target), target_column=target_column, executor=executor, workers=workers,
                worker_cpus=worker_cpus, worker_gpus=worker_gpus, rows_per_shard=rows_per_shard,
                batch_tokens=batch_tokens, scores=scores, special_tokens=special, truncate=truncate,
                generate=generate, split=split, subset=subset, limit=limit, strict=strict, dry_run=dry_run,
                model_options=loading, progress=not quiet, **_options(option or []),
            )  # fmt: skip
    except KeyboardInterrupt as stopped:  # what to do next is on the screen already
        raise typer.Exit(128 + (stopped.args[0] if stopped.args else signal.SIGINT)) from None
    typer.echo(str(done))
    if done.rows and done.failed == done.rows:
        raise typer.Exit(1)


@contextmanager
def _told_to_end() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: processes are ended, and what is done is said."""

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _options(given: list[str]) -> dict[str, Any]:
    """Options of a method as typed: gamma=0.1 is a number, receipt=short a word."""
    made: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--option {item!r}: type name=value, such as --option gamma=0.1")
        made[name] = _value(value)
    return made


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


@app.command()
def show(
    out: Folder,
    row: Annotated[int, typer.Option("--row", "-r", help="Number of the row in the data, from 0.")] = 0,
    save: Annotated[
        Path | None, typer.Option(help="Write to a file: .html .json .npz .svg .pdf .png .tex .txt")
    ] = None,
) -> None:
    """Draw one row of a run."""
    from rich.console import Console

    from whence.runner.show import show as read

    exp = read(out, row)
    if save is not None:
        typer.echo(f"wrote {exp.save(save)}", err=True)
    console = Console(soft_wrap=True)
    if console.is_terminal:
        console.print(exp)
    else:
        typer.echo(str(exp))


@app.command()
def summary(
    out: Folder,
    top: Annotated[int, typer.Option(min=1, help="Words in each list.")] = 15,
    min_count: Annotated[int | None, typer.Option(help="Leave out words rarer than this.")] = None,
) -> None:
    """The global picture of a run: influential words, conservation, slow and failed rows."""
    from whence.runner.summary import summary as summarise

    typer.echo(str(summarise(out, top=top, min_count=min_count)))


@app.command()
def verify(out: Folder) -> None:
    """Is what a run wrote still there, to the byte? Names what is not, and exits with 1."""
    from whence.runner.verify import verify as compare

    found = compare(out)
    typer.echo(str(found))
    if not found.ok:
        raise typer.Exit(1)
