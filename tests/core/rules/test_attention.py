"""Attention: one head with every derivative written out, then every spelling that models use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.core.helpers import CLOSE, PRESETS, books, explain, normal, reference, seed_for
from tests.core.models import Attention, Block, allowed, seeded
from tests.reference.attention import attention_relevance, probabilities
from tests.reference.detached import PRESETS as TABLE
from tests.reference.detached import Rules
from whence.core.recipe import recipes

ZERO = torch.zeros(1, dtype=torch.float64)


def fused(x: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(x[:, 0], x[:, 1], x[:, 2], attn_mask=mask)


def eager(x: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = x[:, 0] @ x[:, 1].transpose(-2, -1) / x.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, dim=-1) @ x[:, 2]


def by_methods(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """With in-place and tensor methods."""
    scores = x[:, 0].matmul(x[:, 1].mT)
    scores /= x.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill_(~mask, -torch.inf)
    return scores.softmax(-1).to(torch.float64).contiguous().matmul(x[:, 2])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("run", [fused, eager, by_methods])
def test_one_head_follows_its_derivatives(
    run: Callable[[Tensor, Tensor | None], Tensor], masked: bool, preset: str
) -> None:
    x = normal(2, 3, 4, 5)  # example, (q, k, v), position, channel
    mask = allowed(4, causal=True) if masked else None
    done = explain(lambda x: run(x, mask), x, preset)
    table = TABLE[preset]
    grad = seed_for(done.outputs)
    rows = [
        torch.stack(
            attention_relevance(
                *row, grad, softmax=table.softmax, scores=table.query_key, values=table.value, allowed=mask
            )
        )
        for row in x
    ]
    torch.testing.assert_close(done.relevance["x"], torch.stack(rows), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)
    torch.testing.assert_close(done.outputs[0], probabilities(*x[0, :2], mask) @ x[0, 2], **CLOSE)


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "grouped heads": {"groups": 2},
    "one key head": {"groups": 1},
    "causal": {"causal": True},
    "sliding window": {"causal": True, "window": 2},
    "window both ways": {"window": 2},
    "qk-norm": {"qk_norm": True},
    "rope": {"rope": True},
    "all": {"groups": 2, "causal": True, "window": 3, "qk_norm": True, "rope": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", ["eager", "einsum", "fused", "fused_gqa"])
def test_every_spelling_of_every_variant(kind: str, variant: str, preset: str) -> None:
    module = seeded(Attention(kind, **VARIANTS[variant]))
    x = normal(2, 5, 8)
    done = explain(module, x, preset)
    torch.testing.assert_close(done.relevance["x"], reference(lambda x: module.reference(x, Rules(preset)), x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)
    assert not done.unruled


@pytest.mark.parametrize("kind", ["eager", "einsum"])
def test_softcap(kind: str, preset: str) -> None:
    module = seeded(Attention(kind, softcap=1.5, causal=True))
    x = normal(2, 5, 8) * 2
    done = explain(module, x, preset)
    torch.testing.assert_close(done.relevance["x"], reference(lambda x: module.reference(x, Rules(preset)), x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


@pytest.mark.parametrize("kind", ["fused", "fused_causal", "fused_gqa", "einsum"])
def test_eager_equals_fused(kind: str, preset: str) -> None:
    spelt, other = seeded(Attention("eager", causal=True)), seeded(Attention(kind, causal=True))
    x = normal(2, 5, 8)
    one, two = explain(spelt, x, preset), explain(other, x, preset)
    torch.testing.assert_close(one.relevance["x"], two.relevance["x"], **CLOSE)
    torch.testing.assert_close(one.inputs, two.inputs, **CLOSE)


@pytest.mark.parametrize("kind", ["eager", "fused"])
@pytest.mark.parametrize("style", ["pre", "post", "llama"])
def test_a_whole_block(style: str, kind: str, preset: str) -> None:
    block = seeded(Block(style, kind))
    x = normal(2, 5, 8)
    done = explain(block, x, preset)
    torch.testing.assert_close(done.relevance["x"], reference(lambda x: block.reference(x, Rules(preset)), x), **CLOSE)
    torch.testing.assert_close(done.outputs, block(x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


def test_a_scale_and_additive_mask_of_fused_attention(preset: str) -> None:
    mask = normal(4, 4, seed=3)
    x = normal(2, 3, 4, 5)
    one = explain(lambda x: F.scaled_dot_product_attention(x[:, 0], x[:, 1], x[:, 2], mask, scale=0.3), x, preset)
    two = explain(lambda x: torch.softmax(x[:, 0] @ x[:, 1].mT * 0.3 + mask, -1) @ x[:, 2], x, preset)
    torch.testing.assert_close(one.relevance["x"], two.relevance["x"], **CLOSE)
    torch.testing.assert_close(books(one), ZERO.expand(2), **CLOSE)
    torch.testing.assert_close(books(two), ZERO.expand(2), **CLOSE)


@pytest.mark.parametrize("detached", ["ah", "exact"])
def test_detached_values_may_be_scaled_alike_in_both_spellings(detached: str) -> None:
    x = normal(2, 3, 4, 5)
    recipe = recipes[detached].but(values=0.5)
    one, two = explain(fused, x, recipe), explain(eager, x, recipe)
    torch.testing.assert_close(one.relevance["x"], two.relevance["x"], **CLOSE)
    torch.testing.assert_close(books(one), ZERO.expand(2), **CLOSE)
    torch.testing.assert_close(books(two), ZERO.expand(2), **CLOSE)


# -- torch's own modules -------------------------------------------------------------------------------------


def multi_head(module: nn.MultiheadAttention, x: Tensor, rules: Rules, blocked: Tensor | None) -> Tensor:
    """nn.MultiheadAttention from its weights; x is (batch, length, width), `blocked` (batch, head, query, key)."""
    heads = module.num_heads
    q, k, v = (
        torch.stack((x @ w.T + b).chunk(heads, -1), 1)
        for w, b in zip(module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3), strict=True)
    )
    out = rules.attention(q, k, v, None if blocked is None else ~blocked)
    return torch.cat(out.unbind(1), -1) @ module.out_proj.weight.T + module.out_proj.bias


PADDING = torch.tensor([[False] * 5, [False, False, False, True, True]])
MASKS: dict[str, tuple[dict[str, Tensor], Tensor | None]] = {
    "no mask": ({}, None),
    "padding": ({"key_padding_mask": PADDING}, PADDING[:, None, None].expand(2, 4, 5, 5)),
    "causal": (
        {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1)},
        torch.ones(5, 5, dtype=torch.bool).triu(1).expand(2, 4, 5, 5),
    ),
    "causal and padding": (
        {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1), "key_padding_mask": PADDING},
        (torch.ones(5, 5, dtype=torch.bool).triu(1) | PADDING[:, None, None]).expand(2, 4, 5, 5),
    ),
    "a mask for each head": (
        {"attn_mask": torch.eye(5, dtype=torch.bool).roll(1, 1).expand(8, 5, 5)},
        torch.eye(5, dtype=torch.bool).roll(1, 1).expand(2, 4, 5, 5),
    ),
    "float mask": (
        {"attn_mask": torch.zeros(5, 5).double().masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -torch.inf)},
        torch.ones(5, 5, dtype=torch.bool).triu(1).expand(2, 4, 5, 5),
    ),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", ["gi", "exact", "attn_lrp", "gim"])
def test_multi_head_attention(need_weights: bool, batch_first: bool, mask: str, name: str) -> None:
    module = seeded(nn.MultiheadAttention(8, 4, batch_first=batch_first))
    arguments, blocked = MASKS[mask]
    x = normal(2, 5, 8)

    def run(x: Tensor) -> Tensor:
        t = x if batch_first else x.transpose(0, 1)
        out, weights = module(t, t, t, need_weights=need_weights, **arguments)
        assert (weights is not None) == need_weights
        return out if batch_first else out.transpose(0, 1)

    done = explain(run, x, name)
    torch.testing.assert_close(
        done.relevance["x"], reference(lambda x: multi_head(module, x, Rules(name), blocked), x), **CLOSE
    )
    torch.testing.assert_close(done.outputs, run(x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


@pytest.mark.parametrize("average", [True, False])
def test_multi_head_attention_returns_torchs_weights(average: bool) -> None:
    module = seeded(nn.MultiheadAttention(8, 4, batch_first=True))
    x = normal(2, 5, 8)
    seen: list[Tensor] = []

    def run(x: Tensor) -> Tensor:
        out, weights = module(x, x, x, key_padding_mask=PADDING, average_attn_weights=average)
        seen.append(weights.detach())
        return out

    explain(run, x)
    torch.testing.assert_close(
        seen[0], module(x, x, x, key_padding_mask=PADDING, average_attn_weights=average)[1].detach(), **CLOSE
    )


def test_multi_head_attention_over_other_keys_of_other_width(preset: str) -> None:
    module = seeded(nn.MultiheadAttention(8, 2, kdim=3, vdim=5, batch_first=True))
    x = normal(2, 4, 13)
    run = lambda x: module(x[..., :8], x[..., 8:11], x[..., 8:])[0]
    done = explain(run, x, preset)
    torch.testing.assert_close(done.outputs, run(x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


@pytest.mark.parametrize("variant", [{"add_bias_kv": True}, {"add_zero_attn": True}])
def test_multi_head_attention_with_extra_keys_is_reported(variant: dict[str, bool]) -> None:
    module = seeded(nn.MultiheadAttention(8, 2, batch_first=True, **variant))
    x = normal(2, 4, 8)
    done = explain(lambda x: module(x, x, x)[0], x)
    assert "multi_head_attention_forward" in done.unruled
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


@pytest.mark.filterwarnings("ignore:.*nested.tensor")
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer_encoder_conserves_exactly(batch_first: bool, norm_first: bool, masked: bool, frozen: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 12, norm_first=norm_first, batch_first=batch_first, activation="gelu")
    model = seeded(nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first))
    model.requires_grad_(not frozen)
    x = normal(2, 5, 8)

    def run(x: Tensor) -> Tensor:
        out = model(x if batch_first else x.transpose(0, 1), src_key_padding_mask=PADDING if masked else None)
        return out if batch_first else out.transpose(0, 1)

    for name in PRESETS:
        done = explain(run, x, name)
        assert not done.unruled
        torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)
    done = explain(run, x, "exact")
    assert set(done.sinks) <= {"bias"}
    torch.testing.assert_close(explain(run, x, "gi").relevance["x"], reference(run, x), **CLOSE)


def test_transformer_decoder_conserves_exactly(preset: str) -> None:
    layer = nn.TransformerDecoderLayer(8, 2, 12, batch_first=True)
    model = seeded(nn.TransformerDecoder(layer, 2))
    memory, x = normal(2, 6, 8, seed=1), normal(2, 5, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    run = lambda x: model(x, memory, tgt_mask=causal, tgt_is_causal=True)
    done = explain(run, x, preset)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)
    torch.testing.assert_close(done.outputs, run(x), **CLOSE)
    # position i of a causal decoder hears nothing of later ones
    first = explain(run, x, preset, target=lambda y: y[:, 1].sum(-1)).relevance["x"]
    assert torch.equal(first[:, 2:], torch.zeros(2, 3, 8, dtype=torch.float64))


def test_an_infinite_mask_makes_no_nan_in_the_ledger(preset: str) -> None:
    mask = torch.zeros(5, 5, dtype=torch.float64).masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -torch.inf)
    x = normal(2, 5, 8)

    def run(x: Tensor) -> Tensor:
        scores = x @ x.transpose(1, 2) + mask
        return torch.exp(scores - scores.amax(-1, keepdim=True)).sum(-1, keepdim=True) + torch.softmax(scores, -1) @ x

    done = explain(run, x, preset)
    for amount in done.sinks.values():
        assert torch.isfinite(amount).all()
    torch.testing.assert_close(books(done), ZERO.expand(2), rtol=0, atol=1e-9)  # scores of size 1e1 meet exp


def test_log_softmax(preset: str) -> None:
    x = normal(2, 5)
    done = explain(lambda x: F.log_softmax(x, -1), x, preset)
    detached = TABLE[preset].softmax == "detach"
    by_hand = lambda x: x - (torch.logsumexp(x, -1, True).detach() if detached else torch.logsumexp(x, -1, True))
    torch.testing.assert_close(done.relevance["x"], reference(by_hand, x), **CLOSE)
    torch.testing.assert_close(books(done), ZERO.expand(2), **CLOSE)


def test_fully_masked_rows_stay_finite() -> None:
    """A padded query whose every key is masked gets NaN from softmax in torch; fused attention gives zeros."""
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    done = explain(lambda x: fused(x, mask), normal(2, 3, 4, 5), "exact")
    assert torch.isfinite(done.relevance["x"]).all()


# -- a bias of scores that depends on the input -------------------------------------------------------------------


def _with_bias(x: Tensor, how: str) -> Tensor:
    q, k, v = x[:, 0], x[:, 1], x[:, 2]
    bias = torch.tanh(x[:, 2].sum(-1))[:, None, :].expand(-1, x.shape[2], -1)
    if how == "fused":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return torch.softmax(q @ k.mT / x.shape[-1] ** 0.5 + bias, -1) @ v


def test_a_bias_that_depends_on_the_input_keeps_its_gradient(preset: str) -> None:
    x = normal(2, 3, 4, 5)
    made, wanted = (explain(lambda x: _with_bias(x, how), x, preset) for how in ("fused", "eager"))
    torch.testing.assert_close(made.relevance["x"], wanted.relevance["x"], **CLOSE)
    torch.testing.assert_close(books(made), torch.zeros(2, dtype=torch.float64), **CLOSE)


def test_gradient_times_input_of_such_a_bias() -> None:
    x = normal(2, 3, 4, 5)
    done = explain(lambda x: _with_bias(x, "fused"), x, "gi")
    torch.testing.assert_close(done.relevance["x"], reference(lambda x: _with_bias(x, "fused"), x), **CLOSE)


def test_multi_head_attention_with_such_a_bias(preset: str) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(6, 2, batch_first=True).double().eval()

    def run(x: Tensor, weights: bool) -> Tensor:
        bias = torch.tanh(x.sum(-1))[:, None, :].expand(-1, x.shape[1], -1).repeat_interleave(2, 0)
        out: Tensor = layer(x, x, x, attn_mask=bias, need_weights=weights)[0]
        return out

    x = normal(2, 4, 6)
    made, wanted = (explain(lambda x: run(x, weights), x, preset) for weights in (False, True))
    torch.testing.assert_close(made.relevance["x"], wanted.relevance["x"], **CLOSE)
    if preset == "gi":
        torch.testing.assert_close(made.relevance["x"], reference(lambda x: run(x, False), x), **CLOSE)


@pytest.mark.parametrize("call", ["function", "method"])
def test_a_dtype_that_is_passed_by_position_is_kept(call: str, preset: str) -> None:
    def run(x: Tensor) -> Tensor:
        scores = (x @ x.mT).float()
        p = torch.softmax(scores, -1, torch.float64) if call == "function" else scores.softmax(-1, torch.float64)
        assert p.dtype == torch.float64
        return p @ x

    x = normal(2, 3, 4)
    torch.testing.assert_close(explain(run, x, preset).outputs, run(x))


def test_a_model_that_ends_in_softmax_is_explained(preset: str) -> None:
    """What multiplies nothing is no attention."""
    weight = normal(5, 3, seed=7)
    done = explain(lambda x: torch.softmax(x.sum(1) @ weight, -1), normal(2, 4, 5), preset)
    assert done.relevance["x"].abs().max() > 1e-3
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bool])
def test_padding_and_a_mask_together(dtype: torch.dtype) -> None:
    """With as many keys as examples, one can't be told from the other by its shape."""
    module = seeded(nn.MultiheadAttention(4, 2, batch_first=False))
    padding = torch.tensor([[False, False, True], [False, False, False], [False, True, True]])
    mask = torch.zeros(3, 3, dtype=torch.float64) if dtype != torch.bool else torch.zeros(3, 3, dtype=torch.bool)
    mask[0, 1] = 0.5 if dtype != torch.bool else True

    def run(x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        out, _ = F.multi_head_attention_forward(
            x, x, x, 4, 2, module.in_proj_weight, module.in_proj_bias, None, None, False, 0.0, module.out_proj.weight,
            module.out_proj.bias, training=False, key_padding_mask=padding, need_weights=False, attn_mask=mask,
        )  # fmt: skip
        return out.transpose(0, 1)

    x = normal(3, 3, 4)
    done = explain(run, x, "gi")
    with torch.no_grad():
        torch.testing.assert_close(done.target, (run(x) * seed_for(run(x))).flatten(1).sum(1), **CLOSE)


def test_log_softmax_in_another_precision() -> None:
    x = normal(2, 5, dtype=torch.bfloat16)
    done = explain(lambda x: F.log_softmax(x, -1, dtype=torch.float32), x, "exact", target=lambda y: y[:, 0])
    assert done.target.dtype == torch.float32
    torch.testing.assert_close(done.target, F.log_softmax(x, -1, dtype=torch.float32)[:, 0])
