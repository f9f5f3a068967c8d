"""Keep, or run again: how much of a forward pass is held for the backward pass.

A *plan* decides for each block of a model: keep what its backward pass needs, or drop it and run the block again when
the backward pass comes to it, under the same rules, with what its attention gave kept. Results are equal. Blocks are
found by structure, the children of lists of like modules; hooks that look at the thread they run in are on them while
the model runs, and nothing else of the model is touched.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_map

from whence.errors import OptionError

__all__ = [
    "CannotRunAgain",
    "Memory",
    "blocks_of",
    "current",
    "held",
    "planned",
    "remembered",
    "room_on",
    "runs_again",
    "size_of",
]

Memory = Literal["auto", "keep", "recompute"] | str | int
"""Keep everything where it fits; always; never; or within so many bytes ("40GiB")."""
UNITS = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
SPARE = 0.1
"""Part of the free memory that is left alone: kernels want some, and pieces of it are too small."""

WORK = 2
"""What the backward pass of a block takes, over what it keeps: results on the way, and their gradients. The last blocks
are those that are kept, so that their memory is free again when the first are run again, which takes twice as much."""

_chosen: ContextVar[Memory] = ContextVar("memory", default="auto")
_local = threading.local()


class CannotRunAgain(RuntimeError):
    """A block does not do the same twice: keep what it gave."""


def size_of(memory: Memory) -> int | None:
    """The bytes that a choice names; None for the words.

    >>> size_of("40GiB") == 40 * 2**30
    True
    """
    if memory in ("auto", "keep", "recompute"):
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", str(memory))
    if found is None or found[2].lower() not in UNITS or isinstance(memory, bool):
        raise OptionError(f"memory={memory!r} is not 'auto', 'keep', 'recompute' or a size such as '40GiB'")
    return int(float(found[1]) * UNITS[found[2].lower()])


def current() -> Memory:
    """What holds here."""
    return _chosen.get()


@contextmanager
def planned(memory: Memory) -> Iterator[None]:
    """Everything inside holds as much as `memory` says."""
    size_of(memory)
    before = _chosen.set(memory)
    try:
        yield
    finally:
        _chosen.reset(before)


def blocks_of(module: nn.Module) -> list[nn.Module]:
    """The blocks of a model, in order: children of the outermost lists whose members are of one kind."""
    found: list[nn.Module] = []
    seen: set[int] = set()
    todo = [module]
    while todo:
        m = todo.pop()
        if id(m) in seen:
            continue
        seen.add(id(m))
        children = [child for child in m._modules.values() if child is not None]
        listed = isinstance(m, (nn.ModuleList, nn.Sequential)) and len(children) > 1
        if listed and len({type(child) for child in children}) == 1 and any(True for _ in m.parameters()):
            found += [child for child in children if not isinstance(child, torch.jit.ScriptModule)]
        else:
            todo += reversed(children)
    return found


@contextmanager
def held(module: nn.Module) -> Iterator[None]:
    """While the model runs, its blocks hold what the plan says."""
    memory = _chosen.get()
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    if memory == "keep" or not torch.is_grad_enabled() or (memory == "auto" and device.type != "cuda"):
        yield
        return
    blocks = blocks_of(module)
    plan = _Plan(blocks, memory, device)
    handles = [h for block in blocks for h in _hooked(block)]
    before = getattr(_local, "plan", None)
    _local.plan = plan
    try:
        yield
    finally:
        _local.plan = before
        plan.leave()
        for handle in handles:
            handle.remove()


def _hooked(block: nn.Module) -> list[Any]:
    return [
        block.register_forward_pre_hook(_enter, with_kwargs=True),
        block.register_forward_hook(_leave, always_call=True),
    ]


def _enter(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    plan = getattr(_local, "plan", None)
    if plan is not None and torch.is_grad_enabled():
        plan.enter(block, args, kwargs)


def _leave(block: nn.Module, args: Any, out: Any) -> None:
    plan = getattr(_local, "plan", None)
    if plan is not None and plan.block is block:
        plan.leave()


class _Plan:
    """What each block of one forward pass does. The first is weighed; whether it is kept, and the others, follow."""

    def __init__(self, blocks: list[nn.Module], memory: Memory, device: torch.device):
        self.left = len(blocks)
        self.memory = memory
        self.device = device
        self.weight: int | None = None
        """Bytes that a kept block holds."""
        self.free = size_of(memory) if memory not in ("auto", "recompute") else _free(device)
        self.held = 0
        """Bytes that blocks hold already, where nobody else counts them."""
        self.start = _allocated(device)
        self.inside: Any = None
        self.block: nn.Module | None = None
        """The block that runs now."""
        self.running: _Again | None = None
        self.again = 0
        """Blocks that will be run again."""

    def enter(self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.inside is not None:  # a block within a block
            return
        keeps = self.memory != "recompute" and (self.weight is None or self.left * self.weight <= self._room())
        self.left -= 1
        if not keeps or self.weight is None:
            self.again += not keeps
            run = _Again(block, args, kwargs, holds=keeps)
            _local.again = self.running = run
            self.inside = saved_tensors_hooks(run.pack, run.unpack)
        else:
            self.inside = _Nothing()
            self.held += self.weight
        self.block = block
        self.inside.__enter__()

    def leave(self) -> None:
        if self.inside is None:
            return
        self.inside.__exit__(None, None, None)
        self.inside = self.block = None
        _local.again = None
        if self.weight is None and self.running is not None and self.running.holds:
            self.weight = self.running.bytes
            self.held += self.weight
            if self.left * self.weight > self._room():  # not all can be kept: begin with this one
                self.again += 1
                self.held -= self.weight
                self.running.drop()
        self.running = None

    def _room(self) -> float:
        """Bytes that are left for blocks to come, less what the backward pass of one takes."""
        assert self.weight is not None
        if self.free is None:
            return float("inf")
        used = self.held if self.start is None else (_allocated(self.device) or 0) - self.start
        return self.free - used - WORK * self.weight


def _allocated(device: torch.device) -> int | None:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else None


def _free(device: torch.device) -> int | None:
    if device.type != "cuda":
        return None
    outside, _ = torch.cuda.mem_get_info(device)
    inside = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int((outside + inside) * (1 - SPARE))


def room_on(device: torch.device) -> int | None:
    """Bytes that are free there; None where nobody knows."""
    if device.type == "cuda":
        return _free(device)
    try:  # of Linux: what is free, and what it would give back
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


class _Enough(Exception):
    """All that the backward pass of a block needs has been computed again."""


class _Nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...


class _Again:
    """A block that holds its inputs and what its attention gave, and runs again for the rest.

    One that `holds` keeps the rest too, weighs it, and can be told to drop it.
    """

    def __init__(self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, holds: bool = False):
        self.block, self.args, self.kwargs, self.holds = block, args, kwargs, holds
        self.bytes = 0
        """Of what is held, every piece of memory once and the weights not at all."""
        self._known = {p.untyped_storage().data_ptr() for p in block.parameters()} if holds else set()
        self.shapes: list[tuple[torch.Size, torch.dtype]] = []
        """Of what the backward pass needs, in order: what runs again must come to the same."""
        self.values: dict[int, Tensor] = {}
        self.attended: list[Any] = []
        """Results that are kept in the order in which they were computed."""
        self.place: int | None = None
        """Where in `attended` a run for the backward pass is; None in the forward pass."""

    def pack(self, t: Tensor) -> int:
        if self.holds:
            self.values[len(self.shapes)] = t.detach()
            storage = t.untyped_storage()
            if storage.data_ptr() not in self._known:
                self._known.add(storage.data_ptr())
                self.bytes += storage.nbytes()
        self.shapes.append((t.shape, t.dtype))
        return len(self.shapes) - 1

    def drop(self) -> None:
        self.holds = False
        self.values.clear()

    def unpack(self, n: int) -> Tensor:
        if n not in self.values:
            self._run()
        return self.values.pop(n)

    def _run(self) -> None:
        got: list[Tensor] = []

        def fresh(x: Any) -> Any:
            return x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x

        def keep(t: Tensor) -> None:
            got.append(t.detach())
            if len(got) == len(self.shapes):
                raise _Enough  # what follows, often a large product, nobody needs again

        before = getattr(_local, "again", None)
        _local.again, self.place = self, 0
        try:
            with suppress(_Enough), torch.enable_grad(), saved_tensors_hooks(keep, lambda t: t):
                self.block(*tree_map(fresh, self.args), **tree_map(fresh, self.kwargs))
        finally:
            _local.again, self.place = before, None
        if [(t.shape, t.dtype) for t in got] != self.shapes:
            raise CannotRunAgain(f"a block that kept {len(self.shapes)} tensors keeps others when it runs again")
        self.values = dict(enumerate(got))

    def remembered(self, compute: Callable[[], Any]) -> Any:
        if self.place is None:
            made = compute()
            self.attended.append(_detached(made))
            return made
        self.place += 1
        return _detached(self.attended[self.place - 1])


def _detached(values: Any) -> Any:
    """The same numbers without their graph: it would hold us, and we hold them."""
    return tree_map(lambda t: t.detach() if isinstance(t, Tensor) else t, values)


def runs_again() -> bool:
    """Whether what is computed now will be computed again."""
    return getattr(_local, "again", None) is not None


def remembered(compute: Callable[[], Any]) -> Any:
    """`compute()`, or what it gave the first time where a block runs again: for what is small and took long."""
    again = getattr(_local, "again", None)
    return compute() if again is None else again.remembered(compute)
