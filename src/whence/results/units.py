"""The units that people think in: words, sentences, messages, documents, or stretches of the text that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from whence.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from whence.results.explanation import Explanation

__all__ = ["Unit", "Units", "by_unit", "groups_of", "letters", "sentences", "tokens_reading", "words_among"]

Unit = Literal["token", "word", "sentence", "message", "document"]
Units = Unit | Sequence[Any] | Mapping[str, Any]
"""A unit's name; or stretches of the text, by first character and end or by what they read, with or without names."""
Span = tuple[int, int]

ENDS = re.compile(r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s)|[。！？]++["'”’」』）]*+|\n++""")
"""Where a sentence may end. No mark is looked at twice, however many there are."""
ABBREVIATED = re.compile(
    r"(?:\b(?:[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|Mt|vs|etc|No|Nos|Fig|Eq|Sec|Vol|pp|al|cf|ca|approx|Inc|Ltd|Co|Gen|Col|"
    r"Gov|Sen|Rep|Capt|Lt|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)|e\.g|i\.e)\.$"
)
"""What ends in a full stop that ends no sentence. A single letter is an initial."""
SPACE = re.compile(r"\s*")
NUMBERED = re.compile(r"[(\[]?\d{1,3}[.)\]]+|[-*•]")
"""What begins a line of a list: it is no sentence of its own."""


def sentences(text: str) -> list[tuple[int, int]]:
    """Where each sentence stands, the space behind it included: together they are the text.

    >>> text = "It rained. Dr. Who left, e.g. by bus!"
    >>> [text[a:b] for a, b in sentences(text)]
    ['It rained. ', 'Dr. Who left, e.g. by bus!']
    >>> len(sentences("1. It rained. 2. It snowed."))
    2
    """
    found, begin, rest = [], 0, 0
    first = _behind_space(text, 0)  # of the letters of the sentence
    for match in ENDS.finditer(text):
        end, mark = match.end(), match.group()
        rest = _behind_space(text, end) if end > rest else rest
        behind = text[rest : rest + 1]
        is_line = "\n" in mark
        if not is_line and ABBREVIATED.search(text[max(0, end - 12) : end]):
            continue
        if behind.islower() and not ("\n\n" in mark or "!" in mark or "?" in mark):
            continue
        if first >= end or (not is_line and NUMBERED.fullmatch(text, first, end)):
            continue
        found.append((begin, rest))
        begin = first = rest
    return found if begin == len(text) and found else [*found, (begin, len(text))]


def _behind_space(text: str, at: int) -> int:
    return SPACE.match(text, at).end()  # type: ignore[union-attr]  # no space is a match as well


def groups_of(exp: Explanation, by: Units) -> list[tuple[str, list[int]]]:
    """The features of a text in groups: the name of each and which features it has, in their order."""
    if not exp.tokens:
        raise InputError(f"this explanation has no text, so its features can't be taken by {by!r}")
    if by == "token":
        return [(token, [n]) for n, token in enumerate(exp.tokens)]
    if by == "word":
        return [(word.text, list(word.tokens)) for word in exp.words()]
    text, offsets = _laid_out(exp)
    if by == "sentence":
        return _named(text, offsets, _runs(exp, _within(exp, text, offsets)))
    if by in ("message", "document"):
        if not exp.sides:
            raise InputError(f"nobody said which tokens belong to which {by}: pass messages, or by={{name: text, …}}")
        return [(exp.sides[own[0]] or name, own) for name, own in _named(text, offsets, _runs(exp, exp.sides))]
    if isinstance(by, str) or not isinstance(by, (Sequence, Mapping)):
        raise UnknownNameError("unit", str(by), get_args(Unit))
    return _chosen(exp, by, text, offsets)


def _chosen(exp: Explanation, by: Any, text: str, offsets: Sequence[Span]) -> list[tuple[str, list[int]]]:
    """Stretches that were named, and tokens that are in none of them."""
    named = list(by.items()) if isinstance(by, Mapping) else [(None, one) for one in by]
    places: list[int | None] = [None] * len(offsets)
    titles = []
    for n, (name, one) in enumerate(named):
        begin, end = _place(one, text)
        titles.append(str(name) if name is not None else text[begin:end].strip())
        for k, (a, b) in enumerate(offsets):
            if a < end and b > begin and b > a:
                if places[k] is not None:
                    raise InputError(f"{titles[n]!r} and {titles[places[k] or 0]!r} overlap in {exp.tokens[k]!r}")
                places[k] = n
    runs = _runs(exp, [-1 - k if place is None else place for k, place in enumerate(places)])
    held = [places[run[0]] for run in runs]
    read = _named(text, offsets, runs)
    return [(name if n is None else titles[n], own) for (name, own), n in zip(read, held, strict=True)]


def _place(one: Any, text: str) -> Span:
    """A stretch of the text: its first character and the one behind its last, or what it reads."""
    if isinstance(one, str):
        begin = text.find(one)
        if begin < 0 or not one:
            raise InputError(f"{one!r} does not stand in the text")
        return begin, begin + len(one)
    try:
        begin, end = (int(n) for n in one)
    except (TypeError, ValueError):
        raise InputError(f"{one!r} is no stretch of the text: pass (first character, end) or what it reads") from None
    if not 0 <= begin < end <= len(text):
        raise InputError(f"({begin}, {end}) is no stretch of the text, which has {len(text)} characters")
    return begin, end


def _laid_out(exp: Explanation) -> tuple[str, Sequence[Span]]:
    """The text and where each token stands in it; where nobody knows, the tokens in a row are the text.

    There a token that reads as nothing is a part of the character before it, and stands where that stands.
    """
    if exp.text is not None and exp.offsets:
        return exp.text, exp.offsets
    text, spans = "", [(0, 0)]
    for token in exp.tokens:
        spans.append((len(text), len(text) + len(token)) if token else spans[-1])
        text += token
    return text, spans[1:]


def _within(exp: Explanation, text: str, offsets: Sequence[Span]) -> list[int]:
    """In which sentence each token is; special tokens, and those that stand nowhere, have a number of their own."""
    begins = [begin for begin, _ in sentences(text)]
    inside = np.searchsorted(begins, letters(text, offsets), side="right") - 1
    alone = [b <= a or bool(exp.special and exp.special[k]) for k, (a, b) in enumerate(offsets)]
    return [-1 - k if alone[k] else int(n) for k, n in enumerate(inside)]


def letters(text: str, offsets: Sequence[Span]) -> list[int]:
    """Where the first letter of each token stands: the space that it begins with is not of what it reads.

    >>> letters("It is", [(0, 2), (2, 5)])
    [0, 3]
    """
    return [a + len(text[a:b]) - len(text[a:b].lstrip() or text[a:b]) for a, b in offsets]


def _runs(exp: Explanation, keys: Sequence[Any]) -> list[list[int]]:
    """Neighbours with the same key, on the same side and of the same part."""
    ends = np.cumsum([part.count for part in exp.parts]).tolist()
    parts = np.searchsorted(ends, range(len(keys)), side="right") if ends else np.zeros(len(keys))
    runs: list[list[int]] = []
    last: Any = None
    for k, key in enumerate(keys):
        own = (key, exp.sides[k] if exp.sides else "", int(parts[k]))
        if own == last:
            runs[-1].append(k)
        else:
            runs.append([k])
        last = own
    return runs


def _named(text: str, offsets: Sequence[Span], runs: list[list[int]]) -> list[tuple[str, list[int]]]:
    """Each run with the text that it stands for."""
    made = []
    for run in runs:
        spans = [offsets[k] for k in run if offsets[k][1] > offsets[k][0]]
        read = text[spans[0][0] : spans[-1][1]] if spans else ""
        made.append((read.strip() or read, run))
    return made


def by_unit(exp: Explanation, by: Any) -> Explanation:
    """The same explanation over larger units: scores of the tokens of each are summed."""
    if by == "token":
        return exp
    groups = groups_of(exp, by)
    names = [name or "".join(exp.tokens[k] for k in own) for name, own in groups]
    text, offsets = _laid_out(exp)
    spans = [[offsets[k] for k in own if offsets[k][1] > offsets[k][0]] for _, own in groups]
    first = [own[0] for _, own in groups]
    flat = exp.scores.reshape(-1).astype(np.float64)
    ends = np.cumsum([part.count for part in exp.parts]).tolist()
    counts = np.bincount(np.searchsorted(ends, first, side="right"), minlength=len(ends)) if ends else ()
    return replace(
        exp,
        scores=np.array([flat[own].sum() for _, own in groups], dtype=np.float32),
        tokens=tuple(names),
        offsets=tuple(_trimmed(text, own[0][0], own[-1][1]) if own else (0, 0) for own in spans),
        text=text,
        word_ids=(),
        special=tuple(all(exp.special[k] for k in own) for _, own in groups) if exp.special else (),
        sides=tuple(exp.sides[k] for k in first) if exp.sides else (),
        parts=tuple(
            replace(part, shape=(int(n),)) if int(n) != part.count else part
            for part, n in zip(exp.parts, counts, strict=True)
        ),
    )


def _trimmed(text: str, begin: int, end: int) -> Span:
    """A stretch without the white space around it, as its name reads; where it is nothing else, as it is."""
    read = text[begin:end]
    if not read.strip():
        return begin, end
    return begin + len(read) - len(read.lstrip()), end - len(read) + len(read.rstrip())


def words_among(tokens: Sequence[str]) -> tuple[int | None, ...]:
    r"""Which word each token belongs to: a new one begins at a space, which is a part of it.

    >>> words_among([" a", " ", "g", "em", "\n"])
    (0, 1, 1, 1, 2)
    """
    number, held = 0, ""
    made: list[int | None] = []
    for token in tokens:
        if held.strip() and (token[:1].isspace() or held[-1:].isspace()):
            number, held = number + 1, ""
        held += token
        made.append(number)
    return tuple(made)


def tokens_reading(words: str, tokens: Sequence[str]) -> range:
    """The tokens in which these words stand, where they stand first. One without text is a part of that before it.

    >>> tokens_reading("a gem", ["It", " is", " a", " g", "em", "."])
    range(2, 5)
    >>> tokens_reading("é", ["caf", "é", "", "!"])
    range(1, 3)
    """
    text = "".join(tokens)
    begin = text.find(words)
    if begin < 0 or not words:
        raise InputError(f"{words!r} was not written: {text!r} was")
    ends = np.cumsum([len(token) for token in tokens])
    first, last = np.searchsorted(ends, [begin, begin + len(words) - 1], side="right")
    return range(int(first), next((n for n in range(int(last) + 1, len(tokens)) if tokens[n]), len(tokens)))
