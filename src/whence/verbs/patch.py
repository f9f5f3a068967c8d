"""`whence.patch`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from whence.core.recipe import Recipe
from whence.errors import InputError
from whence.methods.edges import Edges
from whence.methods.partway import BESIDE, Partway
from whence.methods.patching import EDGES, PARTWAY, PATH, TRUTH, TwoRuns, recipe_of
from whence.models.example import Example
from whence.models.loading import load
from whence.options import Count, check
from whence.results import Patching
from whence.stamp import versions

__all__ = ["largest", "patch"]

At = Literal["heads", "mlps", "attentions", "layers", "edges"]
Run = Literal["clean", "corrupt"]
MOST_EDGES = 5000
"""Of which the truth is run without being asked for them by number."""


def patch(
    model: Any,
    clean: Any,
    corrupt: Any,
    *,
    target: Any = None,
    at: At | Sequence[At] = "heads",
    method: str | Recipe = PARTWAY,
    into: Run = "clean",
    truth: bool | int = False,
    steps: int = 8,
    progress: bool | None = None,
) -> Any:
    """Which places inside a model carry what differs between two inputs; a list of results for a list of `at`.

        found = whence.patch(llm, "Mary and John went home. John waved to", "Mary and John went home. Anna waved to",
                             target=whence.contrast(" Mary", " John"), at="heads", truth=True)
        found.effects, found.top(5), found.correlation

    effect of a place = score of the clean run with the corrupt run's activation there − score of the clean run.

    Arguments:
        model: a loaded model, a name to load, `(module, tokenizer)`.
        clean, corrupt: two inputs with as many tokens.
        target: as in `explain`; decided on the clean input, and the same for both.
        at: "heads" (each head, at all tokens), "mlps", "attentions" or "layers" (what they give, at each token), or
            "edges": what the input, a head or an MLP sends directly to a later head, an MLP or the target.
        method: "partway" (Δ activation · mean gradient on the way from one input to the other, as far as the place
            goes itself), "integrated_gradients" (all the way), "attribution" (the gradient at the start), "relp" (the
            gradient under LRP), any recipe, or "activation": the model is run for each place, the truth.
        into: the run that is patched: "clean" (noising), or "corrupt", into which clean activations go (denoising).
        truth: run the model for each place as well, and say how well the estimate correlates; a number: for so many of
            the largest estimates alone.
        steps: of "partway" and "integrated_gradients", points between the inputs.
    """
    several = isinstance(at, Iterable) and not isinstance(at, str)
    kinds: list[Any] = list(at) if several else [at]
    if not kinds:
        raise InputError("at=[] names no places: at='heads', 'mlps', 'attentions', 'layers' or 'edges'")
    for kind in kinds:
        check("at", kind, At, "patch")
    check("into", into, Run, "patch")
    check("truth", truth, bool | Count, "patch")
    check("steps", steps, Count, "patch")
    recipe = recipe_of(method)
    adapter = load(model)
    runs = TwoRuns(
        adapter, _single(adapter, clean, "clean"), _single(adapter, corrupt, "corrupt"), target,
        kinds=list(dict.fromkeys(kinds)), beside=BESIDE if method == PARTWAY else (), into=into, recipe=recipe,
    )  # fmt: skip
    asked = method.name if isinstance(method, Recipe) else method
    names = {run: tuple(name for part in e.parts for name in part.names) for run, e in runs.examples.items()}
    shared: dict[str, Any] = {
        "method": asked,
        "target": runs.name,
        "tokens": names[into],
        "other_tokens": names["corrupt" if into == "clean" else "clean"],
        "clean_score": runs.seen["clean"].target,
        "corrupt_score": runs.seen["corrupt"].target,
        "into": into,
        "options": {"steps": steps} if asked in (PATH, PARTWAY) else {} if asked == TRUTH else {"recipe": recipe.name},
        "stamp": {**adapter.facts(), **versions()},
    }
    places = [kind for kind in kinds if kind != EDGES]
    edges = Edges(runs) if EDGES in kinds else None
    found = _estimated(runs, places, edges, asked, steps)
    made = []
    for kind in kinds:
        true = None
        if asked == TRUTH or truth is not False:
            only = largest(found[kind], None if asked == TRUTH or truth is True else int(truth))
            if kind != EDGES or edges is None:
                true = runs.true_effects(kind, only=only, progress=progress)
            else:
                if asked == TRUTH or truth is True:
                    _check_feasible(int(only.sum()))
                true = edges.true_effects(only, progress=progress)
        effects = found[kind] if asked != TRUTH or true is None else true
        own = _names_of(edges) if kind == EDGES else {"layers": tuple(place.layer or 0 for place in runs.here.of(kind))}
        made.append(Patching(effects=effects, kind=kind, truth=None if truth is False else true, **own, **shared))
    return made if several else made[0]


def _estimated(
    runs: TwoRuns, places: Sequence[str], edges: Edges | None, asked: str, steps: int
) -> dict[str, np.ndarray]:
    """Effects of every kind of place, and of edges."""
    if asked == PARTWAY:
        return Partway(runs, steps).effects(places, edges)
    along = asked == PATH
    found = runs.along(places, steps) if along and places else {kind: runs.estimated(kind) for kind in places}
    if edges is not None:
        found[EDGES] = edges.along(steps) if along else edges.estimated()
    return found


def _single(adapter: Any, item: Any, which: str) -> Example:
    examples, single = adapter.encode(item)
    if not single:
        raise InputError(f"patch compares two inputs, and {which} is a list of {len(examples)}: pass them one by one")
    (example,) = examples
    return example  # type: ignore[no-any-return]


def _names_of(edges: Edges | None) -> dict[str, Any]:
    assert edges is not None
    return {
        "layers": tuple(node.layer for node in edges.sources),
        "rows": tuple(node.name for node in edges.sources),
        "columns": tuple(node.name for node in edges.sinks),
    }


def largest(estimate: np.ndarray, count: int | None) -> np.ndarray:
    """Where the `count` largest estimates are; all of them where no number is given."""
    known: np.ndarray = np.isfinite(estimate)
    if count is None or count >= known.sum():
        return known
    order = np.argsort(-np.where(known, np.abs(estimate), -1.0), axis=None, kind="stable")[:count]
    made = np.zeros(estimate.size, dtype=bool)
    made[order] = True
    return made.reshape(estimate.shape)


def _check_feasible(count: int) -> None:
    if count > MOST_EDGES:
        raise InputError(
            f"the model has {count:,} edges, and the truth is a run for each: truth=100 runs the hundred largest"
        )
