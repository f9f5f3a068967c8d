"""How different can attention be while the prediction stays the same?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from whence.core.replacement import MapChanges
from whence.diagnostics.distances import MOST, divergence, jensen_shannon, negentropy, total_variation
from whence.diagnostics.question import AbstractQuestion, questions
from whence.diagnostics.subject import Observed, Subject
from whence.options import Above, Count, Least, Share
from whence.progress import track
from whence.results.diagnosis import Section
from whence.results.percents import percent

__all__ = ["Adversarial", "Found"]


@dataclass(frozen=True)
class Found:
    """The furthest attention that keeps the prediction, for each example of a batch."""

    jsd: np.ndarray
    """Mean over the rows, heads and layers that were replaced; 0 where nothing but the observed kept the prediction."""
    jsd_row: np.ndarray
    """Of the predicting token's row alone."""
    tvd: np.ndarray
    kept: np.ndarray
    """The share of starts that ever kept the prediction."""
    rows: Tensor
    """The predicting token's row in the last replaced layer (batch, head, key)."""


@questions.register("adversarial")
@dataclass(frozen=True, kw_only=True)
class Adversarial(AbstractQuestion):
    """Attention as far as possible from the observed one at the same prediction [Jain & Wallace 2019, §4.2.2].

    max JSD(α̃, α)  with  TVD(ŷ(α̃), ŷ(α)) ≤ ε,   by Adam on   −JSD + λ · relu(TVD − ε) − mean JSD between starts

    As in the authors' code: `starts` maps drawn around uniform attention (log-weights with a deviation of 3), AMSGrad.
    Theirs has one attention vector; here every row of every head in the chosen layers is free, JSD is the mean over
    rows, and the furthest map on the way that meets the constraint is kept rather than the last one.
    """

    title: ClassVar[str] = "How different can attention be at the same prediction?"

    epsilon: Share = 0.01
    """How far (TVD) the prediction may move."""
    steps: Count = 500
    """Steps of Adam."""
    rate: Annotated[float, Above(0)] = 0.01
    """Its learning rate."""
    penalty: Annotated[float, Least(0)] = 500.0
    """λ."""
    starts: Count = 5
    """K: different starts for each example, pushed apart."""
    noise: Annotated[float, Least(0)] = 3.0
    """Deviation of the log-weights at the start."""
    single: bool = True
    """Also each layer alone."""
    examples: Count | None = 12
    """At most this many examples: each costs `steps` × `starts` passes through the model for each condition."""
    seed: int = 0

    def ask(self, subject: Subject, *, progress: bool | None = None) -> Section:
        subject_all, subject = subject, subject.sample(self.examples, self.seed)
        generator = torch.Generator().manual_seed(self.seed)
        points: list[dict[str, Any]] = []
        for part in subject.parts(self.starts):
            seen = subject.observe(part)
            every = list(range(len(seen.maps)))
            places = [every, *([n] for n in every if self.single and len(every) > 1)]
            for layers in places:
                found = self.furthest(subject, seen, layers, generator, progress=progress)
                name = "all" if layers == every else layers[0]
                for n, place in enumerate(part):
                    points.append(
                        {
                            "layer": name,
                            "example": place,
                            "jsd": float(found.jsd[n]),
                            "jsd_row": float(found.jsd_row[n]),
                            "tvd": float(found.tvd[n]),
                            "kept": float(found.kept[n]),
                        }
                    )
        rows = _summary(points)
        notes: tuple[str, ...] = ()
        if len(subject) < len(subject_all):
            notes = (f"{len(subject)} of {len(subject_all)} examples, chosen by seed {self.seed}.",)
        text = _reading(rows, self.epsilon)
        return Section("adversarial", self.title, rows, text, asdict(self), tuple(points), notes)

    def furthest(
        self,
        subject: Subject,
        seen: Observed,
        layers: Sequence[int],
        generator: torch.Generator,
        *,
        progress: bool | None = None,
    ) -> Found:
        """Search for all examples of a batch and all starts at once; their losses are independent sums."""
        search = _Search(self, subject, seen, layers, generator)
        where = f"adversarial, layer {layers[0]}" if len(layers) == 1 else "adversarial, all layers"
        for _ in track(range(self.steps), where, self.steps, show=progress):
            search.step()
        search.look()
        return search.found()


class _Search:
    """One run of Adam over the maps of a batch."""

    def __init__(
        self,
        options: Adversarial,
        subject: Subject,
        seen: Observed,
        layers: Sequence[int],
        generator: torch.Generator,
    ):
        self.options, self.subject, self.seen, self.layers = options, subject, seen, list(layers)
        k = options.starts
        self.old = [seen.maps[n].float() for n in layers]
        self.allowed = [m > 0 for m in self.old]
        self.weights = [self._row_weights(m) for m in self.old]
        self.logits = [
            (torch.randn(m.shape[0], k, *m.shape[1:], generator=generator) * options.noise)
            .to(m.device)
            .requires_grad_()
            for m in self.old
        ]
        self.adam = torch.optim.Adam(self.logits, lr=options.rate, amsgrad=True)
        batch = len(seen.batch.rows)
        self.best = torch.zeros(batch, device=self.old[0].device)
        self.best_row = torch.zeros_like(self.best)
        self.best_tvd = torch.zeros_like(self.best)
        self.kept = torch.zeros(batch, k, dtype=torch.bool, device=self.best.device)
        self.rows = seen.predicting(self.old[-1]).clone()

    def _row_weights(self, m: Tensor) -> Tensor:
        """(batch, 1, 1, query): real rows count equally, rows of padding nothing."""
        real = self.seen.real if m.shape[2] > 1 else torch.ones_like(self.seen.real[:, :1])
        return (real / real.sum(-1, keepdim=True))[:, None, None]

    def step(self) -> None:
        self.adam.zero_grad()
        with torch.enable_grad():
            maps, known, jsd, tvd = self._evaluated()
            loss = (self.options.penalty * torch.relu(tvd - self.options.epsilon) - jsd).sum()
            if self.options.starts > 1:
                loss = loss - self._diversity(maps, known)
        self._keep(maps, jsd.detach(), tvd.detach())
        if loss.requires_grad:
            for logits, grad in zip(self.logits, torch.autograd.grad(loss, self.logits), strict=True):
                logits.grad = grad
        self.adam.step()

    def look(self) -> None:
        """Where the last step led."""
        with torch.no_grad():
            maps, _, jsd, tvd = self._evaluated()
            self._keep(maps, jsd, tvd)

    def _evaluated(self) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
        """The maps (batch, start, head, query, key), their rows' negentropies, their JSD and TVD (batch, start)."""
        maps = [_masked_softmax(x, a[:, None]) for x, a in zip(self.logits, self.allowed, strict=True)]
        k = self.options.starts
        changes: MapChanges = {n: m.flatten(0, 1) for n, m in zip(self.layers, maps, strict=True)}
        new = self.subject.under(self.seen, changes, k).unflatten(0, (-1, k))
        tvd = total_variation(new, self.seen.probabilities[:, None])
        known = [negentropy(m) for m in maps]
        rows = [
            divergence(m, o[:, None], e, negentropy(o)[:, None]) for m, o, e in zip(maps, self.old, known, strict=True)
        ]
        return maps, known, torch.stack([self._mean(r, n) for n, r in enumerate(rows)]).mean(0), tvd

    def _mean(self, rows: Tensor, n: int) -> Tensor:
        """(batch, start, head, query) to (batch, start)."""
        return (rows * self.weights[n]).sum(-1).mean(-1)

    def _diversity(self, maps: list[Tensor], known: list[Tensor]) -> Tensor:
        """Mean JSD over all pairs of starts, summed over examples: Σ_b mean_ij JSD(α̃_i, α̃_j)."""
        k = self.options.starts
        total = maps[0].new_zeros(())
        for n, (m, e) in enumerate(zip(maps, known, strict=True)):
            for shift in range(1, k):  # every ordered pair of different starts, a shift at a time
                if shift * 2 > k:
                    break
                twice = 1 if shift * 2 == k else 2  # a shift and its opposite hold the same pairs
                far = self._mean(divergence(m, m.roll(shift, 1), e, e.roll(shift, 1)), n)
                total = total + twice * far.sum() / k**2
        return total / len(maps)

    def _keep(self, maps: list[Tensor], jsd: Tensor, tvd: Tensor) -> None:
        """Remember the furthest map so far that keeps the prediction."""
        fine = tvd <= self.options.epsilon
        self.kept |= fine
        value, start = torch.where(fine, jsd, -1.0).max(1)
        better = value > self.best
        if not better.any():
            return
        pick = torch.arange(len(start), device=start.device)
        chosen = [m.detach()[pick, start] for m in maps]
        near = [
            jensen_shannon(self.seen.predicting(m), self.seen.predicting(o)).mean(-1)
            for m, o in zip(chosen, self.old, strict=True)
        ]
        self.best = torch.where(better, value, self.best)
        self.best_row = torch.where(better, torch.stack(near).mean(0), self.best_row)
        self.best_tvd = torch.where(better, tvd[pick, start], self.best_tvd)
        self.rows = torch.where(better[:, None, None], self.seen.predicting(chosen[-1]), self.rows)

    def found(self) -> Found:
        jsd, row, tvd = (t.cpu().double().numpy() for t in (self.best, self.best_row, self.best_tvd))
        return Found(jsd, row, tvd, self.kept.float().mean(1).cpu().numpy(), self.rows)


def _masked_softmax(x: Tensor, allowed: Tensor) -> Tensor:
    lowest = torch.finfo(x.dtype).min
    return torch.where(allowed, x.masked_fill(~allowed, lowest).softmax(-1), 0.0)


def _summary(points: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    rows = []
    for layer in dict.fromkeys(p["layer"] for p in points):
        held = [p for p in points if p["layer"] == layer]
        jsd = np.array([p["jsd"] for p in held])
        rows.append(
            {
                "layer": layer,
                "jsd": float(jsd.mean()),
                "jsd_min": float(jsd.min()),
                "jsd_row": float(np.mean([p["jsd_row"] for p in held])),
                "tvd": float(np.mean([p["tvd"] for p in held])),
                "found": float(np.mean(jsd > 0)),
                "starts_kept": float(np.mean([p["kept"] for p in held])),
                "examples": len(held),
            }
        )
    return tuple(rows)


def _reading(rows: Sequence[Mapping[str, Any]], epsilon: float) -> str:
    joint = rows[0]
    if joint["found"] == 0:
        first = (
            f"No other attention of all layers was found that keeps the prediction within {epsilon:g}. That is no "
            "proof that there is none: more steps or starts may find one."
        )
    else:
        share = joint["jsd"] / MOST
        far = "almost as far as can be" if share > 0.8 else "far" if share > 0.4 else "not far"
        first = (
            f"For {percent(joint['found'], 0)} of the examples there is another attention, in all layers at once, that "
            "keeps "
            f"the prediction within {epsilon:g}; it lies {far} from the observed one (mean JSD {joint['jsd']:.3f} of "
            f"at most {MOST:.3f}; {joint['jsd_row']:.3f} in the predicting token's own rows)."
        )
    single = [r for r in rows[1:] if r["found"] > 0]
    if single:
        least = min(single, key=lambda r: r["jsd_row"])
        first += (
            f" Of single layers, layer {least['layer']} leaves its predicting row the least room "
            f"({least['jsd_row']:.3f})."
        )
    return first + (
        " Where such attention exists, the observed weights are not the only ones that fit the prediction, so they "
        "can't be the whole reason for it. It does not follow that the model would learn such weights, nor that the "
        "observed ones are meaningless: the adversary moves every row freely, away from the queries and keys that "
        "must produce them, and many rows have no influence at all (those of other tokens in the last layer, or rows "
        "over values that are alike). A high JSD over all rows is therefore easy; the predicting token's row is the "
        "harder test [Wiegreffe & Pinter 2019]."
    )
