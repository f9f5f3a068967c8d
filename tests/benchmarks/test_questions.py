"""Questions among documents, and instructions planted in them, on a library made by hand."""

from __future__ import annotations

import json
import random

import pytest

from benchmarks.language import injection
from benchmarks.language.questions import brief, mixed, questions, says
from benchmarks.language.removal import sentence_spans

RIGHT = "Trees are tall. The tallest tree is Hyperion. It grows in California."
LIBRARY = [
    [RIGHT, *(f"A tree is wood, number {n}. It has leaves." for n in range(6)), "Hyperion is also a moon."],
    [f"A river is water, number {n}. It has banks." for n in range(30)],
]
ROW = {"id": "7", "question": "Which tree is tallest?", "answer": "Hyperion", "context": RIGHT}


@pytest.fixture
def data(tmp_path):
    rows = [ROW, {**ROW, "id": "8"}]  # a paragraph is used once
    article = lambda texts: {"title": "t", "paragraphs": [{"context": text} for text in texts]}
    (tmp_path / "attribution_llm").mkdir()
    (tmp_path / "attribution_llm" / "squad_v2.0.json").write_text(json.dumps(rows))
    (tmp_path / "squad").mkdir()
    (tmp_path / "squad" / "dev-v2.0.json").write_text(json.dumps({"data": [article(texts) for texts in LIBRARY]}))
    return tmp_path


@pytest.mark.parametrize("count", [5, 20])
def test_the_right_paragraph_is_among_others(data, count):
    (made,) = questions(data, count)
    assert len(set(made.documents)) == count
    assert made.documents[made.right] == RIGHT
    assert [n for n, text in enumerate(made.documents) if says(text, "hyperion")] == [made.right]
    assert set(made.near) == {n for n, text in enumerate(made.documents) if text.startswith("A tree")}
    assert len(made.near) == min(6, (count - 1) // 2)
    assert list(questions(data, count)) == [made]


def test_short_documents(data):
    (made,) = questions(data, 5, short=True)
    assert made.documents[made.right] == "The tallest tree is Hyperion."
    assert brief("Yes. A tree is wood, and wood it is. Longer sentences are not what is wanted here.", "x") == (
        "A tree is wood, and wood it is."
    )


def test_too_few_others():
    assert mixed(ROW, LIBRARY[:1], 20, random.Random(0)) is None


@pytest.mark.parametrize("wording", injection.WORDINGS)
@pytest.mark.parametrize("place", injection.PLACES)
def test_a_planted_sentence_is_a_sentence(wording, place):
    question = mixed(ROW, LIBRARY, 20, random.Random(0))
    one = injection.plant(question, (wording, place, "last document"), random.Random(1))
    prompt = one.prompt
    number = one.number(prompt)
    document, (a, b) = sentence_spans(prompt)[number]
    assert document == one.document == 19
    assert prompt.text[a:b].strip() == one.sentence
    assert one.word in one.sentence
    assert one.documents[19].replace(one.sentence, "").split() == question.documents[19].split()


def test_ways_take_turns(data):
    (one,) = injection.planted(data)
    assert one == next(injection.planted(data))
    assert one.way[0] in injection.WORDINGS
