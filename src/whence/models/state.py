"""What a module is at one moment: what was found out about it holds for as long as this stays the same.

What can't be seen: numbers written through `.data`, objects of other classes that change within, long lists of settings
that are written into, and what functions read from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from inspect import getattr_static
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import torch
from torch import Tensor, nn

from whence.models.attending import own_setting
from whence.models.inspecting import modules_in

__all__ = ["State", "state_of"]

PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size})
"""What a setting is, where it is one value."""
TORCHS = frozenset(vars(nn.Module()))
"""What every module holds, and no setting of its own is. Its mode is looked at by `check_training`."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
EVERYWHERE = [getattr(nn.modules.module, f"_global{name}") for name in HOOKS]
KNOWN = ("whence.", "torch.", "transformers.")
"""Whose functions do the same every time. Ours come and go with every pass, and mind their own threads."""
MANY = 256
"""A longer list is names, and no setting."""
DEEP = 4
"""Lists within lists that are looked into, and configurations within configurations."""


class State(NamedTuple):
    """What is equal where a module would compute the same."""

    held: list[Any]
    """Its parts, weights, settings and hooks."""
    loose: list[Any]
    """Tensors that are neither weights nor saved with them. Some models leave such behind in every pass, or make them
    anew: what was found out holds all the same, and recordings do not."""
    open: bool
    """Whether functions of others run in it, as hooks or in place of its own: played passes would not call them."""


class _Same:
    """Equal to what stands for the same object, and to nothing else. It does not keep the object alive, unless nothing
    can point at it weakly: a number of NumPy's, a range. A list might hold the model, and goes by its place in memory.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, held: Any):
        try:
            self.to: Any = ref(held)
        except TypeError:
            kept = None if isinstance(held, (list, tuple, dict)) else held
            self.to = lambda: kept
        self.number = id(held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.number == other.number and self.to() is other.to()


def state_of(module: nn.Module) -> State:
    """Of a module and all its parts."""
    held: list[Any] = []
    loose: list[Any] = []
    kinds: dict[type[nn.Module], None] = {}
    configs: dict[int, Any] = {}
    is_open = any(EVERYWHERE)
    for part in modules_in(module):
        own, kind = part.__dict__, type(part)
        kinds[kind] = None
        held.append(kind)
        for name in own.keys() - TORCHS:
            value = own.get(name)  # another thread may be running it
            if value is not None and type(value) in PLAIN:
                held += name, value
            elif _is_left(value):
                loose += name, _said(value)
            elif name.endswith("config") and hasattr(value, "__dict__"):
                configs[id(value)] = value
            else:
                held += name, _said(value)
                is_open = is_open or (name == "forward" and not _is_known(value))
        for where in HOOKS:
            if own[where] and (theirs := [n for n, hook in list(own[where].items()) if not _is_known(hook)]):
                held.append((where, theirs))
                is_open = True
        passing = own.get("_non_persistent_buffers_set", ())
        for tensors in (own.get("_parameters"), own.get("_buffers")):
            for name, value in list((tensors or {}).items()):
                numbers = None if value is None else _numbers(value)
                (loose if name in passing else held).append((name, numbers))
        if "_parameters" not in own:  # compiled
            held += [_numbers(value) for value in (*part.parameters(recurse=False), *part.buffers(recurse=False))]
    held += [_Same(getattr_static(kind, "forward", None)) for kind in kinds]
    held += [_settings(config) for config in configs.values()]
    return State(held, loose, is_open)


def _is_left(value: Any) -> bool:
    """Whether a pass may have left it behind: tensors, or nothing yet."""
    if isinstance(value, (list, tuple)):
        return not value or isinstance(value[0], Tensor)
    return value is None or isinstance(value, Tensor)


def _is_known(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith(KNOWN)


def _numbers(value: Tensor) -> tuple[Any, ...]:
    """Where the numbers of a tensor lie, in which order, and how often they were written."""
    numbers: tuple[Any, ...] = ()
    with suppress(Exception):  # those of other kinds may lie nowhere, or have no shape yet
        numbers = value.data_ptr(), value.dtype, value.shape, value.stride(), _written(value)
    return numbers if type(value) in (Tensor, nn.Parameter) else (_Same(value), *numbers)


def _written(value: Tensor) -> int:
    return 0 if value.is_inference() else value._version


def _said(value: Any, deep: int = DEEP) -> Any:
    """Something that is equal as long as the value says the same."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, np.generic):  # compared with a list, it would be an array of answers
        return type(value), repr(value)
    if isinstance(value, Tensor):
        return _Same(value), _written(value)
    if isinstance(value, (list, tuple, set, frozenset, Mapping)) and deep and len(value) <= MANY:
        if isinstance(value, Mapping):
            return [(_said(key, 0), _said(v, deep - 1)) for key, v in list(value.items())]
        return [_said(v, deep - 1) for v in list(value)]
    return _Same(value)


def _settings(config: Any, deep: int = DEEP) -> list[Any]:
    """What a configuration says, and those within it: the attention that was chosen, and not what stands in for it
    while somebody explains."""
    held: list[Any] = [own_setting(config)]
    for name, value in list(vars(config).items()):
        if not name.startswith("_attn_implementation"):
            within = hasattr(value, "to_dict") and hasattr(value, "__dict__") and deep
            held += name, _settings(value, deep - 1) if within else _said(value)
    return held
