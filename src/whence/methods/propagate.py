"""Gradient×Input under a recipe: every recipe of the core is a method of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch.nn.modules.conv import _ConvNd

from whence.core.memory import blocks_of
from whence.core.propagation import At, Propagation, Receipt, Walk, propagate
from whence.core.recipe import Epsilon, Gamma, Plain, Recipe, recipes
from whence.errors import OptionError
from whence.methods.method import AbstractMethod, methods
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores, TargetsOfOne
from whence.models.example import Example, ExampleBatch
from whence.models.playing import Pass, Player, may_play
from whence.models.targets import AbstractTarget, Custom
from whence.options import Least
from whence.results import Conservation, Explanation, Prediction

__all__ = ["DEFAULT_RECIPE", "NOTICED", "ManyTargets", "Propagate", "explained", "receipts_of", "unit_of", "widest"]

DEFAULT_RECIPE = "exact"
"""What `lrp` stands for."""
WORTH_SHARING = 48
"""Tokens from which one forward pass and a backward pass for each target are quicker than a batch of copies. BERT-base,
on a CPU: 1.10 of its time for two targets and 1.63 for ten at 16 tokens, .94 and .82 at 64, .79 and .57 at 256."""
ROUNDING = 8
NOTICED = 1e-5
"""Error of a receipt, relative to what is summed, from which a cause is looked for unless it is rounding."""


@dataclass(frozen=True, kw_only=True)
class Propagate(AbstractMethod):
    """Relevance R_t = Σ_d x_td · ∂f/∂x_td with the backward pass of a recipe [Ali 2022; Achtibat 2024; …].

    Inputs + sinks = target; the sinks, the error, and the error that rounding may leave in the model's precision are in
    `Explanation.conservation`.
    """

    recipe: Recipe | str = DEFAULT_RECIPE
    """A preset's name or a recipe of your own."""
    at: At = "word"
    """Where relevance is read: `word`, `embedding` (word + position), `position`."""
    receipt: Receipt | Literal["auto"] = "auto"
    """`full` books every sink, `short` only inputs and target. `auto` is `full` for recipes whose sinks are constants
    alone (`exact`: under 1 % of the time of a large batch on the CPU, docs/benchmarks.md; as much again for short
    inputs) and `short` where plain gradients must be measured (12 % and more)."""
    epsilon: Annotated[float, Least(0)] | None = None
    """ε-rule on linear layers."""
    gamma: Annotated[float, Least(0)] | None = None
    """γ-rule on linear layers; 0.05 to 0.25 for vision transformers."""
    conv_gamma: Annotated[float, Least(0)] | None = None
    """γ-rule on convolutions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.recipe, str):
            recipes[self.recipe]  # an unknown name is an error now, not later
        if self.gamma is not None and self.epsilon is not None:
            raise OptionError(
                f"gamma={self.gamma:g} and epsilon={self.epsilon:g} are two rules for one layer: pass one"
            )

    @property
    def name(self) -> str:
        return self.resolved().name

    def resolved(self) -> Recipe:
        """The recipe with the options of this method in it."""
        return self._resolved

    @cached_property
    def _resolved(self) -> Recipe:
        recipe = recipes[self.recipe] if isinstance(self.recipe, str) else self.recipe
        linear, conv = recipe.linear, recipe.conv
        if self.gamma is not None:
            linear = Gamma(self.gamma) if self.gamma else Plain()
        if self.epsilon is not None:
            linear = Epsilon(self.epsilon) if self.epsilon else Plain()
        if self.conv_gamma is not None:
            conv = Gamma(self.conv_gamma) if self.conv_gamma else Plain()
        return recipe.but(name=recipe.name, linear=linear, conv=conv)

    @property
    def booked(self) -> Receipt:
        """The receipt that is made."""
        if self.receipt != "auto":
            return self.receipt
        return "full" if self.resolved().conserves else "short"

    def options(self) -> dict[str, Any]:
        recipe = self.resolved()
        chosen = {n: getattr(self, n) for n in ("at", "receipt", "epsilon", "gamma", "conv_gamma")}
        plain = {n: getattr(recipe, n) for n in ("softmax", "scores", "values", "activation", "product", "norm")}
        layers = {n: str(rule) for n in ("linear", "conv") if not isinstance(rule := getattr(recipe, n), Plain)}
        return {n: v for n, v in chosen.items() if v is not None} | plain | layers

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        if is_one(examples) and self.shares(model, examples, targets):
            with ManyTargets(self, model, examples[0], targets) as asked:
                return [asked.explanation(n) for n in range(len(targets))]
        batch = model.collate(examples, targets, even=self.at == "word" and may_play(model, examples, targets))
        begun = self.run(model, batch, targets)
        predictions = model.predictions(begun.outputs, batch)  # while a GPU goes back
        stamp, about = self.stamped(model), [model.about(example) for example in examples]
        copied = {name for name, value in stamp.items() if isinstance(value, dict)}
        done = begun.read()
        relevance, scores = model.all_scores(done.relevance, batch), done.target.tolist()
        receipts = self._receipts(model, batch, targets, done, relevance)
        return [
            model.explanation(
                example,
                scores=relevance[n],
                about=about[n],
                target=begun.names[n],
                target_score=float(scores[n]),
                prediction=predictions[n],
                conservation=receipts[n],
                **{name: dict(v) if name in copied else v for name, v in stamp.items()},
            )
            for n, example in enumerate(examples)
        ]

    def shares(self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]) -> bool:
        """Whether several targets of one example have one forward pass: not where copies or a recording are quicker."""
        plain = not any(isinstance(t, Custom) for t in targets) and examples[0].cost >= WORTH_SHARING
        return plain and not may_play(model, examples, targets)

    def run(self, model: AbstractAdapter, batch: ExampleBatch, targets: Sequence[AbstractTarget]) -> Pass:
        """The propagation of a batch; one that is played is on its way."""
        player = Player(model, batch, targets, self.resolved(), self.booked)
        found = player.play() if self.at == "word" else None
        if found is not None:
            return found
        scores = TargetScores(model, batch, targets)
        done = propagate(model.forward, batch, target=scores, recipe=self.resolved(), receipt=self.booked, at=self.at)
        if self.at == "word":
            player.learn(done, scores.terms)
        return Pass(done.outputs, scores.names, lambda: done)

    def _receipts(
        self,
        model: AbstractAdapter,
        batch: ExampleBatch,
        targets: Sequence[AbstractTarget],
        done: Propagation,
        scores: Sequence[np.ndarray],
    ) -> list[Conservation]:
        complete = self.booked == "full"
        together, off = _accounts(done, scores, unit_of(model), complete=complete)
        if not complete or batch.examples == 1:
            return together

        def alone(n: int) -> Conservation:
            single = model.collate([batch.rows[n]], [targets[n]])
            own = self.run(model, single, [targets[n]]).read()
            return receipts_of(own, [scores[n]], unit_of(model), complete=True)[0]

        # Experts mix the rows of a batch: books can't be told apart by example, so each is booked alone. So is one that
        # does not balance where all of them do together: models that read a constant of theirs from another example's
        # rows (a class token, which all rows have in common) leave its relevance there.
        apart = off if done.is_split else range(batch.examples)
        return [alone(n) if n in apart else receipt for n, receipt in enumerate(together)] if apart else together


class ManyTargets:
    """Several targets of one example: one forward pass, from which one goes back as often as one likes.

    `within` is an example that begins with this one, where nothing behind it counts: there all scores are 0.
    """

    def __init__(
        self,
        method: Propagate,
        model: AbstractAdapter,
        example: Example,
        targets: Sequence[AbstractTarget],
        within: Example | None = None,
    ):
        self.method, self.model, self.example, self.within = method, model, example, within
        self.batch = model.collate([example], targets)
        self._asked = TargetsOfOne(model, self.batch, targets)
        self._walk = Walk(
            model.forward, self.batch, targets=self._asked, recipe=method.resolved(), receipt=method.booked,
            at=method.at,
        )  # fmt: skip
        self._predicted: Prediction | None = None

    def __enter__(self) -> ManyTargets:
        self._walk.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._walk.__exit__(*error)

    @property
    def names(self) -> list[str]:
        """What each target is called."""
        return self._asked.names

    @property
    def scores(self) -> list[float]:
        """Of each target."""
        return [float(score) for score in self._walk.scores[:, 0]]

    def explanation(self, n: int) -> Explanation:
        """Of one target."""
        return self.weighted([float(k == n) for k in range(len(self.scores))], self.names[n])

    def weighted(self, weights: list[float], name: str) -> Explanation:
        """Of the sum of the targets, each times its weight."""
        done = self._walk.back(weights)
        return explained(self.method, self.model, self.batch, done, name, self._prediction(done), self.within)

    def _prediction(self, done: Propagation) -> Prediction:
        if self._predicted is None:
            (self._predicted,) = self.model.predictions(done.outputs, self.batch)
        return self._predicted


def explained(
    method: Propagate,
    model: AbstractAdapter,
    batch: ExampleBatch,
    done: Propagation,
    name: str,
    said: Prediction,
    within: Example | None = None,
) -> Explanation:
    """What a pass over one example, or over the beginning of one, brought back, as an explanation."""
    relevance = model.scores_of(done.relevance, batch, 0)
    (receipt,) = receipts_of(done, [relevance], unit_of(model), complete=method.booked == "full")
    if within is not None:
        relevance = np.pad(relevance, (0, within.count - len(relevance)))
    return method.build(
        model,
        within or batch.rows[0],
        scores=relevance,
        target=name,
        target_score=float(done.target[0]),
        prediction=said,
        conservation=receipt,
    )


def is_one(examples: Sequence[Example]) -> bool:
    """Whether several places hold one and the same example."""
    return len(examples) > 1 and all(e is examples[0] for e in examples)


def unit_of(model: AbstractAdapter) -> float:
    """What rounding may take of all that is on a receipt, see `Conservation.tolerance`."""
    blocks = model.once("blocks", lambda: max(1, len(blocks_of(model.module))))
    added = 1.0 if model.device.type == "cpu" else (model.once("widest", lambda: widest(model)) / 2) ** 0.5
    # parts are in float32 in any case
    rounded = max(torch.finfo(model.dtype).eps, torch.finfo(torch.float32).eps * added) / 2
    return float(ROUNDING * rounded * blocks**0.5)


def widest(model: AbstractAdapter) -> int:
    """How many numbers a product of the model adds up, at most."""
    convolved = (m.weight.shape[1:].numel() for m in model.module.modules() if isinstance(m, _ConvNd))
    return max((*convolved, *(max(p.shape[1:]) for p in model.module.parameters() if p.dim() > 1)), default=2)


def receipts_of(done: Propagation, scores: Sequence[np.ndarray], unit: float, *, complete: bool) -> list[Conservation]:
    """The account of each example."""
    return _accounts(done, scores, unit, complete=complete)[0]


def _accounts(
    done: Propagation, scores: Sequence[np.ndarray], unit: float, *, complete: bool
) -> tuple[list[Conservation], set[int]]:
    """The account of each example, and which of them do not balance, though all of them together do."""
    kinds = list(done.sinks) if complete else []
    amounts = torch.stack([a.to(done.inputs) for a in (done.inputs, done.target, *(done.sinks[k] for k in kinds))])
    unruled = tuple(sorted(done.unruled))
    columns = amounts.T.tolist()
    if not complete:
        return [Conservation(inputs, target, {}, unruled, False) for inputs, target in columns], set()
    moved = amounts[1:].abs().sum(0).numpy()
    tolerances = unit * (np.array([np.abs(own).sum() for own in scores], dtype=np.float64) + moved)
    made = [
        Conservation(inputs, target, dict(zip(kinds, held, strict=True)), unruled, True, tolerance)
        for (inputs, target, *held), tolerance in zip(columns, tolerances.tolist(), strict=True)
    ]
    errors = np.array([receipt.error for receipt in made])
    allowed = np.maximum(tolerances, NOTICED * np.maximum(amounts.abs().amax(0).numpy(), 1e-12))
    off = set(np.flatnonzero(np.abs(errors) > allowed).tolist())
    for n in off:
        made[n] = replace(made[n], unruled=tuple(sorted({*unruled, *done.bypasses})))
    return made, off if abs(errors.sum()) <= allowed.sum() else set()


recipes.mirrored(methods, lambda name: partial(Propagate, recipe=name))  # type: ignore[arg-type]
methods.add("lrp", partial(Propagate, recipe=DEFAULT_RECIPE))
