"""Targets of language models: what comes next, what was written, one continuation rather than others, how sure it is.

Logits of a vocabulary have no zero of their own, so by default a word is explained against the next best one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from whence.core.numerics import wide_of
from whence.errors import InputError
from whence.models.example import Example
from whence.models.targets import CONSTANT, AbstractTarget, Term, View, Weights, class_index
from whence.options import check
from whence.results.units import tokens_reading

__all__ = ["Beyond", "Entropy", "Next", "Rivals", "Score", "Span", "Weighted", "Written", "entropy", "span", "written"]

Score = Literal["margin", "logit", "logprob", "probability"]
"""What is explained of a word: its logit less that of the next best word, its logit, its logarithmic probability, its
probability."""


def scored(logits: Tensor, rows: Sequence[int], words: Sequence[int], score: Score) -> tuple[list[Term], list[int]]:
    """The terms of a word at each of several places, and the words that they are compared with, if they are.

    Probabilities are no sums of logits. They are taken by their gradient, whose factors are constants: with p the
    probabilities and l the logits, log p_t = l_t - Σ p l - H(p), where -H(p) is a constant.
    """
    own = [Term((row, word)) for row, word in zip(rows, words, strict=True)]
    if score == "logit":
        return own, []
    if score == "margin":
        best = logits.topk(2, -1).indices.tolist()  # of all places at once: each question to a GPU is a wait
        rivals = [int(b if a == word else a) for (a, b), word in zip(best, words, strict=True)]
        against = [Term((row, rival), -1.0) for row, rival in zip(rows, rivals, strict=True)]
        return own + against, rivals
    terms: list[Term] = []
    for values, row, word in zip(logits, rows, words, strict=True):
        shares = values.to(wide_of(values.device)).softmax(-1)
        weights = -shares
        weights[word] += 1
        value = shares[word].log()
        if score == "probability":
            weights, value = weights * shares[word], shares[word]
        terms += _tangent(values, row, weights, value)
    return terms, []


def _tangent(values: Tensor, row: int, weights: Tensor, value: Tensor) -> list[Term]:
    """A function of the logits at one place by its gradient, and the constant that makes its value right."""
    rounded = weights.float()
    wide = wide_of(values.device)
    constant = float(value - (rounded.to(wide) * values.to(wide)).sum())
    return [Term((row,), over=Weights(rounded.cpu().numpy())), Term((), constant, CONSTANT)]


@dataclass(frozen=True)
class Next(AbstractTarget):
    """What comes: the best output at every predicting token, or one that is named."""

    reads_rows = True
    choice: int | str | None = None
    score: Score = "margin"

    def terms(self, view: View) -> tuple[list[Term], str]:
        logits = view.at("logits", view.rows)
        if self.choice is None:
            chosen = logits.argmax(-1).tolist()
        else:
            chosen = [class_index(self.choice, view, logits.shape[-1])] * len(view.rows)
        terms, rivals = scored(logits, view.rows, chosen, self.score)
        return terms, view.read(chosen) + (f" rather than {view.read(rivals)}" if rivals else "")


@dataclass(frozen=True)
class Span(AbstractTarget):
    """Tokens `start` to `stop` of what is written, or those of some of its words; the whole of it by default."""

    reads_rows = True
    start: int | str = 0
    stop: int | None = None
    score: Score = "margin"

    def within(self, pieces: Sequence[str]) -> range:
        """Which written tokens it is, given how they read."""
        if isinstance(self.start, str):
            return tokens_reading(self.start, pieces)
        chosen = range(len(pieces))[self.start : self.stop]
        if not chosen:
            raise InputError(
                f"span({self.start}, {self.stop}) holds no token: the continuation has {len(pieces)}. "
                "Pass continuation='…' or generate=N to explain."
            )
        return chosen

    def rows_of(self, example: Example) -> Sequence[int]:
        if isinstance(self.start, str):  # which tokens these are, the view knows
            return example.rows
        return example.rows[self.start : self.stop]

    def terms(self, view: View) -> tuple[list[Term], str]:
        written = view.example.written
        chosen = self.within(view.pieces() if isinstance(self.start, str) else [""] * len(written))
        rows, words = [view.example.rows[n] for n in chosen], [written[n] for n in chosen]
        return scored(view.at("logits", rows), rows, words, self.score)[0], view.read(words)


@dataclass(frozen=True)
class Weighted(AbstractTarget):
    """All that is written, each token times its weight; see `results.hops`."""

    reads_rows = True
    weights: tuple[float, ...]
    score: Score = "margin"

    def rows_of(self, example: Example) -> Sequence[int]:
        return [row for row, weight in zip(example.rows, self.weights, strict=True) if weight]

    def terms(self, view: View) -> tuple[list[Term], str]:
        chosen = [n for n, weight in enumerate(self.weights) if weight]
        terms: list[Term] = []
        for n in chosen:
            own, _ = Span(n, n + 1, self.score).terms(view)
            terms += [term._replace(weight=term.weight * self.weights[n]) for term in own]
        return terms, view.read([view.example.written[n] for n in chosen])


@dataclass(frozen=True)
class Beyond(AbstractTarget):
    """Tokens `start` to `stop` of what is written, each against what was to be expected: Σ_t (l_t − Σ_v q_tv l_v).

    The shares q_t of all words come from elsewhere, such as the same model without a part of its prompt, and are
    constants: the sum is linear in the logits. A word that was expected anyway (q_t near one) weighs nothing, and what
    raises every word alike is no reason, whether or not the model would have written the word itself.
    """

    reads_rows = True
    expected: tuple[Weights, ...]
    """For each written token, how likely each word was there."""
    start: int = 0
    stop: int | None = None

    def rows_of(self, example: Example) -> Sequence[int]:
        return example.rows[self.start : self.stop]

    def terms(self, view: View) -> tuple[list[Term], str]:
        chosen = range(len(view.example.written))[self.start : self.stop]
        words = [view.example.written[n] for n in chosen]
        terms = []
        for n, word in zip(chosen, words, strict=True):
            weights = -self.expected[n].held
            weights[word] += 1
            terms.append(Term((view.example.rows[n],), over=Weights(weights)))
        return terms, view.read(words)


@dataclass(frozen=True)
class Rivals(AbstractTarget):
    """A continuation rather than others, each where it parts from them."""

    reads_rows = True
    pairs: tuple[tuple[int, int, int], ...]
    """For each of the others: the predicting token, the word there, and the other's."""

    def rows_of(self, example: Example) -> Sequence[int]:
        return [row for row, _, _ in self.pairs]

    def terms(self, view: View) -> tuple[list[Term], str]:
        share = 1 / len(self.pairs)
        terms = [Term((row, word), w) for row, this, that in self.pairs for word, w in ((this, share), (that, -share))]
        this = dict.fromkeys(view.spell(pair[1]) for pair in self.pairs)
        return terms, f"{', '.join(this)} rather than {', '.join(view.spell(that) for _, _, that in self.pairs)}"


@dataclass(frozen=True)
class Written(AbstractTarget):
    """One token of what is written, rather than other words in its place. A language model makes `Next` or `Rivals` of
    it, for the text as it was when that token was to come."""

    place: int
    than: str | None = None
    """None for the next likeliest token."""

    def terms(self, view: View) -> tuple[list[Term], str]:
        raise InputError("whence.written(…) is a token that a language model wrote, and this model writes none")


@dataclass(frozen=True)
class Entropy(AbstractTarget):
    """How unsure the model is of what comes: the entropy of its next word, in nats."""

    reads_rows = True

    def terms(self, view: View) -> tuple[list[Term], str]:
        if not view.rows:
            raise InputError("entropy is that of a language model's next word, and this model writes none")
        terms: list[Term] = []
        for row, values in zip(view.rows, view.at("logits", view.rows), strict=True):
            logs = values.to(wide_of(values.device)).log_softmax(-1)
            value = -(logs.exp() * logs.nan_to_num(neginf=0.0)).sum()
            terms += _tangent(values, row, -logs.exp() * (logs.clamp(min=-1e30) + value), value)
        return terms, "entropy of the next word"


def span(start: int | str = 0, stop: int | None = None, *, score: Score = "margin") -> Span:
    """Explain tokens `start` to `stop` of a given or generated continuation, or some of its words: span("in 1889")."""
    check("score", score, Score, "span")
    return Span(start, stop, score)


def written(place: int, *, than: str | None = None) -> Written:
    """Explain why token `place` of a given or generated continuation was written, rather than the next likeliest or
    `than` in its place: written(3, than=" London"). Where both begin alike, the first token that differs decides."""
    check("place", place, int, "written")
    check("than", than, str | None, "written")
    return Written(place, than)


def entropy() -> Entropy:
    """Explain how unsure a language model is of its next word."""
    return Entropy()
