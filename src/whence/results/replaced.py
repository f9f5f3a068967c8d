"""What a model says when some of its attention is replaced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whence.results.percents import percent
from whence.results.prediction import Prediction

__all__ = ["Replacement"]


@dataclass(frozen=True)
class Replacement:
    """A prediction with a model's own attention and with other attention in its place.

    >>> before, after = Prediction(("yes", "no"), (2.0, 0.0)), Prediction(("no", "yes"), (1.0, 0.5))
    >>> made = Replacement(before, after, "yes", 2.0, 0.5)
    >>> made.change, made.flips
    (-1.5, True)
    """

    before: Prediction
    """Of the model as it is."""
    after: Prediction
    target: str = ""
    """What the scores are of: the prediction before, unless another target was chosen."""
    score_before: float = float("nan")
    score_after: float = float("nan")
    replaced: tuple[str, ...] = ()
    """What was replaced, in words."""
    text: str | None = None
    stamp: dict[str, Any] = field(default_factory=dict)

    @property
    def change(self) -> float:
        """Of the score of the target."""
        return self.score_after - self.score_before

    @property
    def flips(self) -> bool:
        """Whether the prediction is another."""
        return self.before.label != self.after.label

    def to_dict(self) -> dict[str, Any]:
        said = {name: vars(getattr(self, name)) for name in ("before", "after")}
        return {
            **{name: {key: list(value) for key, value in held.items()} for name, held in said.items()},
            "target": self.target,
            "score_before": self.score_before,
            "score_after": self.score_after,
            "change": self.change,
            "replaced": list(self.replaced),
            "text": self.text,
            "stamp": dict(self.stamp),
        }

    def __str__(self) -> str:
        which = ", ".join(self.replaced) or "nothing"
        told = f"{self.target}: {self.score_before:+.4f} → {self.score_after:+.4f} ({self.change:+.4f})"
        return f"{_said(self.before)} → {_said(self.after)}   {told}   replaced: {which}"

    def __repr__(self) -> str:
        return f"<Replacement: {self}>"


def _said(prediction: Prediction) -> str:
    share = f" ({percent(prediction.probabilities[0], 1)})" if prediction.probabilities else ""
    return f"{prediction.label}{share}" if prediction.labels else "no prediction"
