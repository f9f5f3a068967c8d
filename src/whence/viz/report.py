"""Explanations as one HTML file that needs nothing else: no network, its own script and style, and a policy that holds
it to that."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files as package_files
from typing import Any

import numpy as np

from whence.results import Comparison, Explanation
from whence.results.explanation_files import to_wire
from whence.results.showing import draws
from whence.viz.colour import scale_of
from whence.viz.terminal import header, shares
from whence.viz.typeset import pieces

__all__ = ["asset", "document", "page", "shade", "still"]

STYLES = ("whence.css", "palette.css")
SCRIPTS = (
    "base.js", "features.js", "text.js", "image.js", "sound.js", "table.js", "methods.js", "panels.js", "details.js",
    "board.js",
)  # fmt: skip
LEVELS = 24
"""Steps of colour on each side of zero: palette.css has a class for each."""


@draws(Explanation, "html")
@draws(Comparison, "html")
def page(result: Explanation | Sequence[Explanation]) -> str:
    """Prediction, target switch, coloured tokens or patches or both, table, receipt and stamp, in one file."""
    results = [exp.laid_out() for exp in ([result] if isinstance(result, Explanation) else result)]
    first = results[0]
    title = _said(first) or _named(results)
    return document(
        title=title if len(title) <= 120 else title[:119] + "…",
        body=f'<div id="whence-board" class="w-board"><noscript>{_still(results[0])}</noscript></div>',
        data={"explanations": _shared(results)},
        scripts=(*SCRIPTS, "report.js"),
    )


def _named(results: Sequence[Explanation]) -> str:
    """What is explained, and how, where no text says it."""
    targets, methods = (
        list(dict.fromkeys(names)) for names in zip(*((e.target, e.method) for e in results), strict=True)
    )
    how = ", ".join(methods) if len(methods) <= SEVERAL else f"{len(methods)} methods"
    return f"{', '.join(targets[:SEVERAL])} by {how}"


SEVERAL = 5
"""Methods that a title names."""


def _said(exp: Explanation) -> str:
    """The text that is explained; what was read with a picture, from its tokens."""
    if exp.text is not None:
        return exp.text.strip()
    texts = [one for one in exp.apart() if not one.is_image] if len(exp.parts) > 1 else []
    kept = (p for one in texts for p in pieces(one) if not (one.special and one.special[p.token]))
    return "".join(p.gap + p.text for p in kept).strip()


def document(
    *,
    title: str,
    body: str,
    data: dict[str, Any],
    scripts: Sequence[str],
    styles: Sequence[str] = (),
    verdict: str = "",
    more: str = "",
) -> str:
    """A page around `body` with styles, scripts and data inside. `verdict` says what came out, in a sentence under the
    title; `more` are further elements, escaped already."""
    style = "\n".join(asset(name) for name in (*STYLES, *styles))
    script = "\n".join(asset(name) for name in scripts)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = html.escape(title)
    says = f'<p class="w-verdict">{html.escape(verdict)}</p>' if verdict else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{shown} · whence</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<main class="w-page">\n<header class="w-title"><div><h1 dir="auto">{shown}</h1>{says}</div>'
        f'<div id="whence-actions" class="w-bar w-noprint"></div></header>\n{body}\n</main>\n'
        f'<script type="application/json" id="whence-data">{_inert(data)}</script>\n{more}'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


@cache
def asset(name: str) -> str:
    """A file of the front end."""
    return (package_files("whence.viz") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inert(data: Any) -> str:
    """JSON in which no token can end the element around it or open a comment."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _shared(results: Sequence[Explanation]) -> list[dict[str, Any]]:
    """Wire forms in which later ones leave out what they have in common with the first: tokens, text, image, …"""
    wires = [to_wire(exp) for exp in results]
    for wire, exp in zip(wires, results, strict=True):
        wire["scores"] = _short(exp.scores)
        wire["words"] = wire["words"] and [{"text": w["text"], "tokens": w["tokens"]} for w in wire["words"]]
    first, *others = wires
    return [first, *({k: v for k, v in wire.items() if k not in first or v != first[k]} for wire in others)]


def _short(scores: np.ndarray) -> list[Any]:
    """Scores in the fewest digits that are the same float32 again; null where they are not finite."""
    if scores.ndim > 1:
        return [_short(row) for row in scores]
    return [float(str(s)) if np.isfinite(s) else None for s in scores]


def _still(exp: Explanation) -> str:
    """What is seen without JavaScript: the coloured text, the numbers of the patches, or both."""
    parts = exp.apart()
    body = "".join(map(still, parts)) + (f"<p>{html.escape(shares(exp))}</p>" if len(parts) > 1 else "")
    return f'<div class="w-card"><h2>{html.escape(exp.verdict)}</h2><p>{html.escape(header(exp))}</p>{body}</div>'


def still(exp: Explanation) -> str:
    """Coloured text, or the numbers of patches, without a script."""
    if exp.is_image or not exp.tokens:
        rows = exp.scores if exp.is_image else exp.scores[:, None]
        cells = "".join("<tr>" + "".join(f"<td>{s:+.3g}</td>" for s in row) + "</tr>" for row in rows)
        return f'<table class="w-table">{cells}</table>'
    scale = scale_of(exp.scores)
    spans = "".join(
        f'{html.escape(p.gap)}<span class="w-t {shade(float(s), scale)}" title="{s:+.4g}">{html.escape(p.text)}</span>'
        for p, s in zip(pieces(exp), exp.scores, strict=True)
    )
    return f'<div class="w-text" dir="auto">{spans}</div>'


def shade(score: float, scale: float) -> str:
    """The class of palette.css for a score."""
    level = round(LEVELS * min(1.0, abs(score) / scale)) if np.isfinite(score) else 0
    return f"w-{'n' if score < 0 else 'p'}{level}" if level else "w-z"
