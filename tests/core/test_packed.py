"""Linear layers with packed weights: as the same layers unpacked, whatever their kernels hide."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import whence
from tests import small
from whence.core import packed
from whence.errors import ModelError


class Packed(nn.Module):
    """int8 numbers and a scale for each output; the kernel takes no gradients."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        scale = layer.weight.detach().abs().amax(1) / 127
        self.register_buffer("codes", (layer.weight.detach() / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().clone())
        self.eval()

    def unpacked(self) -> Tensor:
        return self.codes.float() * self.scale[:, None]

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.unpacked(), self.bias)


class Kernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        return grad @ ctx.weight, None


class Hidden(Packed):
    """A kernel with a backward pass, in a function that nobody can see into."""

    def forward(self, x: Tensor) -> Tensor:
        out = Kernel.apply(x, self.unpacked())
        return out if self.bias is None else out + self.bias


class Rounding(torch.autograd.Function):
    """As `Kernel`, and what it gets is rounded. Line by line it would have the gradient of its largest number alone."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        scale = x.abs().amax(-1, keepdim=True) / 2**24  # about what float32 holds
        return ((x / scale).round() * scale) @ weight.T

    @staticmethod
    def backward(ctx, grad):
        return grad @ ctx.weight, None


class Rounds(Hidden):
    """A kernel whose backward pass is what its author wrote, and nothing else."""

    def forward(self, x: Tensor) -> Tensor:
        out = Rounding.apply(x, self.unpacked())
        return out if self.bias is None else out + self.bias


class Says(Packed):
    """A layer that says what its weight is."""

    def dequantize(self) -> Tensor:
        return self.unpacked()


class Lies(Packed):
    """A layer whose word for its weight is another thing, and whose gradient is zero."""

    def dequantize(self) -> Tensor:
        return torch.zeros(self.out_features, self.in_features)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0 * x.sum()


class Dynamic(Packed):
    """Rounds what it gets as well, by the largest number of each token."""

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True) / 127
        return super().forward((x / scale).round() * scale)


class Square(Packed):
    """No linear layer at all, though it has the looks of one."""

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) ** 2


class Tensorlike(torch.Tensor):
    """A weight that is a tensor of a kind of its own: a product with it has no gradient."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})


def in_a_tensor(layer: nn.Linear) -> nn.Linear:
    made = copy.deepcopy(layer)
    made.weight = nn.Parameter(Tensorlike(Packed(layer).unpacked()), requires_grad=False)
    assert isinstance(made.weight, Tensorlike)
    return made


KINDS = {kind.__name__: kind for kind in (Packed, Hidden, Rounds, Says, Lies)} | {"in_a_tensor": in_a_tensor}


def with_layers(model: nn.Module, make) -> nn.Module:
    """The model with every linear layer but the last made anew."""
    model = copy.deepcopy(model)
    for name, layer in list(model.named_modules()):
        if isinstance(layer, nn.Linear) and name not in ("lm_head", "classifier"):
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, make(layer))
    return model.eval()


def dequantised(layer: nn.Linear) -> nn.Linear:
    made = copy.deepcopy(layer)
    with torch.no_grad():
        made.weight.copy_(Packed(layer).unpacked())
    return made


MODELS = {"llama": (small.llama, small.bytelevel), "bert": (small.classifier, small.wordpiece)}
"""Without biases and with them."""


@pytest.fixture(params=MODELS)
def model(request):
    build, reader = MODELS[request.param]
    return build(), reader()


METHODS = ("exact", "attn_lrp", "gi", "gae", "transformer_attribution", "integrated_gradients")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_as_the_same_layers_unpacked(model, kind, method):
    module, reader = model
    plain, hidden = with_layers(module, dequantised), with_layers(module, KINDS[kind])
    wanted, found = (whence.explain((m, reader), "a good movie", method) for m in (plain, hidden))
    scale = np.abs(wanted.scores).max()
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-4 * scale)  # sums in another order
    assert found.target_score == pytest.approx(wanted.target_score, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_receipt_balances_and_names_nothing(model, kind):
    module, reader = model
    for exp in whence.explain((with_layers(module, KINDS[kind]), reader), ["a good movie", "it is"], receipt="full"):
        receipt = exp.conservation
        assert abs(receipt.error) <= receipt.tolerance
        assert abs(receipt.sinks["quantised"]) <= receipt.tolerance  # rounding of float32, nothing else
        assert not receipt.unruled


@pytest.mark.parametrize("options", [{"epsilon": 0.01}, {"gamma": 0.25}])
def test_other_rules_for_linear_layers(model, options):
    module, reader = model
    plain, hidden = with_layers(module, dequantised), with_layers(module, Packed)
    wanted, found = (whence.explain((m, reader), "a good movie", "lrp", **options) for m in (plain, hidden))
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-3 * np.abs(wanted.scores).max())


def test_what_rounding_the_input_makes_is_booked(model):
    module, reader = model
    hidden = with_layers(module, Dynamic)
    exp = whence.explain((hidden, reader), "a good movie", "exact", receipt="full")
    receipt = exp.conservation
    with torch.no_grad():
        logits = hidden(**reader("a good movie", return_tensors="pt")).logits
    top = logits.reshape(-1, logits.shape[-1])[-1].topk(2).values
    by_hand = top[0] - top[1] if "llama" in type(module).__name__.lower() else top[0]
    assert exp.target_score == pytest.approx(float(by_hand), abs=1e-5)
    assert abs(receipt.error) <= receipt.tolerance
    assert receipt.tolerance < abs(receipt.sinks["quantised"]) < 0.05 * np.abs(exp.scores).sum()
    assert not receipt.unruled


def test_what_is_no_linear_layer_is_named():
    """The way around it, over the residual connections, is not the whole answer."""
    exp = whence.explain((with_layers(small.llama(), Square), small.bytelevel()), "a good movie", receipt="full")
    assert "Square" in exp.conservation.unruled


def test_nor_is_it_a_constant_that_all_hangs_on():
    with pytest.raises(ModelError, match="nothing but constants"):
        whence.explain((with_layers(small.classifier(), Square), small.wordpiece()), "a good movie")


@pytest.mark.parametrize("memory", ["keep", "recompute"])
def test_blocks_that_run_again(model, memory):
    module, reader = model
    plain, hidden = with_layers(module, dequantised), with_layers(module, Packed)
    wanted, found = (whence.explain((m, reader), "a good movie", "exact", memory=memory) for m in (plain, hidden))
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-4 * np.abs(wanted.scores).max())


def test_the_layers_are_as_they_were(model):
    module, reader = model
    hidden = with_layers(module, Packed)
    whence.explain((hidden, reader), "a good movie")
    with pytest.raises(RuntimeError, match="enough"):
        whence.explain((hidden, reader), "a good movie", target=_raises)
    for part in hidden.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks
    assert not packed._hooked


def _raises(outputs):
    raise RuntimeError("enough")


def test_several_steps_of_unit_vectors(model, monkeypatch):
    monkeypatch.setattr(packed, "AT_ONCE", 5)
    test_as_the_same_layers_unpacked(model, "Packed", "exact")


def test_plain_layers_are_left_alone():
    for build in (small.llama, small.classifier, small.gpt2, small.vit):
        assert not packed.packed_layers(build())
    assert len(packed.packed_layers(with_layers(small.classifier(), Packed))) == 13


def test_the_audit_finds_no_leak(model):
    module, reader = model
    found = whence.audit((with_layers(module, Packed), reader), "a good movie")
    assert any(row.function == packed.NAME for row in found.rows)
    assert all(abs(row.leak) < 1e-5 for row in found.rows)


# -- as libraries do it ----------------------------------------------------------------------------------------------


def wide() -> nn.Module:
    """Kernels want rows of 32 or 64 numbers."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(
        vocab_size=300, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, eos_token_id=1,
        bos_token_id=1, **sizes,
    )  # fmt: skip
    torch.manual_seed(0)
    return small.randomised(transformers.LlamaForCausalLM(config))


def by_torchao(name: str) -> nn.Module:
    library = pytest.importorskip("torchao.quantization")
    model = wide()
    library.quantize_(model, getattr(library, name)())
    return model


def by_bitsandbytes(bits: int) -> nn.Module:
    library = pytest.importorskip("bitsandbytes")

    def make(layer: nn.Linear) -> nn.Module:
        sizes = {"input_features": layer.in_features, "output_features": layer.out_features, "bias": False}
        made = (
            library.nn.Linear8bitLt(**sizes, has_fp16_weights=False)
            if bits == 8
            else library.nn.Linear4bit(**sizes, compute_dtype=torch.float32, quant_type="nf4")
        )
        made.load_state_dict(layer.state_dict())
        return made.to("cpu")

    return with_layers(wide(), make)


def by_hqq(bits: int) -> nn.Module:
    library = pytest.importorskip("hqq.core.quantize")
    config = library.BaseQuantizeConfig(nbits=bits, group_size=32)
    return with_layers(
        wide(), lambda layer: library.HQQLinear(layer, config, compute_dtype=torch.float32, device="cpu")
    )


def by_quanto(name: str) -> nn.Module:
    library = pytest.importorskip("optimum.quanto")
    model = wide()
    library.quantize(model, weights=getattr(library, name))
    library.freeze(model)
    return model.eval()


LIBRARIES = {
    "torchao int8": lambda: by_torchao("Int8WeightOnlyConfig"),
    "torchao int8, inputs too": lambda: by_torchao("Int8DynamicActivationInt8WeightConfig"),
    "torchao float8": lambda: by_torchao("Float8WeightOnlyConfig"),
    "torchao intx": lambda: by_torchao("IntxWeightOnlyConfig"),
    "bitsandbytes int8": lambda: by_bitsandbytes(8),
    "bitsandbytes nf4": lambda: by_bitsandbytes(4),
    "hqq 4": lambda: by_hqq(4),
    "quanto int8": lambda: by_quanto("qint8"),
    "quanto int4": lambda: by_quanto("qint4"),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_layers_of_libraries(library):
    model, reader = LIBRARIES[library](), small.bytelevel()
    with torch.no_grad():
        top = model(**reader("a movie", return_tensors="pt")).logits[0, -1].float().topk(2).values
        plain = LIBRARIES[library]()  # not a copy: some of their tensors refuse to be copied
        for name, part in list(plain.named_modules()):  # what a library's layers do to unit vectors, as plain layers
            if packed.is_packed(part):
                weight = part.forward(torch.eye(part.in_features)[None])[0].T
                layer = nn.Linear(part.in_features, part.out_features, bias=False)
                layer.weight.copy_(weight)
                parent, _, own = name.rpartition(".")
                setattr(plain.get_submodule(parent), own, layer)
    found, wanted = (whence.explain((m.eval(), reader), "a movie", "exact", receipt="full") for m in (model, plain))
    receipt = found.conservation
    assert found.target_score == pytest.approx(float(top[0] - top[1]), abs=1e-4)
    assert abs(receipt.error) <= receipt.tolerance
    assert not receipt.unruled
    scale = np.abs(wanted.scores).sum()
    np.testing.assert_allclose(found.scores, wanted.scores, atol=2e-2 * scale)  # some round what they get to 8 bits
    assert abs(receipt.sinks["quantised"]) <= 2e-2 * scale
