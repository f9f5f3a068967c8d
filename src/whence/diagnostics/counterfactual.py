"""Does the prediction change when attention is another one?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from whence.core.replacement import MapChanges
from whence.diagnostics.distances import total_variation
from whence.diagnostics.question import AbstractQuestion, questions
from whence.diagnostics.subject import Observed, Subject
from whence.options import Count
from whence.progress import track
from whence.results.diagnosis import Section
from whence.results.percents import percent

__all__ = ["Counterfactual", "permuted", "uniform"]


def uniform(observed: Tensor, allowed: Tensor) -> Tensor:
    """The same weight on every key that the mask allows: 1/n [Wiegreffe & Pinter 2019, §3.1]."""
    return allowed.to(observed.dtype) / allowed.sum(-1, keepdim=True).clamp_min(1)


def permuted(generator: torch.Generator) -> Callable[[Tensor, Tensor], Tensor]:
    """The weights of each row in random order, among the keys that the mask allows [Jain & Wallace 2019, §4.2.1]."""

    def change(observed: Tensor, allowed: Tensor) -> Tensor:
        noise = torch.rand(observed.shape, generator=generator, dtype=torch.float32).to(observed.device)
        order = noise.masked_fill(~allowed, 2.0).argsort(-1)  # forbidden keys come last, where both sides hold zeros
        if allowed.all():
            return observed.gather(-1, order)
        places = (~allowed).to(torch.int8).argsort(stable=True, dim=-1)
        return torch.zeros_like(observed).scatter(-1, places, observed.gather(-1, order))

    return change


@questions.register("counterfactual")
@dataclass(frozen=True, kw_only=True)
class Counterfactual(AbstractQuestion):
    """TVD between predictions with observed attention and with permuted or uniform attention.

    Δ = median over shuffles of ½ Σ_c |ŷ_c(α) − ŷ_c(permuted α)|   [Jain & Wallace 2019, §4.2.1]

    For all layers jointly, for each layer, and for each head alone. Every query's row is shuffled on its own.
    """

    title: ClassVar[str] = "Does the prediction change when attention is shuffled or made uniform?"

    shuffles: Count = 100
    """Permutations of each example."""
    heads: bool = True
    """Also each head alone: as many conditions as the model has heads."""
    head_shuffles: Count | None = None
    """Permutations for single heads; as many as `shuffles` by default."""
    seed: int = 0

    def ask(self, subject: Subject, *, progress: bool | None = None) -> Section:
        generator = torch.Generator().manual_seed(self.seed)
        points: list[dict[str, Any]] = []
        parts = subject.parts()
        for part in track(parts, "counterfactual", len(subject), map(len, parts), show=progress):
            seen = subject.observe(part)
            for layer, head in self._places(seen.maps):
                for kind, make in (("permuted", permuted(generator)), ("uniform", uniform)):
                    count = 1 if kind == "uniform" else self._count(head)
                    distance, flips = self._measured(subject, seen, _changes(make, layer, head, seen), count)
                    strongest = _strongest(seen, layer, head)
                    for n, place in enumerate(part):
                        points.append(
                            {
                                "kind": kind,
                                "layer": layer,
                                "head": head,
                                "example": place,
                                "tvd": float(np.median(distance[n])),
                                "flips": float(np.mean(flips[n])),
                                "strongest": strongest[n],
                            }
                        )
        rows = _summary(points)
        return Section("counterfactual", self.title, rows, _reading(rows), asdict(self), tuple(points))

    def _places(self, maps: Sequence[Tensor]) -> Iterator[tuple[int | None, int | None]]:
        """(None, None) for everything jointly, (layer, None), (layer, head)."""
        yield None, None
        for layer, m in enumerate(maps):
            yield layer, None
            if self.heads and m.shape[1] > 1:
                yield from ((layer, head) for head in range(m.shape[1]))

    def _count(self, head: int | None) -> int:
        return self.shuffles if head is None or self.head_shuffles is None else self.head_shuffles

    @staticmethod
    def _measured(subject: Subject, seen: Observed, changes: MapChanges, count: int) -> tuple[np.ndarray, np.ndarray]:
        """(example, shuffle): TVD from the observed prediction, and whether the class is another one."""
        batch, tokens = seen.real.shape
        at_once = max(1, subject.batch_tokens // (batch * tokens))
        distances, flips = [], []
        for start in range(0, count, at_once):
            copies = min(at_once, count - start)
            with torch.no_grad():
                new = subject.under(seen, changes, copies).view(batch, copies, -1)
            old = seen.probabilities[:, None]
            distances.append(total_variation(new, old).cpu().double().numpy())
            flips.append((new.argmax(-1) != old.argmax(-1)).cpu().numpy())
        return np.concatenate(distances, 1), np.concatenate(flips, 1)


def _changes(make: Any, layer: int | None, head: int | None, seen: Observed) -> MapChanges:
    if layer is None:
        return dict.fromkeys(range(len(seen.maps)), make)
    return {layer: make} if head is None else {(layer, head): make}


def _strongest(seen: Observed, layer: int | None, head: int | None) -> list[float]:
    """The largest weight of the predicting token's row: where it is high, a shuffle moves much."""
    maps = seen.maps if layer is None else [seen.maps[layer]]
    rows = torch.stack([seen.predicting(m).mean(1) if head is None else seen.predicting(m)[:, head] for m in maps])
    return rows.amax(-1).mean(0).tolist()


def _summary(points: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for point in points:
        groups.setdefault((point["kind"], point["layer"], point["head"]), []).append(point)
    rows = []
    for (kind, layer, head), held in groups.items():
        tvd = np.array([p["tvd"] for p in held])
        rows.append(
            {
                "attention": kind,
                "layer": "all" if layer is None else layer,
                "head": "all" if head is None else head,
                "tvd": float(np.median(tvd)),
                "tvd_90": float(np.quantile(tvd, 0.9)),
                "flips": float(np.mean([p["flips"] for p in held])),
                "examples": len(held),
            }
        )
    return tuple(rows)


def _reading(rows: Sequence[Mapping[str, Any]]) -> str:
    joint = {r["attention"]: r for r in rows if r["layer"] == "all"}
    layers = [r for r in rows if r["attention"] == "permuted" and r["layer"] != "all" and r["head"] == "all"]
    heads = [r for r in rows if r["attention"] == "permuted" and r["head"] != "all"]
    shuffled, flat = joint["permuted"], joint["uniform"]
    if shuffled["tvd"] < 0.05:
        effect = "hardly moves the prediction: where exactly the model looks is not what decides it on this data"
    elif shuffled["tvd"] < 0.25:
        effect = "moves the prediction, but mostly leaves it what it was"
    else:
        effect = "changes the prediction: what the model computes depends on where it looks"
    text = (
        f"Shuffling the attention of all layers and heads {effect} (median TVD {shuffled['tvd']:.3f}, another class "
        f"in {percent(shuffled['flips'], 0)} of the cases); uniform attention gives {flat['tvd']:.3f} and "
        f"{percent(flat['flips'], 0)}. "
        f"The median hides the examples that do depend on it: one in ten moves by {shuffled['tvd_90']:.3f} or more. "
    )
    if layers:
        most = max(layers, key=lambda r: r["tvd"])
        text += f"Of single layers, layer {most['layer']} matters most ({most['tvd']:.3f}). "
    if heads:
        most = max(heads, key=lambda r: r["tvd"])
        small = sum(r["tvd"] < 0.01 for r in heads)
        text += (
            f"Of single heads, layer {most['layer']} head {most['head']} does ({most['tvd']:.3f}); {small} of "
            f"{len(heads)} heads can be shuffled with a median effect under .01. "
        )
        if shuffled["tvd"] > 2 * most["tvd"]:
            text += "Heads stand in for each other: no single one shows what all of them do together. "
    return text + (
        "A large effect says that attention matters to the computation, not that its weights name the tokens that "
        "matter; a small one says that this model can do without these weights here, not that it does not use them. "
        "Shuffled maps are unlike any the model was trained with, so part of an effect is that of a strange input; and "
        "where the model is certain, its probabilities hardly move whatever happens inside."
    )
