"""The receipt of a propagation."""

from __future__ import annotations

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
    the recipe leaves the plain gradient; unruled where a function has no rule."""
    unruled: tuple[str, ...] = ()
    """Functions without a rule: what the error comes from."""
    complete: bool = True
    """Whether sinks were accounted for. If not, `error` is simply target - inputs."""
    tolerance: float = 0.0
    """The error that rounding may leave: 8 u √L · (Σ |score| + |target| + Σ |sink|), with the unit roundoff u of the
    model's precision and its L blocks. Roundings of a block are independent of those of another, so they add up like
    √L, and each is u of what passes. Seen in float32, bfloat16 and float16 at 2 to 24 blocks: up to 5 in place of 8.
    0 where nobody can say."""

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
