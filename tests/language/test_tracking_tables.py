"""Recovery@k by hand; FlashTrace by hand; and a table of a model that was never trained."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from benchmarks.language import flashtrace
from benchmarks.language import tracking as tables
from benchmarks.language.asking import Reader
from training import tracking


def flags(*wanted, of):
    return np.isin(np.arange(of), wanted)


def test_hits_are_counted_among_the_strongest():
    scores = np.array([0.1, 0.9, -2.0, 0.5, 0.4])
    assert tables.hits(scores, flags(1, 3, of=5), 2) == 2
    assert tables.hits(scores, flags(1, 4, of=5), 2) == 1
    assert tables.hits(scores, flags(1, 4, of=5), 1) == 1
    assert tables.hits(scores, flags(2, of=5), 1) == 0  # strong, but against


def test_equal_scores_share_their_places():
    """One place is left for two, of which one is wanted; four places for all of ten."""
    assert tables.hits(np.array([3.0, 1.0, 1.0, 0.0]), flags(0, 1, of=4), 2) == 1.5
    assert tables.hits(np.zeros(10), flags(0, 1, 2, 3, of=10), 4) == pytest.approx(1.6)


def test_recovery_of_words_and_of_lines():
    """Two lines of three words, and one of filler; the second decides with its first and last word."""
    asked = tables.Tracked(
        example=None,
        lines=np.array([-1, 4, 4, 4, 7, 7, 7, 9, 9, -1]),
        evidence=flags(4, 5, 6, of=10),
        deciding=flags(4, 6, of=10),
    )
    found = tables.judged(np.array([9.0, 0.0, 2.0, -1.0, 3.0, -1.0, 1.0, 0.0, -4.0, 9.0]), asked)
    assert found == {"words": 0.5, "lines": 1.0, "top": 1.0, "share": pytest.approx(4 / 6)}
    found = tables.judged(np.array([9.0, 0.0, 5.0, 0.0, 3.0, -1.0, 1.0, 0.0, -4.0, 9.0]), asked)
    assert found == {"words": 0.5, "lines": 0.0, "top": 0.0, "share": pytest.approx(4 / 9)}


# -- FlashTrace --------------------------------------------------------------------------------------------------------


def layer(brought, weights, before):
    """One head of a model as wide as one."""
    brought, weights, before = (torch.tensor(x, dtype=torch.float64) for x in (brought, weights, before))
    behind = before + weights @ brought
    return flashtrace.Layer(before[:, None], behind[:, None], brought[:, None, None], weights[None])


TOY = layer([4.0, 2.0, 8.0], [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]], [1.0, 1.0, 1.0])


def test_importance_is_nearness_to_what_is_held():
    """Token 2 holds 6.5: 1 + 0.5 + 4 of the three tokens, and 1 that it had. Numbers of one sign add up in full."""
    found = flashtrace.importance([TOY], range(2, 3))
    torch.testing.assert_close(found, torch.tensor([1.0, 0.5, 4.0], dtype=torch.float64) / 6.5)
    opposite = layer([4.0, -1.0], [[1, 0], [0.5, 0.5]], [0.0, 0.0])
    torch.testing.assert_close(flashtrace.importance([opposite], range(1, 2)), torch.tensor([1.0, 0.0]).double())


def test_importance_of_several_tokens_is_that_of_their_weighted_sum():
    """Half of token 1 (4 = 2 + 1 + 1) and half of token 2 (6.5): 0.5·2 + 0.5·1 of the first token …"""
    found = flashtrace.importance([TOY, TOY], range(1, 3), torch.tensor([0.5, 0.5]).double())
    torch.testing.assert_close(found, 2 * torch.tensor([1.5, 0.75, 2.0]).double() / 5.25)


def test_hops_go_through_the_reasoning():
    """Of 5.5 that token 2 gets from tokens, 0.5 is of the reasoning, token 1; of its 4 the prompt gave 2."""
    none = flashtrace.recursive([TOY], 1, range(1, 2), range(2, 3), 0)
    torch.testing.assert_close(none, torch.tensor([1 / 6.5, 0, 0]).double())
    once = flashtrace.recursive([TOY], 1, range(1, 2), range(2, 3), 1)
    torch.testing.assert_close(once[0], torch.tensor(1 / 6.5 + 0.5 / 5.5 * 2 / 4).double())
    twice = flashtrace.recursive([TOY], 1, range(1, 2), range(2, 3), 2)
    torch.testing.assert_close(twice[0] - once[0], torch.tensor(0.5 / 5.5 * 1 / 3 * 2 / 4).double())
    shifted = flashtrace.recursive([TOY], 2, range(2, 2), range(2, 3), 1, shift=1)
    torch.testing.assert_close(shifted, torch.tensor([0.5, 0.25, 0]).double())


def test_what_heads_bring_adds_up_to_what_attention_writes():
    torch.manual_seed(0)
    model = small_llama().double()
    before = model.config._attn_implementation
    for one in flashtrace.layers_of(model, torch.arange(4, 12)):
        written = torch.einsum("hij,jhk->ik", one.weights, one.brought)
        torch.testing.assert_close(one.before + written, one.behind)
    assert model.config._attn_implementation == before


# -- tables ------------------------------------------------------------------------------------------------------------


def small_llama():
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=len(tracking.WORDS), max_position_embeddings=512,
        )
    ).eval()  # fmt: skip


@pytest.fixture
def reader(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(tracking.__file__).parent))
    torch.manual_seed(0)
    small_llama().save_pretrained(tmp_path)
    import_module("train_tracking").new_tokenizer().save_pretrained(tmp_path)
    return Reader(str(tmp_path), "cpu")


def test_every_token_is_a_word(reader):
    case = next(tables.drawn("steps"))
    asked = tables.tracked(reader, case)
    ids = [*asked.example.inputs["input_ids"].tolist(), asked.example.written[-1]]
    assert [tracking.WORDS[n] for n in ids] == ["<s>", *case.context, *case.question, *case.answer]
    assert len(asked.example.written) == len(case.answer)
    held = [tracking.WORDS[n] for n, own in zip(ids, asked.evidence, strict=False) if own]
    assert sorted(held[n : n + 4] for n in range(0, len(held), 4)) == sorted(
        case.answer[n : n + 4] for n in range(0, len(case.answer) - 2, 4)
    )
    assert (asked.lines >= 0).sum() == len(case.context)


def test_a_table_has_a_row_for_each_method_with_and_without_hops(reader, monkeypatch):
    monkeypatch.setattr(reader, "is_right", lambda example: True)
    found = tables.measured("variables-steps", reader, None, ("random", "exact"), 2)
    assert list(found["made"]) == [
        "random", "exact", "flashtrace", "flashtrace predicting", "exact hops=1", "exact hops=all",
        "flashtrace hops=1", "flashtrace hops=4", "flashtrace predicting hops=1", "flashtrace predicting hops=4",
    ]  # fmt: skip
    for values in found["made"].values():
        assert all(len(measure) == 2 and np.isfinite(measure).all() for measure in values.values())
    page = tables.section(found)
    assert "| `exact hops=all` |" in page
    assert "against `exact hops=all`, paired" in page


def test_models_that_can_not_be_asked(reader, monkeypatch):
    with pytest.raises(SystemExit, match="none of 20 questions"):
        tables.measured("needle", reader, None, ("random",), 1)
    monkeypatch.setattr(tables, "knows", lambda reader: False)
    with pytest.raises(SystemExit, match="train_tracking"):
        tables.measured("needle", reader, None, ("random",), 1)
