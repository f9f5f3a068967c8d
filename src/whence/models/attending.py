"""Attention that a model does in a kernel of its own (flash, flex, one from a hub): torch does it in an explanation.

Such kernels hide in functions that nobody can see into: relevance would end there. The model's settings are put back
when the last explanation under way is done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

__all__ = ["hidden_attention", "in_the_open", "own_setting"]

SEEN = (None, "", "eager", "sdpa")
"""Settings of a model under which torch attends."""
_lock = threading.Lock()
_changed: dict[int, _Change] = {}


class _Change:
    """Settings as they were, and how many need them changed."""

    def __init__(self, saved: list[tuple[Any, Any]]):
        self.saved, self.users = saved, 0


def hidden_attention(config: Any) -> str | None:
    """The attention of a model that can't be seen into, by its name in transformers; None where all can."""
    change = _changed.get(id(config))
    names = [name for _, name in change.saved] if change else [_name(c) for c in _configs(config)]
    return next((str(name) for name in names if name not in SEEN), None)


def own_setting(config: Any) -> Any:
    """Which attention a configuration names, or named before it was changed for an explanation under way."""
    changes = [pair for change in list(_changed.values()) for pair in change.saved]
    return next((name for held, name in changes if held is config), _name(config))


@contextmanager
def in_the_open(module: nn.Module) -> Iterator[None]:
    """While anybody is in here, the model attends by torch's own functions."""
    config = getattr(module, "config", None)
    with _lock:
        change = _changed.get(id(config))
        if change is None and hidden_attention(config) is not None:
            change = _changed[id(config)] = _Change([(c, _name(c)) for c in _configs(config)])
            plain = "sdpa" if getattr(module, "_supports_sdpa", True) else "eager"
            for held, name in change.saved:  # the outermost first, which changes those within
                held._attn_implementation = name if name in SEEN else plain
        if change is not None:
            change.users += 1
    try:
        yield
    finally:
        with _lock:
            if change is not None:
                change.users -= 1
                if change.users == 0:
                    for held, name in change.saved:
                        held._attn_implementation = name
                    del _changed[id(config)]


def _name(config: Any) -> Any:
    return getattr(config, "_attn_implementation", None)


def _configs(config: Any) -> Iterator[Any]:
    """A configuration and those of its parts, the outermost first."""
    if hasattr(config, "_attn_implementation"):
        yield config
        for name in getattr(config, "sub_configs", ()):
            yield from _configs(getattr(config, name, None))
