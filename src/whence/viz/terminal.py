"""Explanations in a terminal: coloured tokens with rich, plain text when piped."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import numpy as np
from rich.console import Group
from rich.text import Text

from whence.results import Explanation
from whence.results.percents import percent
from whence.results.showing import draws
from whence.viz.colour import blend, contrast_text, scale_of
from whence.viz.typeset import pieces

__all__ = ["body", "header", "picture", "plain", "printable", "receipt", "render", "shares", "shown", "tokens"]

PIECES = 12
"""Lines for a sound."""
NAMES = {"token": "text", "patch": "picture", "pixel": "picture", "frame": "sound"}
"""What features of a kind belong to."""


def header(exp: Explanation) -> str:
    """What was predicted and what is explained, on one line."""
    parts = []
    if exp.prediction.labels:
        share = f" ({percent(exp.prediction.probabilities[0], 1)})" if exp.prediction.probabilities else ""
        parts.append(f"prediction: {exp.prediction.label}{share}")
    parts.append(f"target: {exp.target} = {exp.target_score:+.4f}")
    parts.append(f"method: {exp.method}")
    return printable("   ".join(parts))


def tokens(exp: Explanation, scale: float | None = None) -> Text:
    """The text itself, each token on its colour."""
    scale = scale_of(exp.scores) if scale is None else scale
    text = Text()
    for piece in pieces(exp):
        red, green, blue = background = blend(float(exp.scores[piece.token]), scale)
        if "\n" in piece.gap:
            text.append("\n")
        else:
            text.append(
                printable(piece.gap.replace("\r", " "), keep="\t"), style="on rgb(255,255,255)"
            )  # paper: zero is white in dark terminals as well
        text.append(printable(piece.text), style=f"{contrast_text(background)} on rgb({red},{green},{blue})")
    return text


def printable(text: str, keep: str = "") -> str:
    """Without the control characters that terminals obey, and halves of characters that no terminal can be sent: a
    token can't move the cursor or clear the screen."""
    barred = ("Cc", "Cs")
    return "".join("\ufffd" if unicodedata.category(char) in barred and char not in keep else char for char in text)


def picture(exp: Explanation) -> Text:
    scale, text = scale_of(exp.scores), Text()
    for row in exp.scores:
        for score in row:
            red, green, blue = blend(float(score), scale)
            text.append("  ", style=f"on rgb({red},{green},{blue})")
        text.append("\n")
    return text


def receipt(exp: Explanation) -> str:
    return f"receipt: {exp.conservation}" if exp.conservation else ""


def body(exp: Explanation) -> Text:
    """What is shown of an explanation: its tokens, its picture, or one after the other, each on its own scale."""
    parts = [picture(one) if one.is_image else tokens(one) for one in exp.apart()]
    return parts[0] if len(parts) == 1 else Text("\n").join([*parts, Text(shares(exp), style="dim")])


def shown(exp: Explanation) -> list[Explanation]:
    """Text and pictures of an explanation, each to be drawn alone. The receipt is of the whole: none of them has it."""
    parts = exp.apart()
    return parts if len(parts) == 1 else [replace(one, conservation=None, left_out=0.0) for one in parts]


def shares(exp: Explanation) -> str:
    """How much of the whole each of several inputs has."""
    return "   ".join(f"{NAMES.get(p.kind, p.kind)}: {exp.part(p.source).sum():+.4f}" for p in exp.parts)


@draws(Explanation, "terminal")
def render(exp: Explanation) -> Group:
    lines = [Text(header(exp), style="bold"), body(exp)]
    if exp.left_out:
        lines.append(Text(f"left out: {exp.left_out:+.4f}", style="dim"))
    if exp.conservation:
        lines.append(Text(receipt(exp), style="dim"))
    return Group(*lines)


def _on_one_line(text: str) -> str:
    return printable(text.replace("\n", "⏎").replace("\t", "→"))


def _strongest(sound: Explanation) -> list[str]:
    """The pieces of a sound that say most, in their order; of hundreds nobody reads all."""
    scores = sound.scores.reshape(-1)
    kept = np.sort(np.argsort(-np.abs(scores), kind="stable")[:PIECES])
    lines = [f"{scores[i]:+.4f}\t{sound.feature(int(i))}" for i in kept]
    rest = len(scores) - len(kept)
    return [*lines, f"{scores.sum() - scores[kept].sum():+.4f}\t({rest} other pieces)"] if rest else lines


@draws(Explanation, "txt")
def plain(exp: Explanation) -> str:
    """One line per feature: score, tab, feature. Of a sound, the strongest."""
    lines = [header(exp)]
    for one in (together := exp.apart()):
        if one.parts and one.parts[0].kind == "frame":
            lines += _strongest(one)
        elif one.is_image and len(one.scores) > 1:
            lines += ["  ".join(f"{s:+.3f}" for s in row) for row in one.scores]
        else:
            scores = one.scores.reshape(-1)
            lines += [f"{score:+.4f}\t{_on_one_line(one.feature(i))}" for i, score in enumerate(scores)]
    lines += [shares(exp)] if len(together) > 1 else []
    if exp.left_out:
        lines.append(f"{exp.left_out:+.4f}\t(left out)")
    if exp.conservation:
        lines.append(receipt(exp))
    return "\n".join(lines)
