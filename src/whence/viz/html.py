"""Explanations in a notebook: a small HTML fragment. Tokens are escaped; pages are made by `whence.viz.report`."""

from __future__ import annotations

import html as escape_html
from collections.abc import Callable

from whence.results import Comparison, Explanation
from whence.results.showing import draws
from whence.viz.bidi import base_direction
from whence.viz.colour import STEPS, blend, contrast_text, scale_of
from whence.viz.overlays import overlay, panels
from whence.viz.side_by_side import heading, name_of, special
from whence.viz.terminal import header, printable, receipt, shares, shown
from whence.viz.typeset import pieces

__all__ = ["CARD", "body", "comparison", "fragment", "sheet"]

SHORT = 400
"""Tokens up to which each carries its style: some viewers of notebooks drop style sheets."""
CARD = (
    "font-family:system-ui,sans-serif;line-height:1.9;background:#fff;color:#1b1f24;"
    "padding:.6em .9em;border-radius:6px;overflow-wrap:anywhere"
)
"""Zero is white in dark notebooks as well, so the fragment brings its paper along."""


@draws(Explanation, "notebook")
def fragment(exp: Explanation) -> str:
    """The verdict, coloured tokens (or patches over the image), heading and receipt, in one <div>."""
    shown_as = body(exp, len(exp))
    notes = [header(exp)]
    notes += [f"left out: {exp.left_out:+.4f}"] if exp.left_out else []
    notes += [receipt(exp)] if exp.conservation else []
    says = f'<div dir="auto"><b>{_safe(printable(exp.verdict))}</b></div>'
    return f'<div style="{CARD}">{sheet(len(exp))}{says}{shown_as}{_foot(notes)}</div>'


@draws(Comparison, "notebook")
def comparison(results: Comparison) -> str:
    """One row per explanation, each on its own scale."""
    results = Comparison(tuple(exp.laid_out() for exp in results))
    if results[0].is_image:
        return f'<div style="{CARD}">{panels(results).svg}</div>'
    size = sum(len(exp) for exp in results)
    rows = "".join(
        f'<tr><th style="text-align:left;vertical-align:top;white-space:nowrap;padding:0 1em 0 0;background:#fff">'
        f'{_safe(name_of(exp, results))}</th><td style="text-align:start;padding:0;background:#fff">'
        f"{body(exp, size)}</td></tr>"
        for exp in results
    )
    table = f'<table style="border-collapse:collapse;color:#1b1f24;font-size:1em;line-height:1.9">{rows}</table>'
    notes = [special(results)] if special(results) else []
    return f'<div style="{CARD}">{sheet(size)}<div><b>{_safe(heading(results))}</b></div>{table}{_foot(notes)}</div>'


def body(exp: Explanation, size: int) -> str:
    """Tokens, a picture, or both; `size` is of all that is on the page."""
    made = [overlay(one).svg if one.is_image else _text(one, *_styles(size)) for one in shown(exp)]
    return made[0] if len(made) == 1 else "".join(f"<div>{one}</div>" for one in made) + _foot([shares(exp)])


def _safe(text: str) -> str:
    return escape_html.escape(text)


def _foot(notes: list[str]) -> str:
    return "".join(f'<div style="opacity:.7;font-size:.85em">{_safe(note)}</div>' for note in notes)


def _text(exp: Explanation, style: Callable[[int], str], tips: bool) -> str:
    """The tokens as spans; each is isolated, so that the order of one can't leak into the next."""
    scale, spans = scale_of(exp.scores), []
    found = pieces(exp) if exp.tokens else []
    for piece in found:
        score = float(exp.scores[piece.token])
        tip = f' title="{score:+.4g}"' if tips else ""
        dress = style(_level(score, scale))
        gap = "\n" if "\n" in piece.gap else " " if piece.gap else ""
        shown = _safe(piece.text)
        spans.append(gap + (f"<span{tip}{dress}>{shown}</span>" if tip or dress else shown))
    if not found:
        named = ", ".join(f"{exp.feature(i)} {s:+.4g}" for i, s in enumerate(exp.scores[:100]))
        return f"<div>{_safe(named)}</div>"
    way = base_direction(exp.text or "".join(exp.tokens))
    return f'<div dir="{way}" style="white-space:pre-wrap"><bdi>{"".join(spans)}</bdi></div>'


def _level(score: float, scale: float) -> int:
    """The shade as a number from -STEPS to STEPS."""
    strength = min(1.0, abs(score) / scale) if score == score else 0.0
    return round(strength * STEPS) * (-1 if score < 0 else 1)


def _css(level: int) -> str:
    colour = blend(level / STEPS, 1.0)
    return f"background:rgb{colour};color:{contrast_text(colour)};border-radius:2px".replace(" ", "")


def _styles(size: int) -> tuple[Callable[[int], str], bool]:
    """How a shade is written, and whether tokens have tips: long inputs share a style sheet."""
    if size <= SHORT:
        return lambda level: f' style="{_css(level)}"' if level else "", True
    return lambda level: f" class={_name(level)}" if level else "", size <= 4 * SHORT


def _name(level: int) -> str:
    return f"whence-{'f' if level > 0 else 'a'}{abs(level)}"


def sheet(size: int) -> str:
    """The same rules in every fragment, so several on one page agree."""
    if size <= SHORT:
        return ""
    rules = "".join(f".{_name(n)}{{{_css(n)}}}" for n in range(-STEPS, STEPS + 1) if n)
    return f"<style>{rules}</style>"
