"""An explanation in one sentence: what the model says, what speaks for it, and what against."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from whence.results.percents import percent

if TYPE_CHECKING:
    from whence.results.explanation import Explanation

__all__ = ["Phrase", "named_scores", "reasons", "verdict"]

Kind = Literal["", "said", "target", "for", "against"]
MOST = 3
"""Reasons that are named on each side."""
NEARLY = 0.5
"""Of the strongest reason: what has less is not named beside it."""
NOTABLE = 0.2
"""Of the strongest reason on the other side: what has less does not pull."""
EDGES = ".,;:!?\"'()[]{}`´…–—-«»“”‘’"
DOWN = {3: ("top", "middle", "bottom"), 2: ("top", "bottom"), 1: ("middle",)}
ACROSS = {3: ("left", "centre", "right"), 2: ("left", "right"), 1: ("centre",)}
"""Names of the parts of a picture that is cut into so many."""


class Phrase(NamedTuple):
    """A stretch of the sentence, and what it is: the prediction, the target, a reason, or nothing but words."""

    text: str
    kind: Kind = ""


def verdict(exp: Explanation) -> tuple[Phrase, ...]:
    """The sentence in pieces, so that a page can colour it; joined, it is plain text.

    Reasons are words (tokens where there are none) without special tokens, thirds of a picture, moments of a sound: up
    to three on each side, none with less than half of the strongest. What pulls the other way is named from a fifth of
    the strongest reason on. A method that does not look at the target only says where the model looked.

    >>> from whence.results import Explanation, Prediction
    >>> said = Prediction(("positive", "negative"), (1.5, 0.0), (0.82, 0.18))
    >>> exp = Explanation(np.array([2.0, 0.1, -0.9]), ("superb", "but", "dull"), "positive", prediction=said)
    >>> "".join(piece.text for piece in verdict(exp)).replace("\N{NO-BREAK SPACE}", " ")
    'The model says positive (82 %), mainly because of superb; dull pulls the other way.'
    """
    return (*_prediction(exp), *_reasons(exp), *_note(exp))


def _prediction(exp: Explanation) -> list[Phrase]:
    """What the model says; where something else is explained, that as the beginning of a sentence of its own."""
    label = exp.prediction.label
    if not label:
        return [Phrase("For "), Phrase(shown(exp.target) or "this score", "target")]
    shares = exp.prediction.probabilities
    sure = f" ({percent(shares[0])})" if shares and math.isfinite(shares[0]) else ""
    said = [Phrase("The model says "), Phrase(shown(label), "said"), *([Phrase(sure)] if sure else [])]
    if exp.target == label or not exp.target:
        return said
    if _against(exp):
        return [*said, Phrase(" rather than "), Phrase(_against(exp), "target")]
    return [*said, Phrase(". For "), Phrase(shown(exp.target), "target")]


def _against(exp: Explanation) -> str:
    """What the prediction is held against, where the target is the prediction rather than that."""
    begin = f"{exp.prediction.label} rather than "
    return shown(exp.target.removeprefix(begin)) if exp.prediction.label and exp.target.startswith(begin) else ""


def _reasons(exp: Explanation) -> list[Phrase]:
    names, scores = named_scores(exp)
    order = np.argsort(-scores, kind="stable")
    top, bottom = (float(scores[order[0]]), float(scores[order[-1]])) if len(order) else (0.0, 0.0)
    label = exp.prediction.label
    other = not label or (exp.target not in (label, "") and not _against(exp))
    if max(top, -bottom) <= 0:
        return [Phrase(" this method names no reason." if other else "; this method names no reason.")]
    if _even(scores, top):
        return [
            Phrase(" no part stands out by this method." if other else "; by this method no part of it stands out.")
        ]
    fors = _named(names, scores, order, top) if top > 0 else []
    against = _named(names, -scores, order[::-1], -bottom) if -bottom > 0 else []
    if not exp.class_specific:
        lead = " alone this method has nothing to say. " if other else ". "
        return [Phrase(lead), *_listed(fors, ""), Phrase(f" {_verb('stand', fors)} out, whatever the target.")]
    if not fors or top < NOTABLE * -bottom:  # nothing speaks for it to speak of
        lead = " speaks little; against it " if other else ", although little speaks for it; "
        verb = _verb("speak", against) if other else f"{_verb('pull', against)} the other way"
        return [Phrase(lead), *_listed(against, "against"), Phrase(f" {verb}.")]
    made = [Phrase(f" {_verb('speak', fors)} mainly " if other else ", mainly because of "), *_listed(fors, "for")]
    if -bottom < NOTABLE * top:
        return [*made, Phrase(".")]
    tail = f" {_verb('speak', against)} against it." if other else f" {_verb('pull', against)} the other way."
    return [*made, Phrase("; "), *_listed(against, "against"), Phrase(tail)]


def _even(scores: np.ndarray, top: float) -> bool:
    """Whether most of many reasons are about as strong as the strongest: naming three of them would mislead.

    >>> _even(np.array([1.0, 0.9, 0.9, 0.8, 0.1]), 1.0), _even(np.array([1.0, 0.9, 0.2, 0.1, 0.1]), 1.0)
    (True, False)
    """
    return top > 0 and int((scores >= NEARLY * top).sum()) > max(MOST, len(scores) / 2)


def _note(exp: Explanation) -> list[Phrase]:
    """What a reader must know to judge the sentence: that most of the scores are not at the words."""
    sizes = np.abs(np.nan_to_num(exp.scores.reshape(-1).astype(np.float64)))
    if not any(exp.special) or len(exp.special) != len(sizes) or not sizes.sum():
        return []
    share = float(sizes[np.array(exp.special)].sum() / sizes.sum())
    return [Phrase(f" {percent(share)} of this method's scores lie at special tokens.")] if share > 0.5 else []


def named_scores(exp: Explanation) -> tuple[list[str], np.ndarray]:
    """Names and scores of all that can be a reason."""
    names: list[str] = []
    scores: list[float] = []
    several = exp.apart()
    for one in several:
        own = one.laid_out()
        place = " of the picture" if len(several) > 1 and own.is_image and own.parts[0].kind != "frame" else ""
        values = own.scores.reshape(-1).astype(np.float64)
        for name, places in reasons(own):
            names.append(name + place)
            scores.append(float(np.nansum(values[places])))
    return names, np.array(scores)


def reasons(exp: Explanation) -> list[tuple[str, list[int]]]:
    """What of one input can be a reason, and its features: words (or tokens) that are not special, thirds of a picture
    each way, tenths of a sound."""
    return _of_picture(exp) if exp.is_image else _of_text(exp)


def _of_text(exp: Explanation) -> list[tuple[str, list[int]]]:
    if exp.word_ids and exp.tokens and len(exp.word_ids) == len(exp.tokens):
        found = [(w.text, list(w.tokens)) for w in exp.words() if not (exp.special and exp.special[w.tokens[0]])]
    else:
        kept = [n for n in range(len(exp)) if not (exp.special and exp.special[n])]
        found = [(exp.feature(n), [n]) for n in kept]
    return [(_bare(text), places) for text, places in found]


def _bare(text: str) -> str:
    """A word without the marks around it; a number keeps its sign, and a mark alone is quoted.

    >>> _bare(" “superb,”"), _bare("(-5)"), _bare(" – "), _bare(" ")
    ('superb', '-5', '“–”', 'white space')
    """
    bare = text.strip().strip(EDGES)
    sign = text[: text.find(bare)][-1:] if bare[:1].isdigit() else ""
    alone = f"“{text.strip()}”" if text.strip() else "white space"
    return (sign if sign == "-" else "") + bare or alone


def _of_picture(exp: Explanation) -> list[tuple[str, list[int]]]:
    """Thirds of a picture each way, or tenths of a sound: single patches mean nothing to people."""
    rows, columns = exp.scores.shape
    numbers = np.arange(rows * columns).reshape(rows, columns)
    if exp.parts and exp.parts[0].kind == "frame":
        bins = min(10, columns)
        edges = [round(n * columns / bins) for n in range(bins + 1)]
        seconds = exp.parts[0].seconds
        return [
            (f"{a * seconds:.2f}–{b * seconds:.2f} s", numbers[:, a:b].reshape(-1).tolist()) for a, b in pairwise(edges)
        ]
    down, across = min(3, rows), min(3, columns)
    made = []
    for i in range(down):
        for j in range(across):
            r = slice(round(i * rows / down), round((i + 1) * rows / down))
            c = slice(round(j * columns / across), round((j + 1) * columns / across))
            made.append((_place(i, j, down, across), numbers[r, c].reshape(-1).tolist()))
    return made


def _place(i: int, j: int, down: int, across: int) -> str:
    """Where a part of a picture is.

    >>> _place(0, 2, 3, 3), _place(1, 1, 3, 3), _place(1, 0, 3, 3), _place(1, 0, 2, 2), _place(0, 0, 1, 1)
    ('the top right', 'the centre', 'the left', 'the bottom left', 'the whole')
    """
    if down == across == 1:
        return "the whole"
    kept = [name for name in (DOWN[down][i], ACROSS[across][j]) if name not in ("middle", "centre")]
    return "the " + " ".join(kept) if kept else "the centre"


def _named(names: list[str], scores: np.ndarray, order: np.ndarray, most: float) -> list[str]:
    """The strongest, each once, as long as they are near the first."""
    kept: list[str] = []
    for n in order.tolist():
        if scores[n] < NEARLY * most or len(kept) == MOST:
            break
        if names[n] not in kept:
            kept.append(names[n])
    return kept


def _listed(names: list[str], kind: Kind) -> list[Phrase]:
    made: list[Phrase] = []
    for n, name in enumerate(names):
        if n:
            made.append(Phrase(" and " if n == len(names) - 1 else ", "))
        made.append(Phrase(name, kind))
    return made


def _verb(word: str, who: list[str]) -> str:
    return word if len(who) > 1 else word + "s"


def shown(label: str) -> str:
    """A label as it is said; marks alone are quoted, and of a token that is white space, its spelling.

    >>> shown(" Paris"), shown("."), shown("\\n")
    ('Paris', '“.”', '\\\\n')
    """
    bare = label.strip()
    return (bare if any(c.isalnum() for c in bare) else f"“{bare}”") if bare else repr(label)[1:-1]
