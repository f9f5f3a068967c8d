"""What was found out about a module in memory, for whoever passes it again.

    whence.explain((model, tokenizer), first)   # how examples may stand beside each other is measured
    whence.explain((model, tokenizer), second)  # it is known, and small batches on a GPU are played

It is kept as long as the module, and holds nothing that would keep the module alive.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch import nn

from whence.core.recording import Recordings
from whence.models.inspecting import modules_in, settings_of

__all__ = ["Findings", "findings_of"]


@dataclass
class Findings:
    """Facts by their names, and passes over small batches, to be played again."""

    facts: dict[str, Any] = field(default_factory=dict)
    recordings: Recordings = field(default_factory=Recordings)


_lock = threading.Lock()
_known: WeakKeyDictionary[nn.Module, dict[Hashable, tuple[ref[Any] | None, int, Findings]]] = WeakKeyDictionary()
"""By how a module is read: what reads for it, its parts at that time, and what was found."""


def findings_of(module: nn.Module, companion: Any, how: Hashable) -> Findings:
    """Those of a module that is read in one way, beside one tokenizer or processor; new ones if its parts changed, or
    what its configuration says."""
    try:
        reader, parts = None if companion is None else ref(companion), _parts(module)
        with _lock:
            ways = _known.setdefault(module, {})
            held = ways.get((how, id(companion)))
            if held is not None and (held[0], held[1]) == (reader, parts):
                return held[2]
            for way, (gone, _, _) in list(ways.items()):
                if gone is not None and gone() is None:
                    del ways[way]
            found = Findings()
            ways[how, id(companion)] = reader, parts, found
            return found
    except TypeError:  # a module that has no hash, a tokenizer that nothing can point at weakly
        return Findings()


def _parts(module: nn.Module) -> int:
    parts = [(id(part), type(part)) for part in modules_in(module)]
    return hash((settings_of(getattr(module, "config", None)), *parts))
