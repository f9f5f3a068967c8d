"""The head of a language model, given the rows that are asked about and no others.

Many models take `logits_to_keep`. In any other, the head is what makes the logits: a module, or a product that is
spelled out, (batch, token, hidden) by (hidden, word). Which it is, and whether the model says the same of a token if
its head sees no other, is tried out once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from whence.core.packed import is_packed
from whence.errors import InputError
from whence.models.targets import field_of

__all__ = ["KEEP", "Head", "find_head"]

KEEP = "logits_to_keep"
"""Says to a model of which tokens logits are wanted."""

LINEAR = nn.functional.linear
PRODUCTS = frozenset((LINEAR, torch.matmul, Tensor.matmul, Tensor.__matmul__))
"""Functions of rows and a table of weights."""


@dataclass(frozen=True)
class Head:
    """A module, or the n-th product that gives a number for each word at every token."""

    found: nn.Module | int
    words: int

    def given(self, rows: Tensor, tokens: int) -> AbstractContextManager[Any]:
        """While this lasts, in this thread, the head gets these of its rows."""
        if isinstance(self.found, int):
            return _Products(self.words, tokens, self.found, rows)
        return _hooked(self.found, rows)


def find_head(module: nn.Module, run: Callable[[], Any], tokens: int) -> Head | None:
    """The head that can be given fewer rows than there are tokens; None where the model has none.

    `run` is a forward pass over so many tokens.
    """
    try:
        with torch.no_grad():
            with _Products(0, tokens) as seen:
                whole = field_of(run(), "logits")
            words, rows = whole.shape[-1], torch.tensor([tokens // 2], device=whole.device)
            right = whole[:, rows]
            known = getattr(module, "get_output_embeddings", lambda: None)()
            products = seen.widths.count(words)
            plain = isinstance(known, nn.Linear) and not is_packed(known)  # a packed one has hooks that must see all
            for found in (*([known] if plain else []), *([products] if products else [])):
                head = Head(found, words)
                if _is_same(run, head.given(rows, tokens), right):
                    return head
    except Exception:  # it wants more than tokens, or has no logits: nothing is left out
        return None
    return None


def _is_same(run: Callable[[], Any], narrow: AbstractContextManager[Any], right: Tensor) -> bool:
    try:
        with narrow:
            part = field_of(run(), "logits")
    except (RuntimeError, ValueError, IndexError, InputError):  # it counts its rows
        return False
    return part.shape == right.shape and torch.allclose(part, right, rtol=1e-2, atol=1e-3)


@contextmanager
def _hooked(module: nn.Module, rows: Tensor) -> Iterator[None]:
    thread = threading.get_ident()

    def pick(_: Any, args: tuple[Any, ...]) -> Any:
        return (args[0][:, rows], *args[1:]) if threading.get_ident() == thread else None

    handle = module.register_forward_pre_hook(pick)
    try:
        yield
    finally:
        handle.remove()


class _Products(TorchFunctionMode):
    """Looks at products of all tokens with a table, and gives the n-th of so many words these rows alone."""

    def __init__(self, words: int, tokens: int, number: int = 0, rows: Tensor | None = None):
        super().__init__()
        self.words, self.tokens, self.number, self.rows = words, tokens, number, rows
        self.widths: list[int] = []
        """How many numbers each product gave for a token."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in PRODUCTS and len(args) > 1 and args[0].dim() == 3 and args[1].dim() == 2:
            width = args[1].shape[0 if func is LINEAR else 1]
            if args[0].shape[1] == self.tokens:
                self.widths.append(width)
                if self.rows is not None and width == self.words and self.widths.count(width) == self.number:
                    args = (args[0][:, self.rows], *args[1:])
        return func(*args, **(kwargs or {}))
