"""A module as it is: what it is called, where it computes, how it runs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import nn

from whence import cancel
from whence.core import memory, recording
from whence.core.interception import Interception, as_it_is
from whence.core.packed import packed_layers, unpacked
from whence.core.recording import Recordings
from whence.errors import ModelError
from whence.models.attending import hidden_attention, in_the_open
from whence.models.example import ExampleBatch
from whence.models.findings import Findings, Known
from whence.models.inspecting import accepted_by, device_of, is_spread, modules_in
from whence.models.state import state_of

__all__ = ["HeldModule"]


class HeldModule:
    """A module that is run and never changed."""

    task: ClassVar[str]
    """Its name in `whence.load(task=…)`."""

    def __init__(self, module: nn.Module, name: str = ""):
        self.module = module
        self.check_training()
        self.name = name or type(module).__name__
        self._accepted = accepted_by(module)
        self.begin_with(Findings())

    def begin_with(self, found: Findings) -> None:
        """Begin with what was found out before."""
        self._findings: Findings = found
        self._known: Known | None = None
        self._passes = 0
        """That were made when it was looked at last."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": None}  # a copy looks for itself

    def look(self) -> None:
        """See what the model is by now: what was found out when it was another does not count."""
        self.check_training()
        self._see(None)

    def look_again(self) -> Known:
        """See what passes have left of the model since it was looked at. It is the same model, and may have put other
        tensors in the place of those that recordings read."""
        if self._passes != self._findings.passes.count:
            self._see(self.known)
        return self.known

    def _see(self, before: Known | None) -> Known:
        self._passes = self._findings.passes.count  # a pass that ends meanwhile has it looked at again
        self._known = self._findings.at(state_of(self.module), before)
        return self._known

    @property
    def known(self) -> Known:
        """What is known of the model as it was when it was looked at."""
        return self._known or self._see(None)

    @property
    def recordings(self) -> Recordings:
        """Passes over small batches of all states that are known."""
        return self._findings.recordings

    def around(self, module: nn.Module) -> Self:
        """The same for another module."""
        other = copy.copy(self)
        other.module = module
        other.begin_with(Findings())
        return other

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
        if self.device.type not in recording.DEVICES or self.known.state.open:
            return False
        return bool(self.once("replays", lambda: not is_spread(self.module) and not self.packed))

    def forward(self, inputs: dict[str, Any]) -> Any:
        """The model's outputs. Caches are off: they would keep state between layers that no gradient passes."""
        extra = {"use_cache": False} if "use_cache" in self._accepted else {}
        with self.running():
            return self.module(**inputs, **extra)

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the module runs in a pass."""
        cancel.check()
        with self.counted(), in_the_open(self.module), unpacked(self.module), memory.held(self.module):
            yield

    @contextmanager
    def counted(self) -> Iterator[None]:
        """While the module runs, which may leave it another than it was."""
        try:
            yield
        finally:
            self._findings.passes.count += 1

    def run(self, batch: ExampleBatch) -> Any:
        """The outputs for a batch, as the model is."""
        if not batch.looked_up:
            return self.forward(batch.inputs)
        mode = Interception(batch, {}, default=as_it_is)
        with torch.no_grad(), mode:
            return self.forward(mode.prepared())

    def once(self, what: str, find: Callable[[], Any]) -> Any:
        """A fact about the model that is found once. What could not be found out (None) is tried again."""
        facts = self.known.facts
        if facts.get(what) is None:
            facts[what] = find()
        return facts[what]

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
