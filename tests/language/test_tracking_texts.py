"""Texts with needles and chains of variables: answers follow from their lines, and evidence is the lines they take."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
import torch
import transformers

from training import tracking

TRAINING = Path(tracking.__file__).parent


def cases(kind, count=60, size=1.0, seed=3):
    generator = torch.Generator().manual_seed(seed)
    contexts = tracking.make(count, generator, size=size)
    asked = tracking.ask(kind, contexts, 2, generator)
    return [tracking.case(contexts, asked, n, q) for n in range(count) for q in range(2)]


def sentences(case):
    """The lines as they stand: from each ; or . to the next, and the number of each."""
    made, held = [], []
    for word, line in zip(case.context, case.lines, strict=True):
        held.append((word, line))
        if word in (";", "."):
            assert len({number for _, number in held}) == 1
            made.append(([w for w, _ in held], held[0][1]))
            held = []
    assert not held
    return made


def followed(case, variable):
    """Its value and the lines that lead to it, read from the words alone."""
    said = {words[0]: (words[2], number) for words, number in sentences(case) if words[1] == "="}
    lines = []
    while variable in said:
        variable, number = said[variable]
        lines.append(number)
    return variable, lines


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_a_code_is_the_one_that_its_needle_says(size):
    for case in cases("needle", size=size):
        assert case.question[:-2] == "what is the code of".split()
        name = case.question[-2]
        (found,) = [(words, n) for words, n in sentences(case) if words[:2] == ["the", "code"] and words[3] == name]
        assert case.answer == [found[0][5]]
        assert case.evidence == [found[1]]
        assert [w for w, held in zip(case.context, case.holds(), strict=True) if held] == found[0]
        assert [w for w, own in zip(case.context, case.decides(), strict=True) if own] == [name, *case.answer]


@pytest.mark.parametrize("size", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["direct", "steps"])
def test_a_variable_is_what_its_chain_leads_to(kind, size):
    depths = set()
    for case in cases(kind, size=size):
        value, lines = followed(case, case.question[2])
        assert case.answer[-1] == value
        assert sorted(lines) == case.evidence
        assert sum(case.holds()) == 4 * len(lines)
        assert sum(case.decides()) == 2 * len(lines)
        depths.add(len(lines))
    assert depths == {1, 2, 3, 4}


def test_steps_are_the_lines_of_the_chain_from_the_question_back():
    for case in cases("steps"):
        assert case.question[3:] == "? step by step".split()
        steps = [case.answer[n : n + 4] for n in range(0, len(case.answer) - 2, 4)]
        told = {number: words for words, number in sentences(case)}
        _, lines = followed(case, case.question[2])
        assert steps == [told[number] for number in lines]
        assert case.answer[-2:] == ["answer", steps[-1][2]]


def test_a_variable_stands_before_it_is_used():
    for case in cases("direct"):
        known = set()
        for words, _ in sentences(case):
            if words[1] == "=":
                assert words[2] in known or words[2] in tracking.VALUES
                known.add(words[0])


def test_texts_fit_and_are_the_same_for_a_seed():
    for size in (0.0, 0.3, 1.0):
        first, again = (tracking.make(50, torch.Generator().manual_seed(7), size=size) for _ in range(2))
        assert torch.equal(first.words, again.words)
        assert int(first.lengths.max()) <= tracking.room(size) == first.words.shape[1]
        assert not (first.words == tracking.NUMBER["<unk>"]).any()
    longest = max(len(case.context) + len(case.question) + len(case.answer) for case in cases("steps"))
    assert longest <= tracking.room() + 26 < 512


def test_questions_asked_together_are_answered_as_when_asked_alone(monkeypatch):
    monkeypatch.syspath_prepend(str(TRAINING))
    train = import_module("train_tracking")
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            vocab_size=len(tracking.WORDS), initializer_range=0.5,
        )
    ).double()  # fmt: skip
    generator = torch.Generator().manual_seed(1)
    contexts = tracking.make(3, generator, size=0.1)
    asked = [tracking.ask(kind, contexts, 2, generator) for kind in tracking.KINDS]
    with torch.no_grad():
        together = train.answered(model, contexts, asked)
        for found, one in zip(together, asked, strict=True):
            words, written = train.alone(contexts, one)
            logits = model(words).logits
            for n, length in enumerate(contexts.lengths.tolist()):
                alone = logits[n, length : length + one.words.shape[-1]]
                torch.testing.assert_close(found[n, 0], alone)
                assert written[n].sum() == one.answers[n, 0].sum()
