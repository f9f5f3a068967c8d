"""The receipt of a propagation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

__all__ = ["Conservation"]

VISIBLE = 1e-4
"""Errors from which people ask where they come from, relative to what is summed."""


@dataclass(frozen=True)
class Conservation:
    """Where the explained score went: inputs + sinks + error = target."""

    inputs: float
    """Relevance of all inputs, those not shown included."""
    target: float
    """The explained score."""
    sinks: dict[str, float] = field(default_factory=dict)
    """Relevance that ended elsewhere, by kind: bias, position, constant; softmax, activation, norm and product where
    the recipe leaves the plain gradient; quantised where layers round what they get; unruled where a function has no
    rule."""
    unruled: tuple[str, ...] = ()
    """Functions without a rule: what the error comes from."""
    complete: bool = True
    """Whether sinks were accounted for. If not, `error` is simply target - inputs."""
    tolerance: float = 0.0
    """The error that rounding may leave: 8 u √L · (Σ |score| + |target| + Σ |sink|), with the unit roundoff u of the
    model's precision and its L blocks. Roundings of a block are independent of those of another, so they add up like
    √L, and each is u of what passes. Seen in float32, bfloat16 and float16 at 2 to 24 blocks: up to 5 in place of 8.
    A GPU adds the K numbers of a product one after the other, a CPU in groups: there u is at least √(K/2) times
    that of float32, the size to which the roundings of a sum grow. 0 where nobody can say."""

    @cached_property
    def total(self) -> float:
        """Inputs and sinks together. Amounts at functions without a rule are not counted: nobody vouches for them."""
        return self.inputs + sum(amount for kind, amount in self.sinks.items() if kind != "unruled")

    @property
    def error(self) -> float:
        """What is not accounted for."""
        return self.target - self.total

    @property
    def scale(self) -> float:
        """The largest amount on the receipt: what rounding errors are measured by."""
        return max(abs(self.target), abs(self.inputs), *(abs(amount) for amount in self.sinks.values()), 1e-12)

    @property
    def relative_error(self) -> float:
        return abs(self.error) / max(abs(self.target), 1e-12)

    @classmethod
    def added(cls, receipts: Sequence[Conservation], weights: Sequence[float] | None = None) -> Conservation:
        """The receipt of a sum of targets, each times its weight.

        >>> Conservation.added([Conservation(1.0, 2.0, {"bias": 1.0}), Conservation(3.0, 3.0)], [1.0, 2.0])
        Conservation(inputs=7.0, target=8.0, sinks={'bias': 1.0}, unruled=(), complete=True, tolerance=0.0)
        """
        factors = [1.0] * len(receipts) if weights is None else weights
        both = list(zip(receipts, factors, strict=True))
        kinds = list(dict.fromkeys(kind for receipt in receipts for kind in receipt.sinks))
        return cls(
            inputs=sum(w * r.inputs for r, w in both),
            target=sum(w * r.target for r, w in both),
            sinks={kind: sum(w * r.sinks.get(kind, 0.0) for r, w in both) for kind in kinds},
            unruled=tuple(sorted({name for r in receipts for name in r.unruled})),
            complete=all(r.complete for r in receipts),
            tolerance=sum(abs(w) * r.tolerance for r, w in both),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "inputs": self.inputs,
            "target": self.target,
            "sinks": dict(self.sinks),
            "unruled": list(self.unruled),
            "complete": self.complete,
            "tolerance": self.tolerance,
            "total": self.total,
            "error": self.error,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Conservation:
        return cls(
            inputs=data["inputs"],
            target=data["target"],
            sinks=dict(data["sinks"]),
            unruled=tuple(data["unruled"]),
            complete=data["complete"],
            tolerance=data.get("tolerance", 0.0),
        )

    def __str__(self) -> str:
        parts = [f"inputs {self.inputs:+.4f}", *(f"{kind} {amount:+.4f}" for kind, amount in self.sinks.items())]
        if not self.complete:
            return f"{parts[0]} of {self.target:+.4f}; the rest was not booked (receipt='full' does)"
        rounded = VISIBLE * self.scale < abs(self.error) <= self.tolerance
        error = f"error {self.error:+.1e}" + (", which is rounding" if rounded else "")
        line = f"{' '.join(parts)} = {self.total:+.4f} of {self.target:+.4f} ({error})"
        return line + (f"; without a rule: {', '.join(self.unruled)}" if self.unruled else "")
