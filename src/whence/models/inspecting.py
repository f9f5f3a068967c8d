"""What a module says of itself: its parts, its labels, the arguments it takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

__all__ = ["Shell", "accepted_by", "device_of", "in_short", "is_spread", "labels_of", "modules_in"]


def device_of(module: nn.Module) -> torch.device:
    """Where a module computes, or begins to. Weights that accelerate keeps away are on no device until they run."""
    found = next((p.device for p in module.parameters()), torch.device("cpu"))
    if found.type != "meta":
        return found
    hooks = (getattr(m, "_hf_hook", None) for m in modules_in(module))
    places = (getattr(part, "execution_device", None) for hook in hooks for part in getattr(hook, "hooks", (hook,)))
    return torch.device(next((place for place in places if place is not None), "cpu"))


def is_spread(module: nn.Module) -> bool:
    """Whether accelerate moves weights and values about while it runs: several devices, offloading."""
    return any("_hf_hook" in m.__dict__ for m in modules_in(module))  # a missing attribute of a module is slow


def modules_in(module: nn.Module) -> Iterator[nn.Module]:
    """A module and all its parts, some perhaps twice: what `modules()` says, several times as fast."""
    todo: list[nn.Module | None] = [module]
    while todo:
        here = todo.pop()
        if here is not None:
            yield here
            todo.extend(here._modules.values())


class Shell(nn.Module):
    """Stands for a model where only its configuration is needed."""

    def __init__(self, config: Any):
        super().__init__()
        self.config = config
        self.eval()


def labels_of(module: nn.Module) -> tuple[str, ...]:
    names = getattr(getattr(module, "config", None), "id2label", None) or {}
    return tuple(str(names[key]) for key in sorted(names, key=int))


def accepted_by(module: nn.Module) -> frozenset[str]:
    """The arguments that a model takes by name. A wrapper that takes anything hands it to the model inside."""
    own = inspect.signature(module.forward).parameters
    names = {n for n, p in own.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    if any(p.kind == p.VAR_KEYWORD for p in own.values()):
        within = (inspect.signature(m.forward).parameters for m in list(module.modules())[1:])
        names |= set(next((inner for inner in within if "input_ids" in inner), ())) - {"use_cache"}
    return frozenset(names)


def in_short(count: int) -> str:
    """A number of weights, as people say it.

    >>> [in_short(n) for n in (950, 4_400_000, 8_030_000_000)]
    ['950', '4.4M', '8.0B']
    """
    for unit, size in (("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)
