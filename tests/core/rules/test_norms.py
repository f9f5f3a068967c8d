"""Normalisation against explicit Jacobians."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.core.helpers import CLOSE, PRESETS, books, explain, normal, reference, seed_for
from tests.reference.detached import PRESETS as TABLE
from tests.reference.norms import group_norm_relevance, layer_norm_relevance, rms_norm_relevance
from whence.core.recipe import recipes

MODES = ("gradient", "detach", "detach_mean", "identity")
WEIGHT, BIAS, EPS = normal(6, seed=1), normal(6, seed=2), 0.1  # a large ε: forgetting it must show


def layer_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, (6,), WEIGHT, BIAS, EPS)


def layer_norm_by_hand(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + EPS) * WEIGHT + BIAS


def layer_norm_by_var(x: Tensor) -> Tensor:
    return WEIGHT * (x - x.mean(-1, True)) * torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + EPS) + BIAS


def layer_norm_by_var_mean(x: Tensor) -> Tensor:
    variance, mean = torch.var_mean(x, -1, unbiased=False, keepdim=True)
    return WEIGHT * ((x - mean) / (variance + EPS) ** 0.5) + BIAS


def rms_norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, (6,), WEIGHT, EPS)


def rms_norm_by_rsqrt(x: Tensor) -> Tensor:
    return WEIGHT * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS))


def rms_norm_by_pow(x: Tensor) -> Tensor:
    """As Gemma spells it, with (1 + w)."""
    mean_squared = (
        x.float().double().pow(2).mean(-1, keepdim=True) if x.dtype == torch.float32 else (x * x).mean(-1, True)
    )
    return x * torch.pow(mean_squared + EPS, -0.5) * (1.0 + (WEIGHT - 1.0))


def rms_norm_by_norm(x: Tensor) -> Tensor:
    return x / torch.sqrt(torch.linalg.vector_norm(x, dim=-1, keepdim=True) ** 2 / 6 + EPS) * WEIGHT


def expected(one: Callable[..., Tensor], x: Tensor, grad: Tensor, mode: str) -> Tensor:
    rows = [
        one(r, WEIGHT, g, EPS, mode) for r, g in zip(x.reshape(-1, 6), grad.expand_as(x).reshape(-1, 6), strict=True)
    ]
    return torch.stack(rows).view(x.shape)


@pytest.mark.parametrize("mode", MODES)
def test_layer_norm_follows_its_jacobian(mode: str) -> None:
    x = normal(2, 3, 6)
    done = explain(layer_norm, x, recipes["gi"].but(norm=mode))
    # identity divides by x and stabilises at ε² = 5e-32: nothing next to any x here
    torch.testing.assert_close(
        done.relevance["x"], expected(layer_norm_relevance, x, seed_for(layer_norm(x)), mode), **CLOSE
    )
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("mode", ["gradient", "detach", "detach_mean"])
@pytest.mark.parametrize("spelling", [layer_norm_by_hand, layer_norm_by_var, layer_norm_by_var_mean])
def test_layer_norm_by_hand_is_layer_norm(spelling: Callable[[Tensor], Tensor], mode: str) -> None:
    x = normal(2, 3, 6)
    done = explain(spelling, x, recipes["gi"].but(norm=mode))
    torch.testing.assert_close(
        done.relevance["x"], expected(layer_norm_relevance, x, seed_for(layer_norm(x)), mode), **CLOSE
    )
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spelling", [rms_norm, rms_norm_by_rsqrt, rms_norm_by_pow, rms_norm_by_norm])
def test_rms_norm_in_every_spelling(spelling: Callable[[Tensor], Tensor], mode: str) -> None:
    x = normal(2, 3, 6)
    done = explain(spelling, x, recipes["gi"].but(norm=mode))
    torch.testing.assert_close(
        done.relevance["x"], expected(rms_norm_relevance, x, seed_for(rms_norm(x)), mode), **CLOSE
    )
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("eps", [None, 1e-3])
def test_rms_norm_without_weight_takes_the_eps_of_the_dtype(eps: float | None) -> None:
    x = normal(2, 6) * 1e-2
    done = explain(lambda x: F.rms_norm(x, (6,), eps=eps), x)
    torch.testing.assert_close(done.inputs, done.target, **CLOSE)


@pytest.mark.parametrize("mode", ["gradient", "detach", "detach_mean"])
def test_group_norm(mode: str) -> None:
    x = normal(2, 6, 3)
    run = lambda x: F.group_norm(x, 2, WEIGHT, BIAS, EPS)
    done = explain(run, x, recipes["gi"].but(norm=mode))
    grad = seed_for(run(x))
    rows = [group_norm_relevance(row, WEIGHT, grad, 2, EPS, mode) for row in x]
    torch.testing.assert_close(done.relevance["x"], torch.stack(rows), **CLOSE)


@pytest.mark.parametrize("mode", ["gradient", "detach", "detach_mean"])
def test_instance_norm_is_group_norm_with_a_group_for_each_channel(mode: str) -> None:
    x = normal(2, 6, 4)
    run = lambda x: F.instance_norm(x, weight=WEIGHT, bias=BIAS, eps=EPS)
    done = explain(run, x, recipes["gi"].but(norm=mode))
    grad = seed_for(run(x))
    rows = [group_norm_relevance(row, WEIGHT, grad, 6, EPS, mode) for row in x]
    torch.testing.assert_close(done.relevance["x"], torch.stack(rows), **CLOSE)


@pytest.mark.parametrize("norm", ["layer_norm", "group_norm"])
@pytest.mark.parametrize("mode", MODES)
def test_the_books_of_norms_close(norm: str, mode: str) -> None:
    x = normal(2, 6, 6)
    run = layer_norm if norm == "layer_norm" else lambda x: F.group_norm(x, 3, WEIGHT, BIAS, EPS)
    torch.testing.assert_close(
        books(explain(run, x, recipes["gi"].but(norm=mode))), torch.zeros(2, dtype=torch.float64), **CLOSE
    )


BUFFERS = {"running_mean": normal(6, seed=3), "running_var": normal(6, seed=4).abs() + 0.5}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "run",
    [
        layer_norm,
        rms_norm,
        lambda x: F.group_norm(x, 2, WEIGHT, BIAS, EPS),
        lambda x: F.instance_norm(x, weight=WEIGHT, bias=BIAS, eps=EPS),
        lambda x: F.instance_norm(x, **BUFFERS, weight=WEIGHT, bias=BIAS, use_input_stats=False),
        lambda x: F.batch_norm(x, **BUFFERS, weight=WEIGHT, bias=BIAS, eps=EPS),
        lambda x: F.batch_norm(x, **BUFFERS),
        F.normalize,
        lambda x: F.cosine_similarity(x, x.flip(1), dim=-1),
    ],
)
def test_values_are_torchs(run: Callable[[Tensor], Tensor], mode: str) -> None:
    x = normal(2, 6, 6)
    done = explain(run, x, recipes["gi"].but(norm=mode))
    torch.testing.assert_close(done.outputs, run(x), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("batch", [1, 3])
def test_batch_norm_in_evaluation_is_affine(preset: str, batch: int) -> None:
    mean, variance = normal(6, seed=3), normal(6, seed=4).abs() + 0.5
    x = normal(batch, 6, 4)
    done = explain(lambda x: F.batch_norm(x, mean, variance, WEIGHT, BIAS, eps=EPS), x, preset)
    scale = (WEIGHT / (variance + EPS).sqrt())[:, None]
    torch.testing.assert_close(done.relevance["x"], x * scale * seed_for(x), **CLOSE)
    torch.testing.assert_close(books(done), torch.zeros(batch, dtype=torch.float64), **CLOSE)


def test_batch_norm_of_one_example_whose_gradient_is_transposed() -> None:
    """The case in which torch's own kernel is wrong."""
    mean, variance = normal(6, seed=3), normal(6, seed=4).abs() + 0.5
    x = normal(1, 6, 4)
    done = explain(lambda x: F.batch_norm(x, mean, variance, WEIGHT, BIAS, eps=EPS).transpose(1, 2), x)
    scale = (WEIGHT / (variance + EPS).sqrt())[:, None]
    torch.testing.assert_close(done.relevance["x"], x * scale * seed_for(x.transpose(1, 2)).T, **CLOSE)


def test_modules_are_their_functions(preset: str) -> None:
    """nn.LayerNorm and nn.RMSNorm under every preset, for a shape of two axes too."""
    torch.manual_seed(1)
    x = normal(2, 3, 4)
    for module in (nn.LayerNorm((3, 4)), nn.RMSNorm((3, 4), eps=1e-5), nn.LayerNorm(4, bias=False)):
        done = explain(module.double(), x, preset)
        dims = tuple(range(-len(module.normalized_shape), 0))

        def by_hand(x: Tensor, module: nn.Module = module, dims: tuple[int, ...] = dims) -> Tensor:
            centred = x if isinstance(module, nn.RMSNorm) else x - x.mean(dims, keepdim=True)
            size = (centred.pow(2).mean(dims, keepdim=True) + module.eps).sqrt()
            return centred / (size if TABLE[preset].norm == "gradient" else size.detach())

        torch.testing.assert_close(done.relevance["x"], reference(by_hand, x), **CLOSE)
        torch.testing.assert_close(books(done), torch.zeros(2, dtype=torch.float64), **CLOSE)


def test_normalize_and_cosine_similarity_hold_the_length_constant() -> None:
    x, other = normal(2, 5), normal(5, seed=3)
    done = explain(lambda x: F.normalize(x, dim=-1), x)
    torch.testing.assert_close(
        done.relevance["x"], reference(lambda x: x / x.norm(dim=-1, keepdim=True).detach(), x), **CLOSE
    )
    done = explain(lambda x: F.cosine_similarity(x, other, dim=-1)[:, None], x)
    by_hand = lambda x: ((x @ other) / (x.norm(dim=-1).detach() * other.norm()))[:, None]
    torch.testing.assert_close(done.relevance["x"], reference(by_hand, x), **CLOSE)


@pytest.mark.parametrize("name", PRESETS)
def test_half_precision_keeps_the_scale_in_float32(name: str) -> None:
    x = normal(2, 6)
    fine = explain(lambda x: F.rms_norm(x, (6,), WEIGHT.float(), EPS), x.float(), name).relevance["x"]
    half = explain(lambda x: F.rms_norm(x, (6,), WEIGHT.bfloat16(), EPS), x.bfloat16(), name).relevance["x"]
    # bf16 has 8 bits: inputs, weights and gradients are each rounded by up to 2^-8
    torch.testing.assert_close(half, fine, rtol=6 * 2**-8, atol=6 * 2**-8)
