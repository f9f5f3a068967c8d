"""Linear layers that keep their weight packed: quantised by any library, in a tensor or a kernel of its own.

Such a layer computes y = x Wᵀ + b, and nobody can see how: its kernel may have no backward pass, or one that relevance
is lost in. While a model is explained, the layer runs as it is on a copy of x that carries nothing, and y goes back
over the weight as it is dequantised:

    R_x = x ⊙ Wᵀ (R_y / y)        what y is beyond x Wᵀ + b, where x was rounded too, is booked as "quantised"

No library is known here. W comes from what the layer itself offers, each way tried once against the layer and given up
where it does not give what the layer gives:

    dequantize()     of the weight or the layer: W for a moment, one product
    its own gradient the layer runs once more, on ones: an affine layer has the same gradient everywhere
    the identity     the layer says what it makes of unit vectors, some hundreds at a time: exact, and slow

Each is done again in every backward pass and nothing is kept: all weights at once, unpacked, would be the memory that
packing them has saved. Hooks that look at the thread they run in are on the layers until the explanation is done.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.overrides import (
    _get_current_function_mode_stack,
    handle_torch_function,
    has_torch_function,
)

from whence.core.interception import Interception, unseen

__all__ = ["NAME", "PackedLayer", "is_packed", "packed_layers", "packed_linear", "unpacked"]

NAME = "whence::packed_linear"
AT_ONCE = 512
"""Unit vectors that a layer is shown together."""
FAR = 0.1
"""How far a way may be from what the layer gives: it may round x to a few bits, and must not be something else."""
CARRIED = "_whence_carried"


def packed_linear(x: Tensor, value: Tensor, layer: PackedLayer) -> Tensor:
    """`value`, which the layer made of `x`, with a backward pass over the layer's weight."""
    if has_torch_function((x, value)):
        made: Tensor = handle_torch_function(packed_linear, (x, value), x, value, layer)
        return made
    out: Tensor = _Packed.apply(x, value, layer)  # type: ignore[no-untyped-call]
    return out


class _Packed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, layer: PackedLayer) -> Tensor:
        ctx.layer, ctx.shape, ctx.dtype = layer, x.shape, x.dtype
        return value.clone()  # not a view: the model may write into it

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.layer.back(grad).to(ctx.dtype).reshape(ctx.shape), None, None


Way = Callable[[nn.Module, Tensor], Tensor]
"""A layer and the gradients of its output (rows, out), in the precision that it computes in, to those of its input."""


class PackedLayer:
    """A packed layer in one explanation: what runs it backward."""

    def __init__(self, module: nn.Module, way: Way, dtype: torch.dtype):
        self.module, self.way, self.dtype = module, way, dtype

    def back(self, grad: Tensor) -> Tensor:
        """grad W, in rows."""
        with _alone():
            return self.way(self.module, grad.detach().reshape(-1, grad.shape[-1]).to(self.dtype))

    def weight(self) -> Tensor:
        """W (out, in), for the rules that look at each of its numbers."""
        out = int(self.module.out_features)  # type: ignore[arg-type]
        device = _device_of(self.module)
        return torch.cat([self.back(rows) for rows in _units(out, self.dtype, device)])

    @property
    def bias(self) -> Tensor | None:
        return _bias(self.module)


# -- which layers, and while they are explained ----------------------------------------------------------------------


def is_packed(module: nn.Module) -> bool:
    """Whether it is a linear layer, with nothing within, whose weight is no plain tensor of floats."""
    held = module.__dict__  # asked for every part of a model in every pass, and an attribute that is missing is slow
    if not isinstance(held.get("in_features"), int) or not isinstance(held.get("out_features"), int):
        return False
    if module._modules and any(child is not None for child in module._modules.values()):
        return False
    weight = module._parameters.get("weight")
    if weight is None:
        weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor):
        return True
    kind = type(weight)
    own = kind in (Tensor, nn.Parameter) or kind.__module__.startswith(
        "torch."
    )  # other kinds of torch's: spread, sparse
    return not own or not weight.is_floating_point() or weight.element_size() == 1


def packed_layers(module: nn.Module) -> list[nn.Module]:
    """All of them, each once. Not by `modules()`, which is slower, and this is asked in every pass."""
    found: dict[int, nn.Module] = {}
    todo: list[nn.Module | None] = [module]
    while todo:
        part = todo.pop()
        if part is not None:
            if is_packed(part):
                found[id(part)] = part
            todo.extend(part._modules.values())
    return list(found.values())


_lock = threading.Lock()
_hooked: dict[int, tuple[list[Any], int]] = {}
"""By layer: its hooks, and how many explanations need them."""
_ways: WeakKeyDictionary[nn.Module, Way | None] = WeakKeyDictionary()
"""What was found out of each layer; None where nothing gives what it gives, and it stays as it is."""


@contextmanager
def unpacked(module: nn.Module) -> Iterator[None]:
    """From here to the end of the explanation under way, packed layers of a model go back over their weight.

    To its end, and not to that of this block: parts of the model may run again in the backward pass.
    """
    mode = _explaining()
    if mode is not None and torch.is_grad_enabled():
        layers = [layer for layer in packed_layers(module) if id(layer) not in mode.opened]
        for layer in layers:
            mode.opened.add(id(layer))
            _hook(layer)
            mode.at_exit.callback(_unhook, layer)
    yield


def _explaining() -> Interception | None:
    """The interception that sees what is called now."""
    return next((m for m in reversed(_get_current_function_mode_stack()) if isinstance(m, Interception)), None)


def _hook(layer: nn.Module) -> None:
    with _lock:
        handles, users = _hooked.get(id(layer), ([], 0))
        if users == 0:
            handles = [
                layer.register_forward_pre_hook(_enter, prepend=True),
                layer.register_forward_hook(_leave),
            ]
        _hooked[id(layer)] = handles, users + 1


def _unhook(layer: nn.Module) -> None:
    with _lock:
        handles, users = _hooked.pop(id(layer))
        if users > 1:
            _hooked[id(layer)] = handles, users - 1
            return
        for handle in handles:
            handle.remove()


def _enter(layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    x = args[0] if args else None
    if not (isinstance(x, Tensor) and x.requires_grad and torch.is_grad_enabled()) or _explaining() is None:
        return None
    if layer not in _ways:
        _ways[layer] = _way(layer, x)
    if _ways[layer] is None:
        return None
    with torch._C.DisableTorchFunction():
        plain = x.detach()
    setattr(plain, CARRIED, x)
    return (plain, *args[1:])


def _leave(layer: nn.Module, args: tuple[Any, ...], out: Any) -> Tensor | None:
    x = getattr(args[0], CARRIED, None) if args else None
    way = _ways.get(layer)
    if x is None or way is None or not isinstance(out, Tensor):
        _name_if_lost(layer, args, out)
        return None
    delattr(args[0], CARRIED)
    with torch._C.DisableTorchFunction():
        value = out.detach()
    return packed_linear(x, value, PackedLayer(layer, way, x.dtype))


def _name_if_lost(layer: nn.Module, args: tuple[Any, ...], out: Any) -> None:
    """A layer that is not linear and gives no gradient would be taken for a constant: the receipt names it."""
    mode = _explaining()
    if mode is None or not args or not isinstance(out, Tensor) or not torch.is_grad_enabled():
        return
    if isinstance(args[0], Tensor) and args[0].requires_grad and not out.requires_grad:
        name = type(layer).__name__
        mode.unruled[name] = mode.unruled.get(name, 0) + 1


# -- ways ------------------------------------------------------------------------------------------------------------


def _dequantised(module: nn.Module, grad: Tensor) -> Tensor:
    for owner in (getattr(module, "weight", None), module):
        dequantize: Any = getattr(owner, "dequantize", None)
        made = dequantize() if callable(dequantize) else None
        if isinstance(made, Tensor) and made.shape == (grad.shape[-1], module.in_features):
            return grad @ made.detach().as_subclass(Tensor).to(grad)
    raise NotImplementedError


def _own_gradient(module: nn.Module, grad: Tensor) -> Tensor:
    with torch.enable_grad():
        # Ones, for zeros have no size that they could be rounded by.
        x = torch.ones(1, len(grad), int(module.in_features), dtype=grad.dtype, device=grad.device)  # type: ignore[arg-type]
        x.requires_grad_()
        out = module.forward(x)
        (found,) = torch.autograd.grad(out, x, grad.to(out.dtype).reshape(out.shape))
    return found[0]


def _identity(module: nn.Module, grad: Tensor) -> Tensor:
    size = int(module.in_features)  # type: ignore[arg-type]
    return torch.cat([grad @ _linear(module, rows).T for rows in _units(size, grad.dtype, grad.device)], -1)


WAYS: tuple[Way, ...] = (_dequantised, _own_gradient, _identity)


def _way(module: nn.Module, like: Tensor) -> Way | None:
    """The first way that gives what the layer gives: ‖W r‖² = r · Wᵀ (W r) for any r."""
    r = torch.randn(2, like.shape[-1], generator=torch.Generator().manual_seed(0))
    for way in WAYS:
        with suppress(Exception), warnings.catch_warnings(action="ignore"), _alone():  # a library's: then it is no way
            r = r.to(device=like.device, dtype=like.dtype)
            y = _linear(module, r)
            size = (y.float() ** 2).sum(-1)
            if bool((((way(module, y) * r).float().sum(-1) - size).abs() <= FAR * size).all()):
                return way
    return None


def _linear(module: nn.Module, rows: Tensor) -> Tensor:
    """x Wᵀ as the layer gives it, without its bias."""
    out: Tensor = module.forward(rows[None])[0]
    bias = _bias(module)
    return out if bias is None else out - bias.to(out)


def _bias(module: nn.Module) -> Tensor | None:
    bias = getattr(module, "bias", None)
    return bias.detach() if isinstance(bias, Tensor) else None


def _units(size: int, dtype: torch.dtype, device: torch.device) -> Iterator[Tensor]:
    """The unit vectors, some at a time."""
    for first in range(0, size, AT_ONCE):
        count = min(AT_ONCE, size - first)
        rows = torch.zeros(count, size, dtype=dtype, device=device)
        rows[torch.arange(count), torch.arange(first, first + count)] = 1
        yield rows


def _device_of(module: nn.Module) -> torch.device:
    return next((t.device for t in (*module.parameters(), *module.buffers())), torch.device("cpu"))


@contextmanager
def _alone() -> Iterator[None]:
    """What the layer does inside is its own affair. Weights that are tensors of a kind stay so."""
    with torch.no_grad(), unseen():
        yield
