"""Networks without context, guided by weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import whence
from tests.diagnostics.models import Pooled
from whence.diagnostics.guided import Guided, _split
from whence.diagnostics.subject import Subject
from whence.errors import InputError


def _telling(count: int = 24, length: int = 10) -> tuple[Pooled, torch.Tensor]:
    """Words 0 and 1 decide the class and have the attention; the other words are noise of larger size."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.zeros(40, dtype=torch.float64)
    scores[:2] = 8.0
    values = torch.randn(40, 6, generator=generator, dtype=torch.float64)
    values[0], values[1] = values[2:].mean(0), -values[2:].mean(0)
    values[0, 0], values[1, 0] = 2.0, -2.0
    head = torch.tensor([[3.0, -3.0]] + [[0.0, 0.0]] * 5, dtype=torch.float64)
    ids = torch.randint(2, 40, (count, length), generator=generator)
    ids[torch.arange(count), torch.randint(0, length, (count,), generator=generator)] = torch.arange(count) % 2
    return Pooled(scores, values, head).eval(), ids


def test_attention_on_the_telling_word_guides_best():
    model, ids = _telling()
    subject = Subject.of(whence.load(model), {"input_ids": ids})
    section = Guided(steps=20, seeds=3, guides=("uniform", "base")).ask(subject)
    by = {r["guide"]: r["accuracy"] for r in section.rows}
    assert by["base"] > 0.95
    assert by["uniform"] < by["base"] - 0.1
    assert "guides better than uniform" in section.text
    assert "the model's own predictions" in section.notes[0]


def test_every_example_is_held_out_once_and_classes_are_spread():
    labels = np.array([0] * 7 + [1] * 8)
    part = _split(labels, 3, seed=1)
    assert sorted(np.bincount(part)) == [5, 5, 5]
    for f in range(3):
        assert len(set(labels[part != f])) == 2


def test_one_class_only_is_an_error_that_says_what_to_type(sentiment):
    with pytest.raises(InputError, match=r"only 'positive'.*leave it out: sections="):
        Guided().check(Subject.of(sentiment, ["a gem", "wonderful and warm"]))
    with pytest.raises(InputError, match="one example of 'negative'"):
        Guided().check(Subject.of(sentiment, [("a gem", 1), ("wonderful", 1), ("dull", 0)]))


def test_the_adversary_guides_too(sentiment):
    data = [("a gem of a film", "positive"), ("so dull and slow", "negative")] * 3
    section = Guided(steps=3, seeds=2, epochs=5).ask(Subject.of(sentiment, data))
    guides = [r["guide"] for r in section.rows]
    assert guides == ["uniform", "learned", "base", "adversary", "(largest class)", "(the model itself)"]
    assert section.where(guide="(the model itself)")[0]["accuracy"] == 1
