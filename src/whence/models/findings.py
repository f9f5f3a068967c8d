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


class Findings:
    """What was found in the latest states of a model, and passes over small batches, to be played again."""

    def __init__(self) -> None:
        self.recordings = Recordings()
        self._lock = threading.Lock()
        self._latest: list[Known] = []

    def __reduce__(self) -> Any:
        return Findings, ()  # a state is of one process, and so is a part of the model

    def at(self, state: State) -> Known:
        """In this state."""
        with self._lock:
            before = next((known for known in self._latest if known.state.held == state.held), None)
            if before is None:
                known = Known(state)
            elif before.state == state:
                known = before
            else:
                known = Known(state, before.facts)
            latest = [known, *(other for other in self._latest if other is not before)]
            self._latest = latest[:STATES]
            forgotten = len(latest) > STATES or (before is not None and known is not before)
        if forgotten:
            self.recordings.clear()
        return known


_lock = threading.Lock()
_known: WeakKeyDictionary[nn.Module, dict[Hashable, tuple[ref[Any] | None, Findings]]] = WeakKeyDictionary()
"""By how a module is read: what reads for it, and what was found."""


def findings_of(module: nn.Module, companion: Any, how: Hashable) -> Findings:
    """Those of a module that is read in one way, beside one tokenizer or processor."""
    try:
        reader = None if companion is None else ref(companion)
        with _lock:
            ways = _known.setdefault(module, {})
            held = ways.get((how, id(companion)))
            if held is not None and held[0] == reader:
                return held[1]
            for way, (gone, _) in list(ways.items()):
                if gone is not None and gone() is None:
                    del ways[way]
            ways[how, id(companion)] = reader, (found := Findings())
            return found
    except TypeError:  # a module that has no hash, a tokenizer that nothing can point at weakly
        return Findings()
