"""The command `whence`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from whence.errors import InputError, WhenceError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="From what place did this prediction come? Explain the predictions of transformers.",
)

Model = Annotated[str, typer.Option("--model", "-m", help="Bundled name (sentiment, digits), hub id, or folder.")]
Target = Annotated[
    str | None, typer.Option("--target", "-t", help="Label, class number, or 'A|B' for A rather than B.")
]
Task = Annotated[str | None, typer.Option(help="What the model does, if its name does not say.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, …")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16, float16.")]
Remote = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]


@app.command()
def explain(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts or image paths; '-' or nothing reads standard input.")
    ] = None,
    model: Model = "sentiment",
    method: Annotated[str, typer.Option(help="See 'whence methods'.")] = "lrp",
    target: Target = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read texts from a file, one per line.")] = None,
    words: Annotated[bool, typer.Option("--words", "-w", help="Merge tokens to words.")] = False,
    special: Annotated[bool, typer.Option("--special/--no-special", help="Keep special tokens.")] = True,
    top: Annotated[int | None, typer.Option(help="Only the N strongest features.")] = None,
    generate: Annotated[int | None, typer.Option(help="Generate N tokens and explain them.")] = None,
    continuation: Annotated[str | None, typer.Option(help="Explain these tokens after the prompt.")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut inputs that are too long.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write to a file: .html .json .npz .txt")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per input.")] = False,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """Explain the prediction for each text (or image)."""
    import whence

    inputs = _texts(texts, file)
    loaded = whence.load(model, task=task, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    results = whence.explain(
        loaded, inputs, method, _target(target), special_tokens=special, truncate=truncate, generate=generate,
        continuation=continuation,
    )  # fmt: skip
    if save is not None:
        for path in _saved(results, save):
            typer.echo(f"wrote {path}", err=True)
    for exp in results:
        _show(exp, words=words, top=top, as_json=as_json)


def _texts(texts: list[str] | None, file: Path | None) -> list[str]:
    """Texts from arguments, a file or standard input, one per line. Empty lines are skipped."""
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            raise InputError(f"no such file: {str(file)!r}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{str(file)!r} is not UTF-8 text: {error}") from None
    elif not texts or texts == ["-"]:
        if sys.stdin.isatty():
            raise InputError('no text: type  whence explain "a gorgeous, witty, seductive movie"')
        lines = sys.stdin.read().splitlines()
    else:
        return texts
    kept = [line for line in lines if line.strip()]
    if not kept:
        raise InputError("there is no text in the input")
    return kept


def _target(text: str | None) -> Any:
    if text is None:
        return None
    import whence

    if "|" in text:
        this, that = text.split("|", 1)
        return whence.contrast(_number(this), _number(that))
    return _number(text)


def _number(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def _saved(results: list[Any], path: Path) -> list[Path]:
    """One file for one result; numbered files for several."""
    if len(results) == 1:
        return [results[0].save(path)]
    return [exp.save(path.with_stem(f"{path.stem}-{n}")) for n, exp in enumerate(results, 1)]


def _show(exp: Any, *, words: bool, top: int | None, as_json: bool) -> None:
    if as_json:
        data = exp.to_dict()
        if words:
            data["words"] = [{"text": w.text, "score": w.score} for w in exp.words()]
        typer.echo(json.dumps(data, ensure_ascii=False, default=str))
        return
    from rich.console import Console

    from whence.viz import terminal

    console = Console(soft_wrap=True)
    if top is not None or words:
        features = (
            [(w.text, w.score) for w in exp.words()]
            if words
            else list(zip(exp.tokens, exp.scores.tolist(), strict=True))
        )
        if exp.is_image:
            features = exp.top(exp.scores.size)
        if top is not None:
            features = sorted(features, key=lambda f: -abs(f[1]))[:top]
        typer.echo(terminal.header(exp))
        for name, score in features:
            typer.echo(f"{score:+.4f}\t{name}")
    elif console.is_terminal:
        console.print(exp)
    else:
        typer.echo(str(exp))


@app.command()
def compare(
    text: Annotated[str, typer.Argument(help="A text, or the path of an image.")],
    model: Model = "sentiment",
    methods: Annotated[str, typer.Option(help="Comma-separated names.")] = "gi,ah_ln,attn_lrp,lrp",
    target: Target = None,
    special: Annotated[bool, typer.Option("--special/--no-special")] = True,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """One line per method: the same input, the same target, side by side."""
    import whence
    from whence.viz import side_by_side

    loaded = whence.load(model, task=task, device=device, dtype=dtype)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    results = whence.compare(loaded, text, names, _target(target), special_tokens=special)
    side_by_side.show(results)


@app.command("methods")
def list_methods(
    markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/methods.md.")] = False,
) -> None:
    """List every method with what it computes."""
    from whence.methods import catalogue

    if markdown:
        typer.echo(catalogue.markdown())
        return
    for name, summary in catalogue.lines():
        typer.echo(f"{name:<24} {summary}")


@app.command()
def audit(
    model: Annotated[str, typer.Argument(help="Bundled name, hub id, or folder.")] = "sentiment",
    text: Annotated[str, typer.Argument(help="What to explain.")] = "a gorgeous, witty, seductive movie",
    recipe: Annotated[str, typer.Option(help="Recipe to audit.")] = "exact",
    target: Target = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Account for every unit of relevance, by function and by layer."""
    import whence

    loaded = whence.load(model, task=task, device=device, dtype=dtype)
    typer.echo(str(whence.audit(loaded, text, recipe=recipe, target=_target(target))))


def main() -> None:
    """Run the command; errors made for people are shown as one line, without a traceback."""
    try:
        app()
    except WhenceError as error:
        typer.secho(f"whence: {error}", err=True, fg=typer.colors.RED)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
