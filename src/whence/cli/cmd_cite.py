"""`whence cite`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.command import Column, Device, Dtype, Font, Remote, Task, app
from whence.cli.screen import show, write
from whence.results.stored import spelled

__all__ = ["cite"]


@app.command()
def cite(
    question: Annotated[str, typer.Argument(help="What is asked.")],
    paths: Annotated[
        list[Path],
        typer.Argument(help="Documents: text files (.txt, .md), folders of them, or .jsonl with text and title."),
    ],
    model: Annotated[str, typer.Option("--model", "-m", help="A language model: hub id or folder.")],
    answer: Annotated[str | None, typer.Option(help="Cite this answer; else the model writes one.")] = None,
    generate: Annotated[int, typer.Option(help="Tokens that the model writes at most.")] = 256,
    method: Annotated[str, typer.Option(help="See 'whence methods'.")] = "lrp",
    save: Annotated[Path | None, typer.Option(help="Write to a file: .html .svg .pdf .png .json .txt")] = None,
    column: Column = None,
    font: Font = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """Answer a question from documents, and say which sentences each statement came from."""
    import whence
    from whence.data.text_files import read_documents

    documents = read_documents(paths)
    loaded = whence.load(model, task=task, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    result = whence.cite(loaded, question, documents, answer=answer, generate=generate, method=method)
    write(result, save, column, font)
    if as_json:
        typer.echo(spelled(result.to_dict()))
    else:
        show(result)
