"""Where units stand in the text: as their names read, so that they can be shown again with the space between them."""

from __future__ import annotations

import numpy as np

from whence.results import Explanation
from whence.results.units import sentences

TOKENS = ("It", " rain", "ed", ".", " Then", " sun", ".\n")


def explanation() -> Explanation:
    ends = np.cumsum([len(token) for token in TOKENS]).tolist()
    return Explanation(
        np.ones(len(TOKENS)),
        tokens=TOKENS,
        text="".join(TOKENS),
        offsets=tuple(zip([0, *ends[:-1]], ends, strict=True)),
        word_ids=(0, 1, 1, 1, 2, 3, 3),
    )


def test_offsets_of_units_hold_their_names():
    for unit in ("word", "sentence"):
        made = explanation().by(unit)
        assert [made.text[a:b] for a, b in made.offsets] == list(made.tokens)


def test_numbers_of_a_list_are_no_sentences():
    text = "1. It rained. (2) It snowed.\n- It ended. The year was 1999. It was cold."
    assert [text[a:b].strip() for a, b in sentences(text)] == [
        "1. It rained.",
        "(2) It snowed.",
        "- It ended.",
        "The year was 1999.",
        "It was cold.",
    ]
