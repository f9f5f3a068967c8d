"""Does attention rank tokens as other measures of importance do?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from whence.core.propagation import propagate
from whence.core.recipe import recipes
from whence.diagnostics.question import AbstractQuestion, questions
from whence.diagnostics.subject import Subject
from whence.errors import WhenceError
from whence.extras import need
from whence.models.asking import TargetScores
from whence.models.example import Example
from whence.models.scoring import Scorer
from whence.options import Least, Share
from whence.progress import track
from whence.results.diagnosis import Section
from whence.results.percents import percent

__all__ = ["AttentionAgreement", "Scores", "kendall"]

Scores = Callable[[Sequence[Example]], list[np.ndarray]]
"""A named explanation: examples to one score per token each."""


def kendall(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Kendall's τ-b, and the p-value of no association; (nan, nan) where one side is constant.

    τ_b = (C − D) / √((C + D + T_a)(C + D + T_b)), with concordant, discordant and tied pairs [Kendall 1945]
    """
    if len(set(a.tolist())) < 2 or len(set(b.tolist())) < 2:
        return float("nan"), float("nan")
    found = need("scipy.stats", "diagnose", "Kendall's τ").kendalltau(a, b)
    return float(found.statistic), float(found.pvalue)


@questions.register("agreement")
@dataclass(frozen=True, kw_only=True)
class AttentionAgreement(AbstractQuestion):
    """Kendall's τ of attention against |gradient · input| and against leave-one-out [Jain & Wallace 2019, §4.1].

    Per layer and head the attention of the predicting token, on ordinary tokens (special ones left out), against
    g_t = |Σ_d x_td ∂f/∂x_td| with attention held constant, and o_t = TVD(ŷ(x), ŷ(x without t)), t masked out.
    """

    title: ClassVar[str] = "Does attention rank tokens as gradients and leave-one-out do?"

    alpha: Share = 0.05
    """A correlation with a p-value below is called significant."""
    least: Annotated[int, Least(2)] = 3
    """Examples with fewer ordinary tokens are left out: nothing can be ranked."""
    fill: str = "mask"
    """What a token that is left out is replaced by: `mask`, `unk`, `pad`."""

    def check(self, subject: Subject) -> None:
        kendall(np.arange(3), np.arange(3))  # scipy must be there

    def ask(
        self, subject: Subject, *, scorers: Mapping[str, Scores] | None = None, progress: bool | None = None
    ) -> Section:
        """`scorers` are further explanations to rank by: name to a function that scores a batch of examples."""
        kept = [i for i in range(len(subject)) if subject.content(i).sum() >= self.least]
        against = {
            "gradient": _gradients(subject),
            "leave-one-out": _leave_one_out(subject, kept, self.fill, progress),
        }
        points: list[dict[str, Any]] = []
        notes: list[str] = []
        if len(kept) < len(subject):
            notes.append(f"{len(subject) - len(kept)} examples with fewer than {self.least} ordinary tokens left out.")
        for part in track(subject.parts(), "agreement", len(subject.parts()), show=progress):
            seen = subject.observe(part)
            rows = [seen.predicting(m) for m in seen.maps]
            for n, place in enumerate(part):
                if place not in kept:
                    continue
                for layer, row in enumerate(rows):
                    attention = row[n][:, subject.own(seen, n)].cpu().double().numpy()
                    named: dict[int | str, np.ndarray] = {**dict(enumerate(attention)), "mean": attention.mean(0)}
                    for head, scores in named.items():
                        points += self._compared(subject, place, scores, against, what="head", layer=layer, head=head)
        points += self._yardstick(subject, kept, against)
        for name, score in (scorers or {}).items():
            try:
                made = score(subject.examples)
            except WhenceError as error:  # a method that does not fit this model must not end the report
                notes.append(f"{name} left out: {error}")
                continue
            for place in kept:
                points += self._compared(subject, place, np.abs(made[place]), against, what=name, layer=None, head=None)
        rows_made = _summary(points, self.alpha)
        return Section(
            "agreement",
            self.title,
            rows_made,
            _reading(rows_made, self.alpha),
            asdict(self),
            tuple(points),
            tuple(notes),
        )

    def _compared(
        self,
        subject: Subject,
        place: int,
        scores: np.ndarray,
        against: Mapping[str, Mapping[int, np.ndarray]],
        **where: Any,
    ) -> list[dict[str, Any]]:
        """τ of one ranking of one example against each measure."""
        keep = subject.content(place)
        made = []
        for name, measure in against.items():
            tau, p = kendall(scores[keep], measure[place][keep])
            if np.isfinite(tau):
                made.append({**where, "against": name, "example": place, "tau": tau, "p": p})
        return made

    def _yardstick(
        self, subject: Subject, kept: list[int], against: Mapping[str, Mapping[int, np.ndarray]]
    ) -> list[dict[str, Any]]:
        """How well the two measures agree with each other: no ranking can be expected to agree better with both."""
        only = {"leave-one-out": against["leave-one-out"]}
        made = (
            self._compared(subject, i, against["gradient"][i], only, what="gradient", layer=None, head=None)
            for i in kept
        )
        return [point for points in made for point in points]


def _gradients(subject: Subject) -> dict[int, np.ndarray]:
    """|Σ_d x_td ∂f/∂x_td| of the predicted class, attention held constant (the recipe `ah`)."""
    model, found = subject.model, {}
    for part in subject.parts():
        batch = model.collate([subject.examples[i] for i in part])
        scores = TargetScores(model, batch, [model.default_target(example) for example in batch.rows])
        done = propagate(model.forward, batch, target=scores, recipe=recipes["ah"], receipt="short")
        for n, place in enumerate(part):
            found[place] = np.abs(model.scores_of(done.relevance, batch, n))
    return found


def _leave_one_out(subject: Subject, kept: list[int], fill: str, progress: bool | None) -> dict[int, np.ndarray]:
    """TVD of the prediction with and without each ordinary token; zero at special ones."""
    scorer = Scorer(subject.model, batch_tokens=subject.batch_tokens, progress=progress)
    variants: list[Example] = []
    owners: list[tuple[int, int]] = []
    for place in kept:
        example = subject.examples[place]
        content = subject.content(place)
        variants.append(example)
        owners.append((place, -1))
        for t in np.flatnonzero(content).tolist():
            variants.append(subject.model.masked(example, np.arange(len(content)) != t, fill))
            owners.append((place, t))
    if not variants:
        return {}
    shares = torch.from_numpy(scorer.logits(variants)).double().softmax(-1).numpy()
    whole: dict[int, np.ndarray] = {}
    found = {place: np.zeros(len(subject.content(place))) for place in kept}
    for (place, t), share in zip(owners, shares, strict=True):
        if t < 0:
            whole[place] = share
        else:
            found[place][t] = np.abs(share - whole[place]).sum() / 2
    return found


def _summary(points: Sequence[Mapping[str, Any]], alpha: float) -> tuple[dict[str, Any], ...]:
    """Mean and spread of τ, and the share of significant ones, for each ranking and measure."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for point in points:
        groups.setdefault((point["what"], point["layer"], point["head"], point["against"]), []).append(point)
    rows = []
    for (what, layer, head, against), held in groups.items():
        tau = np.array([p["tau"] for p in held])
        rows.append(
            {
                "what": "attention" if what == "head" else what,
                "layer": layer,
                "head": head,
                "against": against,
                "tau": float(tau.mean()),
                "spread": float(tau.std()),
                "significant": float(np.mean([p["p"] < alpha for p in held])),
                "examples": len(held),
            }
        )
    return tuple(rows)


def _reading(rows: Sequence[Mapping[str, Any]], alpha: float) -> str:
    heads = [r for r in rows if r["what"] == "attention" and isinstance(r["head"], int)]
    if not heads:
        return "No example had enough ordinary tokens to rank."
    parts = []
    for name in ("gradient", "leave-one-out"):
        own = [r for r in heads if r["against"] == name]
        if not own:
            continue
        tau = np.array([r["tau"] for r in own])
        best = own[int(np.abs(tau).argmax())]
        significant = np.mean([r["significant"] for r in own])
        parts.append(
            f"Against {name}, the mean τ of single heads runs from {tau.min():+.2f} to {tau.max():+.2f} (average "
            f"{tau.mean():+.2f}; furthest from zero: layer {best['layer']} head {best['head']} at {best['tau']:+.2f}), "
            f"and {percent(significant, 0)} of the correlations are significant where {percent(alpha, 0)} would be by "
            "chance."
        )
    size = np.mean([abs(r["tau"]) for r in heads])
    shared = "little" if size < 0.15 else "a part" if size < 0.5 else "most"
    wrong = "faithful" if size >= 0.5 else "not faithful"
    parts.append(f"So attention shares {shared} of these measures' order. That does not show that it is {wrong}:")
    yard = next((r for r in rows if r["what"] == "gradient"), None)
    if yard is not None:
        close = "even they agree only partly" if yard["tau"] < 0.7 else "they agree well"
        parts.append(
            "gradients and leave-one-out are no ground truth, and compared with each other "
            f"{close} (τ = {yard['tau']:+.2f});"
        )
    parts.append(
        "a head may attend for reasons that the predicting token's row does not show, and τ counts the order of tokens "
        "that hardly matter as much as that of the few that do."
    )
    return " ".join(parts)
