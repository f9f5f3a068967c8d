"""A device that this machine has not: tensors that say they lie on it, and are computed on the CPU.

It has no float64, as MPS; it refuses to mix its tensors with those of the CPU, as every device does. What runs here
makes no tensor in the wrong place, and none too wide:

    with device():
        module, ids = moved(module), There(ids)
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME = torch.device("mps", 0)
INSIDE = "meta"
"""What torch itself takes the tensors for: a device without data, for which it calls nothing but us."""
COPIES = ("_to_copy", "copy_")
"""Functions whose business it is to move data."""
INDEXING = ("index.", "index_put", "_unsafe_index")
"""Functions that take a CPU tensor of indices for data elsewhere, on real devices as well."""


class WrongPlace(RuntimeError):
    """What a real device would refuse."""


class There(Tensor):
    """A tensor elsewhere."""

    __module__ = "torch.elsewhere"  # a library's own kind of tensor may hold packed weights
    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    device = property(lambda self: NAME)  # type: ignore[assignment]
    is_meta = is_cpu = property(lambda self: False)  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, inner: Tensor) -> There:
        if inner.dtype in (torch.float64, torch.complex128):
            raise WrongPlace(f"this device has no {inner.dtype}")
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=INSIDE,
        )  # fmt: skip
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})

    def __getitem__(self, index: Any) -> Tensor:
        return super().__getitem__(with_tensors(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(with_tensors(index), value)

    def tolist(self) -> Any:
        return self.inner.tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        if not force:
            raise WrongPlace("a tensor that is elsewhere has no array: .cpu() first")
        return self.inner.numpy(force=True)

    def __repr__(self, **_: Any) -> str:
        return f"There({self.inner})"


def with_tensors(index: Any) -> Any:
    """An index without lists: torch would make tensors of the device without data of them."""
    if isinstance(index, tuple):
        return tuple(map(with_tensors, index))
    return torch.as_tensor(index) if isinstance(index, (list, np.ndarray)) else index


def computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What a function of torch gives, where its arguments are."""
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    there = [t for t in tensors if isinstance(t, There)]
    here = [t for t in tensors if not isinstance(t, There)]
    _check(func, args, there, here)
    device = kwargs.get("device")
    away = bool(there) if device is None else torch.device(device).type in (NAME.type, INSIDE)
    out = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    known = {id(t.inner): t for t in there} | {id(t): t for t in here}
    return tree_map(lambda o: known.get(id(o), There(o) if away else o) if isinstance(o, Tensor) else o, out)


def _check(func: Any, args: Any, there: list[There], here: list[Tensor]) -> None:
    name = func.__name__
    if any(t.device.type == INSIDE for t in here):
        raise WrongPlace(f"{func} made a tensor without data")
    if not there or name.startswith(COPIES):
        return
    if name.startswith(INDEXING):
        if not isinstance(args[0], There):
            raise WrongPlace(f"{func}: a tensor of the CPU, indexed by one elsewhere")
    elif any(t.dim() for t in here):
        raise WrongPlace(f"{func}: tensors on different devices, {[tuple(t.shape) for t in here]} on the CPU")


def _inner(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type in (NAME.type, INSIDE) else value
    return value.inner if isinstance(value, There) else value


class _Dispatch(TorchDispatchMode):
    """Functions that make tensors elsewhere of nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


class _Making(TorchFunctionMode):
    """The same, of numbers: these go past the other mode."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor) and device is not None and torch.device(device).type == NAME.type:
            made = func(*args, **{**kwargs, "device": None})
            return made if isinstance(made, There) else There(made)
        if func is Tensor.new_tensor and isinstance(args[0], There):
            return There(torch.tensor(args[1], **{"dtype": args[0].dtype, **kwargs}))
        return func(*args, **kwargs)


def _without_gradients(mode: bool = True) -> Any:
    return torch.no_grad() if mode else nullcontext()


@contextmanager
def device() -> Iterator[None]:
    """While this lasts, there is one more device. Inference mode knows no tensors of this kind: no gradients, in its
    place."""
    kept = torch.inference_mode
    torch.inference_mode = _without_gradients  # type: ignore[assignment,misc]
    try:
        with _Dispatch(), _Making():
            yield
    finally:
        torch.inference_mode = kept  # type: ignore[misc]


def moved(module: nn.Module) -> nn.Module:
    """A copy of a model, elsewhere. Weights that are one stay one."""
    made: dict[int, nn.Parameter] = {}
    module = copy.deepcopy(module)
    for part in module.modules():
        for name, p in part._parameters.items():
            if p is not None:
                part._parameters[name] = made.setdefault(id(p), nn.Parameter(There(p.detach())))
        for name, b in part._buffers.items():
            part._buffers[name] = None if b is None else There(b)
    return module
