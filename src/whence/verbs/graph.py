"""`whence.graph`: from the tokens, through heads and layers, to the prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from whence.core.recipe import Recipe
from whence.errors import InputError
from whence.methods.explaining import as_method
from whence.methods.graphing import graphed
from whence.methods.method import AbstractMethod
from whence.methods.propagate import Propagate
from whence.models.generating import Continuation, Generate
from whence.models.loading import load
from whence.models.refusing import in_words
from whence.options import Above, Count, Most, check
from whence.results.attribution_graph import AttributionGraph
from whence.verbs.explain import encoding_of

__all__ = ["graph"]


def graph(
    model: Any,
    inputs: Any,
    method: str | AbstractMethod | Recipe = "lrp",
    target: Any = None,
    *,
    share: float = 0.8,
    most: int = 500,
    continuation: Continuation | None = None,
    generate: Generate | None = None,
    truncate: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> AttributionGraph:
    """How one prediction came about: nodes are tokens in layers, edges are heads, MLPs and what is handed on as it is.

    `share` is how much of what all edges of a layer carry (Σ |weight|) is kept, `most` how many edges of a layer at
    most; edges that lead nowhere are left out. One forward and one backward pass, whatever the size.

    >>> import whence
    >>> graph = whence.graph("sentiment", "a gorgeous, witty, seductive movie")
    >>> graph.relevance.shape[0] == len(graph.layers) + 1
    True
    """
    check("share", share, Annotated[float, Above(0), Most(1)], "graph")
    check("most", most, Count, "graph")
    adapter = load(model)
    chosen = as_method(method, **options)
    if not isinstance(chosen, Propagate):
        raise InputError(f"method {chosen.name!r} has no relevance inside of a model: use 'exact', 'cp_lrp' or 'ah_ln'")
    if chosen.at != "word":
        raise InputError(f"at={chosen.at!r} is not for graphs: their first row is all that the first block reads")
    examples, single = adapter.encode(inputs, **encoding_of(adapter, truncate, continuation, generate))
    if not single:
        raise InputError("a graph is of one input: pass it by itself, not in a list")
    with in_words(adapter, examples[0]):
        made = graphed(adapter, chosen, examples[0], target, share=share, most=most, progress=progress)
    return replace(made, method=method) if isinstance(method, str) else made
