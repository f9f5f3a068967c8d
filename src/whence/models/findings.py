"""What was found out about a model, for as long as it stays what it was.

    whence.explain((model, tokenizer), first)   # how examples may stand beside each other is measured
    whence.explain((model, tokenizer), second)  # it is known, and small batches on a GPU are played
    model.set_adapter("other")
    whence.explain((model, tokenizer), third)   # another model: it is measured anew

What is known of a module in memory is kept as long as the module, and holds nothing that would keep the module alive.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch import nn

from whence.core.recording import Recordings
from whence.models.state import State

__all__ = ["Findings", "Known", "findings_of"]

STATES = 4
"""States of one model that are remembered: an adapter switched on and off."""
_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a model in one state: facts by their names."""

    state: State
    facts: dict[str, Any] = field(default_factory=dict)
    number: int = field(default_factory=lambda: next(_numbers))
    """No other state has it."""


@dataclass
class Passes:
    """How often a module was run: a pass may leave it another than it was."""

    count: int = 0


class Findings:
    """What was found in the latest states of a model, and passes over small batches, to be played again."""

    def __init__(self, passes: Passes | None = None) -> None:
        self.recordings = Recordings()
        self.passes = passes or Passes()
        self._lock = threading.Lock()
        self._latest: list[Known] = []

    def __reduce__(self) -> Any:
        return Findings, ()  # a state is of one process, and so is a part of the model

    def at(self, state: State, after: Known | None = None) -> Known:
        """In this state. `after`: what a pass of ours made it from, which is the same model."""
        with self._lock:
            before = next((known for known in self._latest if known.state.held == state.held), None)
            if before is not None and before.state == state:
                known = before
            else:
                same = before or after
                known = Known(state, {} if same is None else same.facts)
            latest = [known, *(other for other in self._latest if other is not before)]
            self._latest = latest[:STATES]
            forgotten = [*latest[STATES:], *([before] if before is not None and before is not known else [])]
        for gone in forgotten:
            self.recordings.forget(gone.number)
        return known

    def last(self, what: str) -> Any:
        """A fact that is true of some state, the latest first; None where none is."""
        with self._lock:
            return next((fact for known in self._latest if (fact := known.facts.get(what))), None)


_lock = threading.Lock()
_known: WeakKeyDictionary[nn.Module, tuple[Passes, dict[Hashable, tuple[ref[Any] | None, Findings]]]]
_known = WeakKeyDictionary()
"""By how a module is read: what reads for it, and what was found."""


def findings_of(module: nn.Module, companion: Any, how: Hashable) -> Findings:
    """Those of a module that is read in one way, beside one tokenizer or processor."""
    try:
        reader = None if companion is None else ref(companion)
        with _lock:
            passes, ways = _known.setdefault(module, (Passes(), {}))
            held = ways.get((how, id(companion)))
            if held is not None and held[0] == reader:
                return held[1]
            for way, (gone, _) in list(ways.items()):
                if gone is not None and gone() is None:
                    del ways[way]
            ways[how, id(companion)] = reader, (found := Findings(passes))
            return found
    except TypeError:  # a module that has no hash, a tokenizer that nothing can point at weakly
        return Findings()
