"""Layers of a model: its blocks, found without knowing the model, and any module by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from whence.errors import InputError, ModelError, UnknownNameError

__all__ = ["Layer", "blocks", "choose", "hooked"]


@dataclass(frozen=True)
class Layer:
    """A module, its name in `named_modules()`, and its number where it is a block."""

    name: str
    module: nn.Module
    index: int | None = None


class hooked:
    """Forward hooks that are gone when the block ends, whatever happens in it."""

    def __init__(self, modules: Iterable[nn.Module], hook: Callable[[nn.Module, Any, Any], Any]):
        self.modules, self.hook = list(modules), hook
        self.handles: list[Any] = []

    def __enter__(self) -> None:
        try:
            for module in self.modules:
                self.handles.append(module.register_forward_hook(self.hook))
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


def choose(root: nn.Module, wanted: Any, run: Callable[[], Any]) -> list[Layer]:
    """Layers by number, by name, "all" blocks, or a list of these; by default the last block but one.

    The last block is often read at one token only, so concepts that live in the others have left it already.
    `run` runs the model once, to see which modules take part.
    """
    modules = dict(root.named_modules())
    modules.pop("", None)
    choices = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    if not choices:
        raise InputError("layer=[] names no layer: pass a number, a name, or 'all'")
    for name in choices:
        if isinstance(name, str) and name != "all" and name not in modules:
            raise UnknownNameError(
                "layer", name, difflib.get_close_matches(name, modules, 8, 0.3) or list(modules)[:20]
            )
    ran = _those_that_run(root, run)
    known = blocks(root, ran)
    picked: list[Layer] = []
    for one in choices:
        picked += (
            _by_name(one, modules, known, ran) if isinstance(one, str) and one != "all" else _by_number(one, known)
        )
    return list(dict.fromkeys(picked))


def blocks(root: nn.Module, ran: set[nn.Module]) -> list[Layer]:
    """The repeated blocks: the longest list of modules of one class that all ran; the first of several as long."""
    for kind in (nn.ModuleList, nn.Sequential):
        best: list[Layer] = []
        for name, module in root.named_modules():
            if not isinstance(module, kind) or len(module) <= len(best):
                continue
            children = list(module.named_children())
            if len({type(child) for _, child in children}) == 1 and all(child in ran for _, child in children):
                best = [Layer(f"{name}.{key}".lstrip("."), child, n) for n, (key, child) in enumerate(children)]
        if best:
            return best
    return []


def _by_name(name: str, modules: dict[str, nn.Module], known: list[Layer], ran: set[nn.Module]) -> list[Layer]:
    if modules[name] not in ran:
        raise ModelError(f"layer {name!r} does not run by itself (it is a list, or not used): name one inside it")
    return [next((block for block in known if block.name == name), Layer(name, modules[name]))]


def _by_number(wanted: Any, known: list[Layer]) -> list[Layer]:
    if not known:
        raise ModelError("this model has no list of blocks to count. Pass the name of a module: layer='encoder.norm'")
    if wanted == "all":
        return known
    number = max(len(known) - 2, 0) if wanted is None else wanted
    if isinstance(number, bool) or not isinstance(number, int):
        raise InputError(f"layer={wanted!r}: pass the number of a block, the name of a module, or 'all'")
    if not -len(known) <= number < len(known):
        raise InputError(f"layer {number} does not exist: the model has {len(known)} blocks, 0 to {len(known) - 1}")
    return [known[number]]


def _those_that_run(root: nn.Module, run: Callable[[], Any]) -> set[nn.Module]:
    ran: set[nn.Module] = set()
    with hooked(root.modules(), lambda module, _inputs, _output: ran.add(module)), torch.no_grad():
        run()
    return ran
