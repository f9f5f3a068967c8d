"""A module as it is: what it is called, where it computes, how it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import nn

from whence import cancel
from whence.core import memory, recording
from whence.core.interception import Interception, as_it_is
from whence.core.packed import packed_layers, unpacked
from whence.errors import ModelError
from whence.models.attending import hidden_attention, in_the_open
from whence.models.example import ExampleBatch
from whence.models.findings import Findings
from whence.models.inspecting import accepted_by, device_of, is_spread, modules_in

__all__ = ["HeldModule"]

_known: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("known", default=None)


class HeldModule:
    """A module that is run and never changed."""

    task: ClassVar[str]
    """Its name in `whence.load(task=…)`."""

    def __init__(self, module: nn.Module, name: str = ""):
        self.module = module
        self.check_training()
        self.name = name or type(module).__name__
        self._accepted = accepted_by(module)
        self.known(Findings())

    def known(self, found: Findings) -> None:
        """Begin with what was found out before."""
        self._facts, self.recordings = found.facts, found.recordings

    @property
    def called(self) -> str:
        """What it is, in a sentence."""
        return f"{'an' if self.task[0] in 'aeio' else 'a'} {self.task} model"

    @property
    def device(self) -> torch.device:
        """Where its inputs go."""
        return device_of(self.module)

    @property
    def dtype(self) -> torch.dtype:
        return next((p.dtype for p in self.module.parameters() if p.is_floating_point()), torch.float32)

    @cached_property
    def size(self) -> int:
        """How many weights there are."""
        return sum(p.numel() for p in self.module.parameters())

    @property
    def config(self) -> Any:
        return getattr(self.module, "config", None)

    @property
    def packed(self) -> int:
        """How many linear layers keep their weight packed."""
        return len(packed_layers(self.module))

    @property
    def replays(self) -> bool:
        """Whether passes over small batches are recorded."""
        return self.device.type in recording.DEVICES and self.while_unchanged(
            "replays", lambda: not is_spread(self.module) and not self.packed
        )

    def forward(self, inputs: dict[str, Any]) -> Any:
        """The model's outputs. Caches are off: they would keep state between layers that no gradient passes."""
        cancel.check()
        extra = {"use_cache": False} if "use_cache" in self._accepted else {}
        with in_the_open(self.module), unpacked(self.module), memory.held(self.module):
            return self.module(**inputs, **extra)

    def run(self, batch: ExampleBatch) -> Any:
        """The outputs for a batch, as the model is."""
        if not batch.looked_up:
            return self.forward(batch.inputs)
        mode = Interception(batch, {}, default=as_it_is)
        with torch.no_grad(), mode:
            return self.forward(mode.prepared())

    def once(self, what: str, find: Callable[[], Any]) -> Any:
        """A fact about the model that is measured once. What could not be found out (None) is tried again."""
        if self._facts.get(what) is None:
            self._facts[what] = find()
        return self._facts[what]

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """While this lasts, nobody changes the model: what takes a walk over all its parts is found out once."""
        before = _known.set({})
        try:
            yield
        finally:
            _known.reset(before)

    def while_unchanged(self, what: str, find: Callable[[], Any]) -> Any:
        """A fact about the model as it is now."""
        known = _known.get()
        if known is None:
            return find()
        if (id(self), what) not in known:
            known[id(self), what] = find()
        return known[id(self), what]

    def check_training(self) -> None:
        """Dropout makes every run another: refuse it, in any part of the model."""
        if any(m.training for m in modules_in(self.module)):
            busy = next(name for name, m in self.module.named_modules() if m.training)
            where = f"its part {busy!r} is" if busy else "the model is"
            raise ModelError(f"{where} in training mode, where dropout makes every run different. Type: model.eval()")

    def facts(self) -> dict[str, Any]:
        """What the model is, for the stamp of a result."""
        return {
            "model": self.name,
            "class": type(self.module).__name__,
            "revision": getattr(self.config, "_commit_hash", None),
            "dtype": str(next((p.dtype for p in self.module.parameters()), "")).removeprefix("torch."),
            **({"attention": f"by torch in place of {hidden}"} if (hidden := hidden_attention(self.config)) else {}),
        }
