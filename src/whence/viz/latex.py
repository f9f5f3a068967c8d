"""Coloured text as LaTeX: a fragment for \\input, which needs the package xcolor and nothing else."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from whence import cancel
from whence.results import Comparison, Explanation
from whence.results.showing import draws
from whence.viz.axes import minus
from whence.viz.colour import blend, contrast_text, scale_of, shade
from whence.viz.side_by_side import name_of
from whence.viz.terminal import header, receipt
from whence.viz.typeset import Piece, is_wide, pieces, spaced

__all__ = ["comparison", "escaped", "explanation"]

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "-": "-{}",  # -- would become a dash
    "⏎": r"$\hookleftarrow$",
    "→": r"$\rightarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "τ": r"$\tau$",
    "·": r"\textperiodcentered{}",
    "…": r"\dots{}",
    "–": "--{}",
    "\N{NO-BREAK SPACE}": "~",
    "␣": r"\textvisiblespace{}",
}
"""Everything that LaTeX would take for something else."""
HEAD = r"""% Coloured tokens, made by whence: \input this file. Needs \usepackage[T1]{fontenc} and \usepackage{xcolor}.
% Scripts beyond Latin need XeLaTeX or LuaLaTeX and a font that has them.
"""
SET = r"\setlength{\fboxsep}{0pt}\setlength{\parindent}{0pt}\raggedright"
LONG = 200
"""Tokens from which on methods stand under each other and not in a table."""
STRIP = 6
"""Steps of the legend on each side of zero."""
EDGE = r"\hspace{1pt}"
"""Colour stands out a little at the edges of words, and not between the tokens of one."""


def escaped(text: str) -> str:
    """The text as LaTeX shows it, character by character.

    >>> escaped("50% of $x_1$")
    '50\\\\% of \\\\$x\\\\_1\\\\$'
    """
    return "".join(SPECIAL.get(c, c if c.isprintable() else " ") for c in text)


@draws(Explanation, "tex")
def explanation(exp: Explanation) -> str:
    """A paragraph of coloured tokens with heading and receipt."""
    body = _body(exp)
    notes = [f"left out: {exp.left_out:+.4f}"] if exp.left_out else []
    notes += [receipt(exp)] if exp.conservation else []
    foot = "".join(f"\\par{{\\footnotesize {escaped(minus(note))}}}%\n" for note in notes)
    title = "\\quad ".join(escaped(minus(part)) for part in header(exp).split("   "))
    strips = "\\par\n".join(_legend(scale_of(one.scores)) for one in exp.apart())
    return f"{HEAD}{{{SET}%\n\\textbf{{{title}}}\\par\n{body}\\par\n{strips}%\n{foot}\\par}}\n"


@draws(Comparison, "tex")
def comparison(results: Comparison) -> str:
    """A table: a row per method with its name and what full colour is, each on its own scale. Long texts, which no page
    of a table holds, are paragraphs."""
    long = max(len(exp) for exp in results) > LONG
    rows = []
    for exp in results:
        name = f"\\textbf{{{escaped(name_of(exp, results))}}}"
        full = "" if len(exp.apart()) > 1 else f"{{\\footnotesize $\\pm${scale_of(exp.scores):.3g}}}"
        if long:
            rows.append(f"{name}\\quad {full}\\par\n{_body(exp)}\\par\n")
        else:
            rows.append(f"{name}\\newline {full} & {{\\raggedright {_body(exp)}\\par}}\\tabularnewline[2pt]\n")
    legend = f"{_legend(None)}\\quad{{\\footnotesize each method on its own scale}}"
    if not long:
        spec = r"@{}p{0.16\linewidth}@{\hspace{0.02\linewidth}}p{0.82\linewidth}@{}"
        rows = [f"\\begin{{tabular}}{{{spec}}}\n", *rows, "\\end{tabular}\\par\n"]
    return f"{HEAD}{{{SET}%\n{''.join(rows)}{legend}\\par}}\n"


def _legend(scale: float | None) -> str:
    """From against to for as a strip of colour, with its ends named."""
    ends = ("against", "for") if scale is None else (f"$-${scale:.3g} against", f"for $+${scale:.3g}")
    strip = "".join(
        "\\textcolor[RGB]{{{},{},{}}}{{\\rule{{6pt}}{{6pt}}}}".format(*blend(n / STRIP, 1.0))
        for n in range(-STRIP, STRIP + 1)
    )
    return f"{{\\footnotesize {ends[0]} {strip} {ends[1]}}}"


def _body(exp: Explanation) -> str:
    """Tokens, patches, or one after the other."""
    cancel.check()
    made = (_patches(one) if one.is_image else _tokens(one, scale_of(one.scores)) for one in exp.apart())
    return "\\par\n".join(made)


def _tokens(exp: Explanation, scale: float) -> str:
    """Boxes with break points between words; \\strut makes them equally high."""
    if not exp.tokens:
        return ", ".join(f"{exp.feature(i)} ${s:+.4f}$" for i, s in enumerate(exp.scores))
    found = pieces(exp)
    apart = [True, *(spaced(before, after) for before, after in pairwise(found)), True]
    parts = []
    for n, piece in enumerate(found):
        text = escaped(piece.text.strip() or "␣")
        text = (EDGE if apart[n] else "") + text + (EDGE if apart[n + 1] else "")
        parts.append((_gap(piece) if n else "") + _box(text, float(exp.scores[piece.token]), scale))
    return "".join(parts)


def _gap(piece: Piece) -> str:
    if "\n" in piece.gap:
        return "\\par\n"
    if piece.gap or piece.text[:1].isspace():
        return "\n"
    return "\\allowbreak\n" if is_wide(piece.text[:1]) else "%\n"


def _box(shown: str, score: float, scale: float) -> str:
    fill = shade(score, scale)
    red, green, blue = (int(fill[i : i + 2], 16) for i in (1, 3, 5))
    if fill == "#ffffff":
        return shown
    if contrast_text((red, green, blue)) == "#ffffff":
        shown = f"\\textcolor{{white}}{{{shown}}}"
    return f"\\colorbox[RGB]{{{red},{green},{blue}}}{{\\strut{{}}{shown}}}"


def _patches(exp: Explanation) -> str:
    """The heat map of an image as rows of small boxes."""
    scale = scale_of(np.asarray(exp.scores))
    rows = []
    for row in exp.scores:
        fills = [shade(float(score), scale) for score in row]
        cells = (",".join(str(int(f[i : i + 2], 16)) for i in (1, 3, 5)) for f in fills)
        rows.append("".join(f"\\textcolor[RGB]{{{cell}}}{{\\rule{{1.5ex}}{{1.5ex}}}}" for cell in cells))
    return "{\\offinterlineskip\\parindent0pt\\par\n" + "\\par\n".join(rows) + "\\par}\n"
