"""All targets of a walk at once, for one part of the input after the other: a backward pass, transposed.

The relevance of part i for target m is R_im = Σ_{c in i} x_c · ∂f_m/∂x_c. One backward pass gives a column, all parts
for one target. Under a recipe the pass from seeds v to gradients g(v) = Jᵀv is linear, so the derivative of x_i · g(v)
with respect to v is J x_i: a row, all targets for one part. An embedding has hundreds of dimensions and a sentence has
twenty tokens, and rows can be computed side by side.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from whence import cancel
from whence.core.interception import Leaf
from whence.core.ledger import Ledger
from whence.core.propagation import Walk, backward

__all__ = ["CannotTranspose", "by_part"]

AT_ONCE = {"cpu": 2**21, "cuda": 2**25}
"""Numbers at the leaves in directions that go side by side. MiniLM, 32 tokens on a busy CPU: .73 s for 32 together,
1.65 s one by one."""


class CannotTranspose(RuntimeError):
    """A function in the backward pass has no derivative of its own."""


def by_part(walk: Walk, numbers: Mapping[str, Tensor], count: int) -> Tensor:
    """Relevance (part, target) on the CPU, of a walk over one example.

    `numbers` say for each element of a source, laid out as that source is, which part it belongs to: from 0 to
    `count` - 1, or -1 for none.
    """
    rows, leaves = walk.rows, walk.mode.leaves
    if not rows.requires_grad or walk.mode.recomputes:
        raise CannotTranspose("the model drops its own graph")
    if isinstance(walk.mode.ledger, Ledger):
        walk.mode.ledger.begin_again()
    with torch.enable_grad():
        seed = torch.zeros_like(rows).requires_grad_()
        try:
            found = backward(rows, [leaf.tensor for leaf in leaves], start=[seed], keep=True, again=True)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise CannotTranspose(str(error)) from error
    held = [(leaf, grad) for leaf, grad in zip(leaves, found, strict=True) if grad is not None and grad.requires_grad]
    if not held:
        raise CannotTranspose("no gradient depends on the seed")
    owners = [_owner(leaf, numbers[leaf.source]) for leaf, _ in held]
    size = sum(leaf.tensor.numel() for leaf, _ in held)
    step = max(1, AT_ONCE["cuda" if rows.is_cuda else "cpu"] // size)
    made = []
    for start in range(0, count, step):
        cancel.check()
        parts = torch.arange(start, min(start + step, count), device=rows.device)
        directions = [
            _directions(leaf.tensor.detach(), owner, parts) for (leaf, _), owner in zip(held, owners, strict=True)
        ]
        try:
            (row,) = torch.autograd.grad(
                [grad for _, grad in held], (seed,), directions, retain_graph=True, is_grads_batched=True
            )
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise CannotTranspose(str(error)) from error
        made.append(row.flatten(1).cpu())
    return torch.cat(made)


def _owner(leaf: Leaf, numbers: Tensor) -> Tensor:
    """Which part each element of a leaf belongs to, in a shape that goes with it."""
    if leaf.positions is None:
        return numbers
    places = leaf.positions
    own = torch.where(places >= 0, numbers.reshape(-1)[places.clamp_min(0)], -1)
    return own.reshape(*own.shape, *[1] * (leaf.tensor.dim() - own.dim()))


def _directions(x: Tensor, owner: Tensor, parts: Tensor) -> Tensor:
    """For each part, x where it is that part's, and 0 elsewhere."""
    mine = owner == parts.reshape(-1, *[1] * owner.dim())
    return torch.where(mine, x, 0.0)
