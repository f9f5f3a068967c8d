"""Questions of SQuAD 2.0 with the paragraph that answers them among paragraphs that do not.

Half of the others are of the same article: near-duplicates, about the same things. None of the others has the answer's
words in it, and no paragraph is the right one twice, so that cases are independent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from whence.results.units import sentences

__all__ = ["Question", "brief", "mixed", "questions", "says", "spelled"]

LONGEST = 2000
"""Characters of a paragraph. The few longer ones would make twenty too many for small models."""
FRAGMENT = 30
"""Characters under which what looks like a sentence is a remnant of one."""
Article = Sequence[str]


class Question(NamedTuple):
    """What is asked, of which documents, and what should be answered."""

    id: str
    text: str
    answer: str
    documents: tuple[str, ...]
    right: int
    """The document that has the answer."""
    near: tuple[int, ...]
    """Those that are of the same article."""


def says(text: str, words: str) -> bool:
    """Whether the words stand in the text, in small or large letters."""
    return words.casefold() in text.casefold()


def spelled(words: str, text: str) -> str:
    """Words as they are spelled in a text that says them."""
    at = text.casefold().find(words.casefold())
    return text[at : at + len(words)]


def questions(data: Path, documents: int, seed: int = 0, short: bool = False) -> Iterator[Question]:
    """Questions in an order that the seed chooses, among so many documents; `short` keeps a sentence of each."""
    library, used = articles(data), set()
    rows: list[dict[str, Any]] = json.loads((data / "attribution_llm" / "squad_v2.0.json").read_text(encoding="utf-8"))
    random.Random(seed).shuffle(rows)
    for row in rows:
        context = row["context"].strip()
        if len(context) > LONGEST or context in used:
            continue
        made = mixed(row, library, documents, random.Random(f"{seed} {row['id']}"))
        if made is None:
            continue
        used.add(context)
        if short:
            made = made._replace(documents=tuple(brief(text, made.answer) for text in made.documents))
        yield made


def articles(data: Path) -> list[Article]:
    """The paragraphs of every article."""
    library = []
    for path in sorted((data / "squad").glob("*.json")):
        read = json.loads(path.read_text(encoding="utf-8"))
        for article in read["data"] if isinstance(read, dict) else read:
            texts = dict.fromkeys(paragraph["context"].strip() for paragraph in article["paragraphs"])
            library.append([text for text in texts if len(text) <= LONGEST])
    return library


def mixed(row: dict[str, Any], library: Sequence[Article], documents: int, rng: random.Random) -> Question | None:
    """A question with its paragraph at a random place among others; None where there are too few others."""
    context, answer = row["context"].strip(), row["answer"]
    fit = lambda text: text != context and not says(text, answer)
    own = [text for article in library if context in article for text in article if fit(text)]
    others = [text for article in library if context not in article for text in article if fit(text)]
    near = rng.sample(own, min(len(own), (documents - 1) // 2))
    if len(others) < documents - 1 - len(near):
        return None
    held = [context, *near, *rng.sample(others, documents - 1 - len(near))]
    order = rng.sample(range(documents), documents)
    return Question(
        id=row["id"],
        text=row["question"].strip(),
        answer=answer,
        documents=tuple(held[n] for n in order),
        right=order.index(0),
        near=tuple(n for n, place in enumerate(order) if 0 < place <= len(near)),
    )


def brief(text: str, answer: str) -> str:
    """The sentence that has the answer; where none has, the shortest that is no fragment."""
    found = [text[a:b].strip() for a, b in sentences(text)]
    holding = [sentence for sentence in found if says(sentence, answer)]
    return min(holding or found, key=lambda sentence: (len(sentence) < FRAGMENT, len(sentence)))
