"""`whence compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from whence.cli.app import Device, Dtype, Model, Target, Task, app, target_of

__all__ = ["compare"]


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
    results = whence.compare(loaded, text, names, target_of(target), special_tokens=special)
    side_by_side.show(results)
