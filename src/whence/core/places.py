"""Places inside a model: hidden tensors whose relevance is read while the backward pass goes by.

In a gradient recipe the relevance of any tensor h of the forward pass is h ⊙ ∂f/∂h, and so a place costs nothing but a
look at both. What a place is, is seen in what the model computes; no model is named:

| kind         | the tensor                                                                         |
|--------------|------------------------------------------------------------------------------------|
| `layers`     | what a block gives: the residual stream behind it                                  |
| `heads`      | probabilities @ values, of every head by itself                                    |
| `attentions` | the linear layer that reads the heads: what attention adds to the stream           |
| `neurons`    | what an activation (times what it gates) gives, inside of a block                  |
| `mlps`       | the linear layer that reads the neurons: what the MLP adds to the stream           |
| `input`      | what the first block reads                                                         |
| `experts`    | the same of an expert, of the tokens that came to it                               |

Besides, what any module gives, by its name. Entries of the ledger are booked by *stage*, the number of blocks that have
run, so that every layer has a receipt: relevance of the layer + sinks of later stages + what passes it by = target.
What passes a layer by is what later blocks are handed beside their stream: in an encoder-decoder what the encoder gave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from whence.core.holding import Held
from whence.core.layout import Layout
from whence.core.numerics import widened
from whence.errors import ModelError

__all__ = ["KINDS", "Mixing", "PassedBy", "Place", "PlaceChange"]

KINDS = ("layers", "heads", "attentions", "mlps", "neurons", "experts")
Mixing = Callable[[], tuple[Tensor, Tensor]]
"""Gives probabilities (head, query, key) and values (head, key, channel) of an attention."""
PlaceChange = Callable[[str, int, Tensor, Layout | None], Tensor]
"""The value that a place shall have: from its kind, its number among those of its kind, its own value, and where the
examples lie in it."""


@dataclass
class Place:
    """A hidden tensor of one example."""

    kind: str
    """One of `KINDS`, "input" or "module"."""
    name: str
    """Of the block it is in, or of the module that gave it."""
    layer: int | None
    """Which of the blocks that ran it is, or is in; None outside of all."""
    held: Held
    axis: int = 0
    """Of heads, which axis they are."""
    owners: Tensor | None = None
    """Of experts, whose each row is."""
    experts: int = 0
    mixing: Mixing | None = None
    """Of heads that attend to all tokens at once, where it was asked for."""
    gradient: Tensor | None = None
    """∂ target / ∂ value under the recipe; None where the target does not depend on it."""

    @property
    def value(self) -> Tensor:
        return self.held.value

    @property
    def relevance(self) -> Tensor:
        """value ⊙ gradient, of the shape of both."""
        value = widened(self.value)
        return torch.zeros_like(value) if self.gradient is None else value * widened(self.gradient)

    def parted(self, tensor: Tensor) -> Tensor:
        """The value, or what is of its shape, part by part: (head, …), or (token, …) where there are no heads."""
        if self.kind == "heads" and (tensor.shape[:-3].numel() > 1 or self.axis % tensor.dim() != tensor.dim() - 3):
            raise ModelError(f"the heads of {self.name} can't be told apart from its windows: use at='attentions'")
        return tensor.reshape(tensor.shape[-3] if self.kind == "heads" else tensor.shape[:-1].numel(), -1)


@dataclass
class PassedBy:
    """A tensor that a block was handed beside its stream."""

    made: int
    """The first layer that it passed by: it was there when that had run, and was not what that gave."""
    block: int
    """The layer that read it."""
    amount: float = 0.0
    """Its relevance, of this reading."""
