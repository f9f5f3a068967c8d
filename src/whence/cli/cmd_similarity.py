"""`whence similarity`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.command import Column, Device, Dtype, Font, Remote, app
from whence.cli.screen import show, write
from whence.results.stored import spelled

__all__ = ["similarity"]


@app.command()
def similarity(
    model: Annotated[
        str, typer.Argument(help="A model that gives embeddings: sentence-transformers, an encoder, a CLIP.")
    ],
    a: Annotated[str, typer.Argument(help="A text; for a CLIP also the name of a picture file.")],
    b: Annotated[list[str], typer.Argument(help="Another one; of several, each is compared with the first.")],
    measure: Annotated[str | None, typer.Option(help="cosine, dot, maxsim; else what the model declares.")] = None,
    pooling: Annotated[str | None, typer.Option(help="Of an encoder: mean, cls, last.")] = None,
    method: Annotated[str, typer.Option(help="A recipe, see 'whence methods'.")] = "lrp",
    words: Annotated[bool, typer.Option("--words", help="Sum tokens to words.")] = False,
    top: Annotated[int | None, typer.Option(min=1, help="Of several texts, the best so many.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the page to this file.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write to a file: .html .svg .pdf .png .json .npz .txt")] = None,
    column: Column = None,
    font: Font = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: Remote = False,
) -> None:
    """Say why two inputs are similar: which token of one goes with which of the other."""
    import whence
    from whence.errors import InputError
    from whence.models.embedders import embedder_of
    from whence.results import Several

    files = [path for path in (html, save) if path is not None]
    if files and len(b) > 1:
        raise InputError("a file holds one pair: pass two texts with --html and --save")
    loaded = embedder_of(model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    if top is None:
        pairs = whence.similarity(loaded, a, b, measure=measure, pooling=pooling, method=method)  # type: ignore[arg-type]
    else:
        pairs = whence.retrieve(loaded, a, b, top=top, measure=measure, pooling=pooling, method=method)  # type: ignore[arg-type]
    if words:
        pairs = Several(pair.by("word") for pair in pairs)
    write(pairs[0], html)
    write(pairs[0], save, column, font)
    if as_json:
        made = [pair.to_dict() for pair in pairs]
        typer.echo(spelled(made[0] if len(b) == 1 else made))
        return
    for pair in pairs:
        show(pair)
