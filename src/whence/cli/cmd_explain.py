"""`whence explain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from whence.cli.command import Column, Device, Dtype, Font, Model, Remote, Task, Truncate, app, target_of
from whence.cli.screen import write
from whence.errors import InputError
from whence.options import whole_number
from whence.results.stored import spelled

__all__ = ["explain"]

CLASSES = 10
"""Classes in a report: each costs another explanation."""


@app.command()
def explain(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts, or paths of images or sounds; '-' or nothing reads standard input."),
    ] = None,
    model: Model = "sentiment",
    image: Annotated[list[Path] | None, typer.Option(help="A picture that the texts are about; several times.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="A text to choose from (CLIP, multiple choice); several times.")
    ] = None,
    method: Annotated[str, typer.Option(help="See 'whence methods'.")] = "lrp",
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            help="Label, class number, or 'A|B' for A rather than B; with --generate or --continuation, words of what "
            "is written.",
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read texts from a file, one per line.")] = None,
    words: Annotated[bool, typer.Option("--words", "-w", help="Merge tokens to words.")] = False,
    by: Annotated[str, typer.Option(help="Sum tokens by: token, word, sentence, message, document.")] = "token",
    rows: Annotated[str, typer.Option(help="Of what is written, explain each: token, word, sentence.")] = "token",
    hops: Annotated[
        str, typer.Option(help="So many times, or 'all', go on from the model's own text to where that came from.")
    ] = "0",
    at: Annotated[
        list[str] | None,
        typer.Option(
            help="Where relevance is read: word, embedding, position; or inside the model: layers, heads, attentions, "
            "neurons, mlps, experts, a module's name; several times."
        ),
    ] = None,
    special: Annotated[bool, typer.Option("--special/--no-special", help="Keep special tokens.")] = True,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only the N strongest features; of what is written, for each token.")
    ] = None,
    generate: Annotated[int | None, typer.Option(help="Generate N tokens and explain each of them.")] = None,
    continuation: Annotated[str | None, typer.Option(help="Explain these tokens after the prompt.")] = None,
    truncate: Truncate = False,
    save: Annotated[Path | None, typer.Option(help="Write to a file; the suffix decides the format.")] = None,
    column: Column = None,
    font: Font = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per input.")] = False,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """Explain the prediction for each text, image or sound."""
    import whence

    inputs: list[Any] = [{"images": image, "text": text} if image else text for text in _texts(texts, file)]
    loaded = whence.load(model, task=task, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    if label:
        inputs = [_with_labels(loaded, one, label) for one in inputs]
    written = generate is not None or continuation is not None
    if words and written and target is None and hops == "0":  # a trace
        by, rows = ("word" if by == "token" else by), ("word" if rows == "token" else rows)
    words = words and by == "token"  # larger units are no words
    units: dict[str, Any] = {"by": by, "rows": rows, "hops": _hops(hops)}
    if at:
        units["at"] = at[0] if len(at) == 1 else at
    results = whence.explain(
        loaded, inputs, method, target_of(target, written=written), special_tokens=special, truncate=truncate,
        generate=generate, continuation=continuation, **units,
    )  # fmt: skip
    if save is None:
        write(None, None, column, font)
    else:
        saved: list[Any] = results
        if save.suffix.lower() == ".html":
            kept = {"special_tokens": special, "truncate": truncate}
            saved = [_with_classes(loaded, one, exp, method, kept) for one, exp in zip(inputs, results, strict=True)]
        if words:
            saved = [_by_word(result) for result in saved]
        for result, path in _places(saved, save):
            write(result, path, column, font)
    for exp in results:
        _show(exp, words=words, top=top, as_json=as_json)


def _hops(text: str) -> Any:
    """What was typed as --hops: a number, or all."""
    number = whole_number(text)
    if text != "all" and (number is None or number < 0):
        raise InputError(f"--hops {text} is no number of hops: pass one, or all")
    return text if text == "all" else number


def _texts(texts: list[str] | None, file: Path | None) -> list[str]:
    """Texts from arguments, a file or standard input, one per line. Empty lines are skipped."""
    if file is not None:
        try:
            lines = _lines(file.read_bytes(), repr(str(file)))
        except FileNotFoundError:
            raise InputError(f"no such file: {str(file)!r}") from None
    elif not texts or texts == ["-"]:
        if sys.stdin.isatty():
            raise InputError('no text: type  whence explain "a gorgeous, witty, seductive movie"')
        lines = _lines(sys.stdin.buffer.read(), "standard input")
    else:
        return texts
    kept = [line for line in lines if line.strip()]
    if not kept:
        raise InputError("there is no text in the input")
    return kept


def _lines(held: bytes, where: str) -> list[str]:
    try:
        return held.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 text: {error}") from None


def _with_labels(model: Any, one: Any, labels: list[str]) -> dict[str, Any]:
    """An input with the texts to choose from, as a model that chooses takes it."""
    if not hasattr(model, "texts"):
        raise InputError(f"--label is for models that choose among texts, and this one is for {model.task}")
    return {getattr(model, "other", "text"): one, model.texts: labels}


def _with_classes(model: Any, one: Any, exp: Any, method: str, kept: dict[str, bool]) -> Any:
    """An explanation and those of the other classes, the explained one first: reports switch between them."""
    from whence.results import Comparison, Explanation
    from whence.verbs.compare import compare

    if not isinstance(exp, Explanation):  # a trace, an inside
        return exp
    others = [label for label in exp.prediction.labels if label != exp.target][: CLASSES - 1]
    if model.speaks or model.follows is not None or not exp.class_specific or not others:
        return exp
    return Comparison((exp, *compare(model, one, [method], others, **kept)))


def _by_word(result: Any) -> Any:
    from whence.results import Comparison, Explanation

    if isinstance(result, Comparison):
        return Comparison(tuple(exp.by("word") for exp in result))
    return result.by("word") if isinstance(result, Explanation) else result


def _places(results: list[Any], path: Path) -> list[tuple[Any, Path]]:
    """One file for one result; numbered files for several."""
    if len(results) == 1:
        return [(results[0], path)]
    return [(exp, path.with_stem(f"{path.stem}-{n}")) for n, exp in enumerate(results, 1)]


def _show(exp: Any, *, words: bool, top: int | None, as_json: bool) -> None:
    from whence.results import Inside, Trace

    if as_json:
        data = exp.to_dict()
        if words and not isinstance(exp, Trace | Inside):
            data["words"] = [{"text": w.text, "score": w.score} for w in exp.words()]
        typer.echo(spelled(data))
        return
    from rich.console import Console

    from whence.viz import inside_page, terminal, traces

    console = Console(soft_wrap=True)
    if isinstance(exp, Inside):
        most = inside_page.TOP if top is None else top
        if console.is_terminal:
            console.print(inside_page.screen(exp, most))
        else:
            typer.echo(inside_page.lines(exp, most))
        return
    if isinstance(exp, Trace):
        most = traces.TOP if top is None else top
        if console.is_terminal:
            console.print(traces.screen(exp, most))
        else:
            typer.echo(traces.lines(exp, most))
        return
    if top is not None or words:
        features = (
            [(w.text, w.score) for w in exp.words()]
            if words
            else list(zip(exp.tokens, exp.scores.tolist(), strict=True))
            if exp.tokens
            else exp.top(exp.scores.size)
        )
        if top is not None:
            features = sorted(features, key=lambda f: -abs(f[1]))[:top]
        typer.echo(terminal.header(exp))
        for name, score in features:
            typer.echo(f"{score:+.4f}\t{name}")
    elif console.is_terminal:
        console.print(exp)
    else:
        typer.echo(str(exp))
