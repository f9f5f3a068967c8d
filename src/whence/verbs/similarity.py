"""`whence.similarity` and `whence.retrieve`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from whence.core.recipe import Recipe
from whence.data.frames import column
from whence.errors import EmptyInputError, InputError, OptionError
from whence.methods.explaining import as_method, renamed
from whence.methods.method import AbstractMethod
from whence.methods.pairing import Embedded, paired, partners
from whence.methods.propagate import Propagate
from whence.models.embedders import embedder_of
from whence.models.embedding import MEASURES, Embeds, Measure, Pooling, TextEncoder
from whence.models.example import Example
from whence.options import Count, check
from whence.progress import track
from whence.results import Pair, Several

__all__ = ["retrieve", "similarity"]


@overload
def similarity(
    model: Any,
    a: Any,
    b: str,
    *,
    measure: Measure | None = None,
    pooling: Pooling | None = None,
    method: str | AbstractMethod | Recipe = "lrp",
    truncate: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> Pair: ...
@overload
def similarity(
    model: Any,
    a: Any,
    b: list[str],
    *,
    measure: Measure | None = None,
    pooling: Pooling | None = None,
    method: str | AbstractMethod | Recipe = "lrp",
    truncate: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> Several[Pair]: ...
@overload
def similarity(
    model: Any,
    a: Any,
    b: Any,
    *,
    measure: Measure | None = None,
    pooling: Pooling | None = None,
    method: str | AbstractMethod | Recipe = "lrp",
    truncate: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> Any: ...
def similarity(
    model: Any,
    a: Any,
    b: Any,
    *,
    measure: Measure | None = None,
    pooling: Pooling | None = None,
    method: str | AbstractMethod | Recipe = "lrp",
    truncate: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> Any:
    """Why are two inputs similar? A `Pair`: which token (or patch) of one goes with which of the other.

        pair = whence.similarity("sentence-transformers/all-MiniLM-L6-v2", "a cat sleeps", "the kitten is asleep")
        pair.score, pair.matrix, pair.top(3)
        pair.left, pair.right            # each side alone, with the other held constant
        pair.save("pair.html")

    Arguments:
        model: of sentence-transformers, an encoder without a head as a folder or `(module, tokenizer)`, a CLIP.
        a: a text; for a CLIP, also a picture. Of late interaction it is the query.
        b: another one, or several (a list, a column, a generator), which give a list of pairs.
        measure: "cosine", "dot", or "maxsim" for late interaction. Default: what the model declares, else cosine.
        pooling: of an encoder, "mean", "cls" or "last". Default: what its folder says, else mean.
        method: a recipe. `lrp`, the default, conserves: the matrix and its sinks are the similarity.
        truncate: cut inputs that are too long instead of raising an error.
        progress: show a progress bar; by default when it takes longer than a moment.
        options: options of the method.

    The price is about that of as many backward passes as there are features on each side. One side alone is one pass:
    `whence.explain(model, a, target=whence.similar_to(b))`.
    """
    question = _Question(model, measure, pooling, method, truncate, options)
    items = _several(b)
    several, others = items is not None, [b] if items is None else items
    if not others:
        raise EmptyInputError("there is nothing to compare with: similarity(model, a, [text, …])")
    made = question.pairs(a, [(n, item) for n, item in enumerate(others)], several, progress)
    return Several(made) if several else made[0]


def retrieve(
    model: Any,
    query: Any,
    documents: Sequence[Any] | Mapping[str, Any],
    *,
    top: int = 5,
    measure: Measure | None = None,
    pooling: Pooling | None = None,
    method: str | AbstractMethod | Recipe = "lrp",
    truncate: bool = True,
    progress: bool | None = None,
    **options: Any,
) -> Several[Pair]:
    """The documents that are most similar to a query, best first, each as a `Pair` that says why.

        for hit in whence.retrieve(model, "how do bees sleep", texts, top=3):
            print(hit.rank, hit.score, texts[hit.index], hit.top(3))

    All documents are embedded, only the `top` are explained. Arguments else as in `similarity`; documents that are too
    long are cut unless `truncate=False`.
    """
    check("top", top, Count, "retrieve")
    if isinstance(documents, (str, Mapping)) or not isinstance(documents, Iterable):
        raise InputError("documents are several texts: retrieve(model, query, [text, …])")
    question = _Question(model, measure, pooling, method, truncate, options)
    items = list(column(documents))
    if not items:
        raise EmptyInputError("there are no documents: retrieve(model, query, [text, …])")
    best = question.ranked(query, items)[:top]
    made = question.pairs(query, [(n, items[n]) for n in best], True, progress)
    return Several(replace(pair, rank=rank) for rank, pair in enumerate(made, 1))


def _several(given: Any) -> list[Any] | None:
    """The items of a list, a column or a generator; None for a single input. Arrays of numbers are pictures."""
    given = column(given)
    if isinstance(given, np.ndarray):
        return list(given.tolist()) if given.ndim == 1 and given.dtype.kind in "OUT" else None
    generated = isinstance(given, Iterator) and not hasattr(given, "read")  # an open file is one input
    return list(given) if generated or isinstance(given, (list, tuple)) else None


class _Question:
    """How inputs are compared, and by which method that is taken apart."""

    def __init__(self, model: Any, measure: Any, pooling: Any, method: Any, truncate: bool, options: dict[str, Any]):
        check("measure", measure, Measure | None, "similarity")
        check("pooling", pooling, Pooling | None, "similarity")
        check("truncate", truncate, bool, "similarity")
        chosen = as_method(method, **options)
        if not isinstance(chosen, Propagate):
            raise OptionError(
                f"a pair is made of products of relevances, which {chosen.name!r} has not: use a recipe, method='lrp' "
                f"or 'gi'; or one side, whence.explain(model, a, method={chosen.name!r}, target=whence.similar_to(b))"
            )
        self.method, self.named, self.truncate = chosen, method, truncate
        self.model = _with_pooling(embedder_of(model), pooling)
        self.measure = measure or self.model.measure
        if self.measure not in MEASURES:
            raise InputError(
                f"the model says that its embeddings are compared by {self.measure!r}, which is no product of theirs: "
                "pass measure='cosine' or measure='dot'"
            )

    def encoded(self, item: Any) -> tuple[Embeds, Example]:
        side = self.model.side_for(item)
        if _several(item) is not None:
            raise InputError(f"one side of a pair is a single input, not {type(item).__name__}: {item!r:.80}")
        (example,), _ = side.encode(item, truncate=self.truncate)
        return side, example

    def encoded_among(self, n: int, item: Any, several: bool) -> tuple[Embeds, Example]:
        try:
            return self.encoded(item)
        except InputError as error:
            raise error.of_input(n) if several else error from None

    def pairs(self, a: Any, others: list[tuple[int, Any]], several: bool, progress: bool | None) -> list[Pair]:
        """The first input with each of the others: its own side is gone through once."""
        second = [self.encoded_among(n, item, several) for n, item in others]
        side, example = self.encoded(a)
        made = []
        with Embedded(side, self.method, example, self.measure) as one:
            for (n, _), (own, other) in track(
                zip(others, second, strict=True), "similarity", len(others), show=progress
            ):
                with Embedded(own, self.method, other, self.measure) as two:
                    pair = paired(one, two)
                left, right = renamed(pair.left, self.named), renamed(pair.right, self.named)
                made.append(replace(pair, left=left, right=right, index=n if several else None))
        return made

    def ranked(self, query: Any, items: list[Any]) -> list[int]:
        """Which items are most similar to the query, best first."""
        side, example = self.encoded(query)
        (wanted,) = side.embedded([example], self.measure)
        found = [self.encoded_among(n, item, True) for n, item in enumerate(items)]
        scores = torch.zeros(len(items), dtype=torch.float64)
        for kind in {type(own) for own, _ in found}:
            chosen = [n for n, (own, _) in enumerate(found) if type(own) is kind]
            vectors = found[chosen[0]][0].embedded([found[n][1] for n in chosen], self.measure)
            for n, own in zip(chosen, vectors, strict=True):
                scores[n] = self._score(wanted, own)
        return [int(n) for n in scores.argsort(descending=True, stable=True)]

    def _score(self, a: Tensor, b: Tensor) -> float:
        a, b = a.double(), b.double()
        if self.measure != "dot":
            a, b = (torch.nn.functional.normalize(vectors, dim=1) for vectors in (a, b))
        return float((a * b[partners(a, b)]).sum())


def _with_pooling(model: Embeds, pooling: Pooling | None) -> Embeds:
    if pooling is None:
        return model
    if not isinstance(model, TextEncoder):
        raise InputError(
            f"pooling={pooling!r} is for an encoder without a head, and this model makes its embedding itself: leave "
            "pooling= out"
        )
    return model.pooling_by(pooling)
