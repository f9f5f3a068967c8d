"""Keep, or run again: the same numbers, less memory, and a model that nobody touched."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest
import torch
from torch import nn

import whence
from tests import small
from whence.core import memory
from whence.core.rules import softmax
from whence.errors import OptionError
from zoo.build import build

FAMILIES = ["bert", "llama", "gpt2", "t5", "vit", "mixtral", "gemma2", "qwen3", "modernbert"]


def specimen(name: str) -> tuple[nn.Module, dict]:
    tasks = {"vit": "image-classification", "t5": "seq2seq-lm"}
    made = build(tasks.get(name, "sequence-classification"), name)
    return made.model, dict(made.inputs)


@pytest.mark.parametrize("method", ["exact", "gi", "attn_lrp", "gim"])
@pytest.mark.parametrize("name", FAMILIES)
def test_blocks_that_run_again_give_the_same(name, method, monkeypatch):
    monkeypatch.setattr(softmax, "SMALL", 0)  # long inputs' attention
    model, inputs = specimen(name)
    options = {"receipt": "full", "target": lambda outputs: outputs.logits.flatten(1)[:, 1]}
    kept = whence.explain(model, inputs, method, memory="keep", **options)
    again = whence.explain(model, inputs, method, memory="recompute", **options)
    for a, b in zip(kept, again, strict=True):
        np.testing.assert_allclose(b.scores, a.scores, atol=1e-5 * max(1, np.abs(a.scores).max()))
        assert b.target_score == pytest.approx(a.target_score, abs=1e-5)
        for kind, amount in a.conservation.sinks.items():
            assert b.conservation.sinks.get(kind, 0) == pytest.approx(amount, abs=1e-4 * a.conservation.scale)


class Stacked(nn.Module):
    """A model that transformers does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(20, 8), nn.Linear(8, 3)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean(1))


@pytest.mark.parametrize("method", ["exact", "gi", "gae"])
def test_blocks_of_any_module_run_again(method):
    model, ids, runs = small.seeded(lambda: small.randomised(Stacked()))(), torch.tensor([[3, 4, 5, 6]]), []
    kept = whence.explain(model, {"ids": ids}, method, 1, memory="keep")
    model.blocks[1].register_forward_pre_hook(lambda *given: runs.append(torch.is_grad_enabled()))
    again = whence.explain(model, {"ids": ids}, method, 1, memory="recompute")
    assert runs.count(True) == 2
    np.testing.assert_allclose(again.scores, kept.scores, atol=1e-6)


def bytes_held(model: nn.Module, choice: str) -> int:
    """What autograd keeps of one pass, as tensors and as numbers of blocks that will run again."""
    seen: dict[int, int] = {}

    def pack(t: torch.Tensor) -> torch.Tensor:
        seen[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with memory.planned(choice), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), memory.held(model):
        model(input_ids=torch.arange(2, 50)[None], use_cache=False)
    return sum(seen.values())


def test_fewer_bytes_are_held():
    kept, again = bytes_held(small.llama(), "keep"), bytes_held(small.llama(), "recompute")
    assert again < kept / 2


def test_a_budget_runs_again_what_does_not_fit():
    """As many blocks as must; more room, fewer of them."""
    model = small.seeded(lambda: small.randomised(_deep()))()
    counts = []
    for size in (1, 60_000, 120_000, 10**9):
        plans = []
        made = memory._Plan

        class Watched(made):
            def __init__(self, *args):
                super().__init__(*args)
                plans.append(self)

        memory._Plan = Watched
        try:
            whence.explain(model, {"input_ids": torch.arange(2, 40)[None]}, target=1, memory=size)
        finally:
            memory._Plan = made
        counts.append(plans[0].again)
    assert counts[0] == 6
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


def _deep():
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=100, hidden_size=16, intermediate_size=32, num_hidden_layers=6, num_attention_heads=2,
        num_key_value_heads=2, num_labels=3, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForSequenceClassification(config)


def test_attention_is_not_computed_twice(monkeypatch):
    monkeypatch.setattr(softmax, "SMALL", 0)
    calls = []
    from whence.core.kernels.attention_map import AttentionOperator

    attend = AttentionOperator.attend
    monkeypatch.setattr(AttentionOperator, "attend", lambda self, v: calls.append(1) or attend(self, v))
    whence.explain(small.llama(), {"input_ids": torch.arange(2, 12)[None]}, "exact", 5, memory="recompute")
    assert len(calls) == 2  # one for each layer


def test_a_block_runs_again_no_further_than_it_must():
    """Its last product has kept nothing but weights."""
    model, calls = copy.deepcopy(small.llama()), []
    for name in ("gate_proj", "down_proj"):
        layer = model.model.layers[0].mlp.get_submodule(name)
        layer.register_forward_hook(lambda *_, name=name: calls.append(name))
    whence.explain(model, {"input_ids": torch.arange(2, 12)[None]}, "exact", 5, memory="recompute")
    assert calls == ["gate_proj", "down_proj", "gate_proj"]


def test_the_model_is_not_touched_and_threads_do_not_meet():
    model, ids = small.llama(), {"input_ids": torch.arange(2, 12)[None]}
    wanted = whence.explain(model, ids, "exact", 5, memory="keep").scores
    found: list = []

    def work(choice: str) -> None:
        found.extend(whence.explain(model, ids, "exact", 5, memory=choice).scores for _ in range(4))

    threads = [threading.Thread(target=work, args=(c,)) for c in ("recompute", "keep", "recompute", "1KiB")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    for scores in found:
        np.testing.assert_allclose(scores, wanted, atol=1e-5)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_blocks_are_found_by_structure():
    assert [type(b).__name__ for b in memory.blocks_of(small.llama())] == ["LlamaDecoderLayer"] * 2
    assert len(memory.blocks_of(small.t5())) == 4
    assert memory.blocks_of(nn.Linear(2, 2)) == []


@pytest.mark.parametrize("wrong", ["sometimes", "40 apples", True, -3])
def test_what_is_no_size(wrong):
    with pytest.raises(OptionError, match="40GiB"):
        whence.explain(small.llama(), {"input_ids": torch.tensor([[2, 3]])}, memory=wrong)


@pytest.mark.parametrize("method", ["gae", "rollout", "transformer_attribution", "integrated_gradients", "saliency"])
def test_methods_that_record_are_not_disturbed(method):
    ids = {"input_ids": torch.arange(2, 12)[None]}
    made, wanted = (whence.explain(small.classifier(), ids, method, 1, memory=m).scores for m in ("recompute", "keep"))
    np.testing.assert_allclose(made, wanted, atol=1e-5)


def test_a_block_that_does_another_thing_when_it_runs_again_is_kept():
    """It counts how often it was called, and squares every other time."""

    class Moody(nn.Module):
        calls = 0

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Moody.calls += 1
            y = self.linear(x)
            return y if Moody.calls <= 2 else torch.tanh(torch.exp(y))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.blocks = nn.Embedding(20, 8), nn.ModuleList([Moody(), Moody()])

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.words(ids)
            for block in self.blocks:
                x = block(x)
            return x.mean(1)

    ids = torch.tensor([[3, 4, 5]])
    exp = whence.explain(Model().eval(), {"ids": ids}, "exact", 1, memory="recompute")
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)
