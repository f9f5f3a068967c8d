"""Texts whose circuits are known from the literature: who gets it (indirect objects), and which year comes later.

    When Mary and John went to the store , John gave a drink to        → Mary        [Wang et al. 2022]
    The war lasted from 17 32 to 17                                    → 33 … 99     [Hanna et al. 2023]

Every text has a corrupt one with as many words, in which the deciding word is another: a third name gives, or the year
is the first. Words are parted by spaces, and each is one token.
"""

from __future__ import annotations

import random
from typing import NamedTuple

__all__ = ["NAMES", "WORDS", "YEARS", "Pair", "later", "receiver"]

NAMES = (
    "Mary John Tom Anna Paul Lucy Mark Emma Jack Rose Adam Jane Luke Ruth Carl Lily Dean Nora Eric Sara Fred Kate Glen "
    "Ella Hugh Iris Ivan Jill Kurt Leah Neil Mona Owen Nina Pete Olga Ross Tess Sean Vera"
).split()
PLACES = "store park school office beach market garden museum".split()
THINGS = "drink book ring ball flower letter key basket".split()
EVENTS = "war trip siege feud voyage drought reign strike".split()
YEARS = [f"{n:02d}" for n in range(100)]
CENTURIES = ["16", "17", "18"]
GIVING = (
    "When {a} and {b} went to the {place} , {c} gave a {thing} to",
    "Then , {a} and {b} were at the {place} . {c} handed a {thing} to",
    "After {a} and {b} found a {thing} at the {place} , {c} gave it to",
    "{a} and {b} had lunch near the {place} , and {c} passed the {thing} to",
)
LASTING = (
    "The {event} lasted from {century} {year} to {century}",
    "A {event} that began in {century} {year} ended in {century}",
)
_FIXED = sorted({word for text in GIVING + LASTING for word in text.split() if "{" not in word})
_CENTURY = {century: f"{century}:" for century in CENTURIES}
WORDS = ["<pad>", "<s>", "</s>", "<unk>", *_FIXED, *NAMES, *PLACES, *THINGS, *EVENTS, *_CENTURY.values(), *YEARS]
"""A century is written with a colon, 17: 32, for it would be a year otherwise."""


class Pair(NamedTuple):
    """A text, its corrupt twin, and what follows."""

    clean: str
    corrupt: str
    right: tuple[str, ...]
    """Any of these words is right behind the clean text."""
    wrong: tuple[str, ...]
    """The words that would be taken for it."""


def receiver(draw: random.Random) -> Pair:
    """Of two people one gives: the other gets it. In the corrupt text a third person gives."""
    a, b, other = draw.sample(NAMES, 3)
    given = {"a": a, "b": b, "place": draw.choice(PLACES), "thing": draw.choice(THINGS)}
    text, giver = draw.choice(GIVING), draw.choice((a, b))
    gets = b if giver == a else a
    return Pair(text.format(c=giver, **given), text.format(c=other, **given), (gets,), (giver,))


def later(draw: random.Random) -> Pair:
    """What lasts ends in a later year. In the corrupt text it begins in 01, and any year is later."""
    year = draw.randrange(2, 98)
    given = {"event": draw.choice(EVENTS), "century": _CENTURY[draw.choice(CENTURIES)]}
    text = draw.choice(LASTING)
    clean, corrupt = (text.format(year=YEARS[n], **given) for n in (year, 1))
    return Pair(clean, corrupt, tuple(YEARS[year + 1 :]), tuple(YEARS[: year + 1]))
