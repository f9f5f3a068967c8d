"""Explanations as HTML: a fragment for notebooks and a page that stands alone. Tokens are escaped."""

from __future__ import annotations

import base64
import html as escape_html
import io

from whence.results import Explanation
from whence.results.drawing import draws
from whence.viz.colour import blend, contrast_text, scale_of
from whence.viz.terminal import header, pieces, receipt

__all__ = ["fragment", "page"]


@draws(Explanation, "notebook")
def fragment(exp: Explanation) -> str:
    """Coloured tokens (or patches over the image), heading and receipt, in one <div>."""
    body = _image(exp) if exp.is_image else _tokens(exp)
    foot = (
        f'<div style="opacity:.65;font-size:.85em">{escape_html.escape(receipt(exp))}</div>' if exp.conservation else ""
    )
    return (
        f'<div style="font-family:system-ui,sans-serif;line-height:1.9">'
        f"<div><b>{escape_html.escape(header(exp))}</b></div>"
        f"{body}{foot}</div>"
    )


def _tokens(exp: Explanation) -> str:
    scale = scale_of(exp.scores)
    spans = []
    for piece, score in zip(pieces(exp), exp.scores, strict=True):
        colour = blend(float(score), scale)
        style = f"background:rgb{colour};color:{contrast_text(colour)}".replace(" ", "")
        spans.append(f'<span title="{score:+.4f}" style="{style}">{escape_html.escape(piece)}</span>')
    return f'<div style="white-space:pre-wrap;overflow-wrap:anywhere">{"".join(spans)}</div>'


def _image(exp: Explanation) -> str:
    scale, (rows, columns) = scale_of(exp.scores), exp.scores.shape
    cells = "".join(
        f'<rect x="{c}" y="{r}" width="1" height="1" fill="rgb{blend(float(exp.scores[r, c]), scale)}">'
        f"<title>{exp.scores[r, c]:+.4f}</title></rect>"
        for r in range(rows)
        for c in range(columns)
    )
    heat = f'<svg viewBox="0 0 {columns} {rows}" width="224" shape-rendering="crispEdges">{cells}</svg>'
    return f'<div style="display:flex;gap:1em">{_picture(exp)}{heat}</div>'


def _picture(exp: Explanation) -> str:
    if exp.image is None:
        return ""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(exp.image).save(buffer, format="PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    style = "image-rendering:pixelated"
    return f'<img alt="the explained image" width="224" style="{style}" src="data:image/png;base64,{data}">'


@draws(Explanation, "html")
def page(exp: Explanation) -> str:
    """A file that needs nothing else."""
    title = escape_html.escape(f"{exp.target} by {exp.method}")
    facts = "".join(
        f"<li>{escape_html.escape(str(k))}: {escape_html.escape(str(v))}</li>" for k, v in exp.provenance.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>:root{{color-scheme:light dark}}"
        f"body{{max-width:60rem;margin:2rem auto;padding:0 1rem}}"
        f"ul{{opacity:.65;font:0.85em system-ui}}</style>{fragment(exp)}<ul>{facts}</ul></html>"
    )
