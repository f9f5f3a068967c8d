"""Do attention weights help a model that has nothing else to know where to look?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whence.core.gradients import leaves_of
from whence.diagnostics.adversarial import Adversarial, Found
from whence.diagnostics.question import AbstractQuestion, questions
from whence.diagnostics.subject import Observed, Subject
from whence.errors import InputError, ModelError
from whence.options import Above, Count, Least, Share
from whence.progress import track
from whence.results.diagnosis import Section
from whence.results.percents import percent

__all__ = ["Guided"]

Guide = Literal["uniform", "learned", "base", "adversary"]
GUIDES: tuple[Guide, ...] = get_args(Guide)


@questions.register("guided")
@dataclass(frozen=True, kw_only=True)
class Guided(AbstractQuestion):
    """Accuracy of a small network over single tokens, weighted as a guide says [Wiegreffe & Pinter 2019, §3.4].

    ŷ = softmax(U Σ_t a_t tanh(W e_t + b) + c), with e_t the model's own word embeddings, without context, and a_t from
    the guide: `uniform`, `learned` (softmax(v · tanh(W e_t + b))), `base` (the model's attention), `adversary`.

    Trained on part of the data and judged on the rest: each example is held out once for every seed.
    """

    title: ClassVar[str] = "Do the model's attention weights help a model without context?"

    guides: tuple[Guide, ...] = GUIDES
    seeds: Count = 5
    """Repetitions, each with its own start and its own split."""
    folds: Annotated[int, Least(2)] = 5
    """Parts of the data, each held out once."""
    hidden: Count = 32
    """Width of the network."""
    epochs: Count = 60
    """Passes over the training part, all of it in one batch."""
    rate: Annotated[float, Above(0)] = 0.01
    """Learning rate of Adam."""
    decay: Annotated[float, Least(0)] = 1e-3
    """Weight decay."""
    layer: int = -1
    """Which layer's attention guides (mean over heads, the predicting token's row, ordinary tokens alone)."""
    steps: Count = 500
    """Steps of the adversary: all layers jointly, one start."""
    adversary_rate: Annotated[float, Above(0)] = 0.01
    """Its learning rate."""
    epsilon: Share = 0.01
    """How far (TVD) the adversary may move the prediction."""
    seed: int = 0

    def check(self, subject: Subject) -> None:
        labels = self._labels(subject)
        counts = np.bincount(labels)
        present = np.flatnonzero(counts)
        whose = "the data has" if subject.labels is not None else "there are no labels, and the model predicts"
        if len(present) < 2:
            name = subject.model.spell(int(present[0]))
            raise InputError(
                f"the guided diagnostic needs examples of two classes, and {whose} only {name!r}. Pass more data, or "
                "leave it out: sections=('agreement', 'counterfactual', 'adversarial')"
            )
        if counts[present].min() < 2:
            name = subject.model.spell(int(present[counts[present].argmin()]))
            raise InputError(
                f"the guided diagnostic holds a part of each class out, and {whose} one example of {name!r}. Pass more "
                "data, or leave it out: sections=('agreement', 'counterfactual', 'adversarial')"
            )

    def ask(self, subject: Subject, *, progress: bool | None = None) -> Section:
        self.check(subject)
        labels = self._labels(subject)
        features, mask = self._features(subject)
        weights, adversaries = self._weights(subject, mask, progress)
        points: list[dict[str, Any]] = []
        for guide in track(self.guides, "guided", len(self.guides), show=progress):
            for seed, accuracy in enumerate(self._accuracies(features, mask, weights.get(guide), labels)):
                points.append({"guide": guide, "seed": seed, "accuracy": float(accuracy)})
        rows = _summary(points, labels, subject.predictions() if subject.labels is not None else None)
        source = "given" if subject.labels is not None else "the model's own predictions"
        notes = [f"Labels: {source}. {len(labels)} examples, held out in {self._folds(labels)} parts."]
        if "adversary" in self.guides:
            notes.append(
                f"The adversary found other attention for {adversaries} of {len(labels)} examples; for the rest its "
                "weights are the model's own."
            )
        text = _reading(rows, len(labels), subject.labels is not None)
        return Section(
            "guided", self.title, rows, text, {**asdict(self), "labels": source}, tuple(points), tuple(notes)
        )

    @staticmethod
    def _labels(subject: Subject) -> np.ndarray:
        return np.array(subject.labels) if subject.labels is not None else subject.predictions()

    # -- what the network sees -------------------------------------------------------------------------------

    def _features(self, subject: Subject) -> tuple[Tensor, Tensor]:
        """Word embeddings (example, token, hidden) of ordinary tokens, at unit scale, and which tokens there are."""
        found = [_embeddings(subject, i) for i in range(len(subject))]
        longest = max(len(e) for e in found)
        features = torch.zeros(len(found), longest, found[0].shape[-1])
        mask = torch.zeros(len(found), longest, dtype=torch.bool)
        for n, e in enumerate(found):
            features[n, : len(e)], mask[n, : len(e)] = e, True
        return features / features[mask].std().clamp_min(1e-12), mask

    def _weights(self, subject: Subject, mask: Tensor, progress: bool | None) -> tuple[dict[str, Tensor | None], int]:
        """Per guide the weight of every ordinary token (example, token); and for how many the adversary found any."""
        adversaries = 0
        made: dict[str, Tensor | None] = {"uniform": mask / mask.sum(-1, keepdim=True), "learned": None}
        for guide in ("base", "adversary"):
            if guide not in self.guides:
                continue
            weights = torch.zeros(mask.shape)
            generator = torch.Generator().manual_seed(self.seed)
            for part in subject.parts():
                seen = subject.observe(part)
                rows = seen.predicting(seen.maps[self.layer])
                if guide == "adversary":
                    found = self._adversary(subject, seen, generator, progress)
                    rows, adversaries = found.rows, adversaries + int((found.jsd > 0).sum())
                for n, place in enumerate(part):
                    own = (
                        rows[n][:, subject.own(seen, n)].float().mean(0).cpu()[torch.from_numpy(subject.content(place))]
                    )
                    weights[place, : len(own)] = own / own.sum() if own.sum() > 0 else 1 / len(own)
            made[guide] = weights
        return made, adversaries

    def _adversary(self, subject: Subject, seen: Observed, generator: torch.Generator, progress: bool | None) -> Found:
        layers = list(range(len(seen.maps)))
        last = self.layer % len(layers)
        order = [n for n in layers if n != last] + [last]  # the rows of the last one named come back
        adversary = Adversarial(steps=self.steps, rate=self.adversary_rate, epsilon=self.epsilon, starts=1)
        return adversary.furthest(subject, seen, order, generator, progress=progress)

    # -- training --------------------------------------------------------------------------------------------

    def _folds(self, labels: np.ndarray) -> int:
        counts = np.bincount(labels)
        return int(min(self.folds, counts[counts > 0].min()))

    def _accuracies(self, x: Tensor, mask: Tensor, weights: Tensor | None, labels: np.ndarray) -> np.ndarray:
        """Held-out accuracy for each seed. The networks of all seeds and folds are trained side by side."""
        folds = self._folds(labels)
        held = torch.from_numpy(np.stack([_split(labels, folds, self.seed + s) for s in range(self.seeds)]))
        training = torch.cat([(held != f).float() for f in range(folds)])  # (fold · seed, example)
        network = _Networks(len(training), x.shape[-1], self.hidden, int(labels.max()) + 1, self.seed)
        adam = torch.optim.Adam(network.parameters, lr=self.rate, weight_decay=self.decay)
        truth = torch.from_numpy(labels)
        for _ in range(self.epochs):
            adam.zero_grad()
            with torch.enable_grad():
                losses = F.cross_entropy(
                    network(x, mask, weights).flatten(0, 1), truth.repeat(len(training)), reduction="none"
                )
                loss = (losses.view(training.shape) * training).sum(1) / training.sum(1)
                loss.sum().backward()
            adam.step()
        with torch.no_grad():
            right = (network(x, mask, weights).argmax(-1) == truth).view(folds, self.seeds, -1)
        own = right.permute(1, 2, 0).gather(2, held.unsqueeze(-1)).squeeze(-1)  # each example where it was held out
        return own.float().mean(1).numpy()


class _Networks:
    """Many small networks of one shape, side by side."""

    def __init__(self, count: int, width: int, hidden: int, classes: int, seed: int):
        generator = torch.Generator().manual_seed(seed)

        def made(*shape: int, scale: float) -> Tensor:
            return (torch.randn(*shape, generator=generator) * scale).requires_grad_()

        self.first = made(count, width, hidden, scale=width**-0.5)
        self.bias = torch.zeros(count, 1, hidden, requires_grad=True)
        self.look = made(count, hidden, 1, scale=hidden**-0.5)
        self.last = made(count, hidden, classes, scale=hidden**-0.5)
        self.shift = torch.zeros(count, 1, classes, requires_grad=True)
        self.parameters = [self.first, self.bias, self.look, self.last, self.shift]

    def __call__(self, x: Tensor, mask: Tensor, weights: Tensor | None) -> Tensor:
        """Logits (network, example, class)."""
        examples, tokens, _ = x.shape
        h = torch.tanh(x.flatten(0, 1) @ self.first + self.bias)  # (network, example · token, hidden)
        if weights is None:
            scores = (h @ self.look).view(-1, examples, tokens).masked_fill(~mask, torch.finfo(h.dtype).min)
            a = scores.softmax(-1)
        else:
            a = weights.expand(len(h), -1, -1)
        pooled = torch.einsum("rnt,rnth->rnh", a, h.view(-1, examples, tokens, h.shape[-1]))
        return pooled @ self.last + self.shift


def _split(labels: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The part in which each example is held out, every class spread evenly."""
    generator = np.random.default_rng(seed)
    made = np.empty(len(labels), dtype=np.int64)
    start = 0
    for label in np.unique(labels):
        own = generator.permutation(np.flatnonzero(labels == label))
        made[own] = (np.arange(len(own)) + start) % folds
        start += len(own)
    return made


def _embeddings(subject: Subject, place: int) -> Tensor:
    """What the model looks up for each ordinary token (token, hidden); float inputs as they are."""
    model, example = subject.model, subject.examples[place]
    content = torch.from_numpy(subject.content(place))
    part = example.parts[0]
    value = example.inputs[part.source.name]
    if value.is_floating_point():
        return value[content].float().cpu()
    leaves = leaves_of(model.forward, model.collate([example]))
    found = [leaf.reshape(-1, leaf.shape[-1]) for leaf in leaves]
    found = [vectors for vectors in found if len(vectors) == len(value)]
    if part.places is not None:
        found = [vectors[list(part.places)] for vectors in found]
    if found:
        widest = max(found, key=lambda vectors: vectors.shape[-1])  # beside words a model may look up single numbers
        return widest[content.to(widest.device)].float().cpu()
    raise ModelError(
        "the guided diagnostic needs one embedding for each token, and this model looks none up. Leave it out: "
        "sections=('agreement', 'counterfactual', 'adversarial')"
    )


def _summary(
    points: Sequence[Mapping[str, Any]], labels: np.ndarray, predictions: np.ndarray | None
) -> tuple[dict[str, Any], ...]:
    rows = []
    for guide in dict.fromkeys(p["guide"] for p in points):
        accuracy = np.array([p["accuracy"] for p in points if p["guide"] == guide])
        spread = float(accuracy.std(ddof=1)) if len(accuracy) > 1 else 0.0
        rows.append({"guide": guide, "accuracy": float(accuracy.mean()), "spread": spread, "seeds": len(accuracy)})
    majority = float(np.bincount(labels).max() / len(labels))
    rows.append({"guide": "(largest class)", "accuracy": majority, "spread": 0.0, "seeds": 1})
    if predictions is not None:
        own = float((predictions == labels).mean())
        rows.append({"guide": "(the model itself)", "accuracy": own, "spread": 0.0, "seeds": 1})
    return tuple(rows)


def _reading(rows: Sequence[Mapping[str, Any]], examples: int, labelled: bool) -> str:
    by = {r["guide"]: r for r in rows}
    right = {guide: percent(r["accuracy"], 1) for guide, r in by.items()}
    error = 0.5 / np.sqrt(examples)  # of an accuracy near one half, at most
    text = ""
    if "base" in by and "uniform" in by:
        gain = by["base"]["accuracy"] - by["uniform"]["accuracy"]
        if abs(gain) <= 2 * error:
            text = (
                f"As a guide the model's attention can't be told from uniform weights ({right['base']} "
                f"against {right['uniform']}): either it says nothing about tokens that the words alone "
                "do not say, or there is too little data to see it. "
            )
        elif gain > 0:
            text = (
                f"The model's attention guides better than uniform weights ({right['base']} against "
                f"{right['uniform']}): it carries something about which tokens matter that another model "
                "can use. "
            )
        else:
            text = (
                f"The model's attention guides worse than uniform weights ({right['base']} against "
                f"{right['uniform']}): whatever it is for, it does not point at the telling words. "
            )
    if "base" in by and "adversary" in by:
        gap = by["base"]["accuracy"] - by["adversary"]["accuracy"]
        if gap > 2 * error:
            text += (
                f"The adversary's weights, which give the same predictions inside the model, guide worse "
                f"({right['adversary']}): they are no explanation of equal worth. "
            )
        else:
            text += (
                f"The adversary's weights guide {'no worse' if gap <= 0 else 'not clearly worse'} "
                f"({right['adversary']}), so by this test, with this much data, the observed weights "
                "can't be told from the adversary's. "
            )
    whose = "" if labelled else " The labels are the model's own predictions, so this is about imitating it."
    return text + (
        f"With {examples} examples an accuracy has a standard error of up to {percent(error, 1)}; the spread over "
        "seeds shows training and splits alone, not that."
        f"{whose} The network sees single words without context and has the model's own embeddings, which already know "
        "much about the task: a guide can be useful here and still not be what the model itself relies on."
    )
