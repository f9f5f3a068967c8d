"""`whence.tcav`: testing with concept activation vectors (Kim et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whence.concepts import cav
from whence.concepts.cache import Cache
from whence.concepts.collections import read
from whence.concepts.layers import choose
from whence.concepts.pooling import check_pool
from whence.concepts.probe import Probe
from whence.concepts.procedure import ConceptRun, Draws, layer_score, one_run
from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.loading import load
from whence.models.targets import AbstractTarget, Class, Contrast
from whence.options import check
from whence.progress import track
from whence.results.concept_scores import TCAV
from whence.stamp import versions

__all__ = ["tcav"]

LEAST = {"examples": 2, "concept": 5, "counter": 5, "randoms": 10}
"""The fewest inputs each collection needs."""


def tcav(
    model: Any,
    *,
    target: Any,
    examples: Any,
    concept: Any,
    counter: Any = None,
    randoms: Any = None,
    layer: Any = None,
    pool: str | None = None,
    runs: int = 30,
    size: int | None = None,
    folds: int = 5,
    standardise: bool = True,
    alpha: float = 0.05,
    seed: int = 0,
    batch_size: int = 16,
    cache: str | Path | None = None,
    progress: bool | None = None,
    names: dict[str, str] | None = None,
) -> TCAV:
    """How a class answers a concept: the share of its examples whose score rises towards the concept, per layer.

    TCAV = |{x : ∇_a s(x) · v > 0}| / |{x}|,  v the concept activation vector       [Kim et al. 2018, eq. 1 and 2]

    >>> import whence
    >>> praise = ["superb", "wonderful", "gorgeous", "brilliant", "delightful", "charming"]
    >>> plain = ["wooden", "square", "daily", "northern", "printed", "yellow"]
    >>> texts = ["a film about a dog", "the story of two brothers", "it plays in paris"]
    >>> result = whence.tcav("sentiment", target="positive", examples=texts, concept=praise, counter=plain, runs=5)
    >>> result[0].score
    1.0

    Each of `runs` fits a vector on other examples and scores it; as many vectors between random sets say what chance
    gives, and a t test compares the two, corrected for examples that runs share and for several layers (Bonferroni).

    Arguments:
        model: a loaded model, a name to load, `(module, processor or tokenizer)`, or a module.
        target: class index, label, `whence.contrast(a, b)`, or a function of the outputs.
        examples: inputs of the target class. Like all collections: a folder of images, a text file (one per line), or
            a list of paths, arrays, PIL images, texts; for plain modules a tensor with the batch first.
        concept: examples of the concept.
        counter: examples of what it is set against (relative TCAV).
        randoms: a pool of random inputs. Without `counter`, each run draws its counterpart from it; with or without,
            chance is measured on it. Without a pool, chance is measured on concept and counter mixed.
        layer: number of a block, name of a module, "all" blocks, or a list; default: the last block but one.
        pool: "flatten" (default for images), "mean" over tokens (default otherwise), "cls" (first token), "last".
        runs: vectors per layer, and as many for chance.
        size: examples on each side of a vector; default: half of the concept's, so that runs differ.
        folds: splits for the held-out accuracy of the vectors where `size` leaves no examples to test them on.
        standardise: fit on standardised features; the direction is carried back to the space of the activations.
        alpha: level of significance, after correction.
        seed: decides every draw.
        batch_size: inputs in a batch.
        cache: a folder to keep activations in, by content; off unless given.
        progress: show a progress bar; by default when it takes longer than a moment.
        names: what to call "concept", "counter" and "randoms" in the result; default: names of folders and files.
    """
    cav.learner()
    adapter = load(model)
    goal = _checked_target(adapter, target)
    _check_options(counter, randoms, runs, size, folds, alpha, batch_size)
    pool = pool or ("flatten" if adapter.kind == "image" else "mean")
    check_pool(pool)
    given = {"examples": examples, "concept": concept, "counter": counter, "randoms": randoms}
    called = names or {}
    sets = {
        role: read(adapter, value, role, LEAST[role], called.get(role))
        for role, value in given.items()
        if value is not None
    }
    layers = choose(adapter.module, layer, lambda: adapter.run(adapter.collate(sets["examples"].examples[:1])))
    store = Cache(cache, adapter) if cache is not None else None
    probe = Probe(adapter, layers, pool, batch_size=batch_size, cache=store, progress=progress)
    draws = Draws(sets, size)
    gradients = probe.gradients(sets["examples"].examples, goal)
    activations = {role: probe.activations(s.examples, s.name) for role, s in sets.items() if role != "examples"}
    fitted: dict[str, list[ConceptRun]] = {la.name: [] for la in layers}
    for name in track(fitted, "concept vectors", len(layers), show=progress):
        known = [found[name] for found in activations.values()]
        _check_lengths([gradients.by_layer[name], *known])
        space = cav.Space(np.concatenate(known), standardise=standardise)
        answers = space.answers(gradients.by_layer[name])
        for run in range(runs):  # with the same draws at every layer
            fitted[name].append(one_run(space, answers, draws, folds, np.random.default_rng([seed, run])))
    return TCAV(
        target=gradients.target,
        concept=sets["concept"].name,
        counter=sets["counter"].name if counter is not None else f"random ({sets['randoms'].name})",
        layers=tuple(
            layer_score(la.name, la.index, fitted[la.name], draws.overlap, len(layers), alpha) for la in layers
        ),
        examples=len(sets["examples"]),
        recognised=_recognised(adapter, goal, gradients.predicted),
        size=draws.size,
        pool=pool,
        runs=runs,
        alpha=alpha,
        seed=seed,
        standardised=standardise,
        stamp=adapter.facts() | versions("scikit-learn"),
    )


# -- checks before long work -------------------------------------------------------------------------------------


def _checked_target(adapter: AbstractAdapter, target: Any) -> AbstractTarget:
    """The target, with labels looked up now rather than after minutes of work."""
    if target is None:
        raise InputError(f"target=None: TCAV explains one class for all examples; pass a label{_some(adapter)}")
    goal = adapter.target(target)
    if isinstance(goal, Class):
        choices: Sequence[int | str] = (goal.choice,)
    elif isinstance(goal, Contrast):
        choices = (goal.this, *goal.those)
    else:
        choices = ()
    for choice in choices:
        if isinstance(choice, str):
            adapter.find(choice)
        elif adapter.labels and not 0 <= choice < len(adapter.labels):
            raise InputError(f"class {choice} does not exist: the model has {len(adapter.labels)} classes, from 0")
    return goal


def _some(adapter: AbstractAdapter) -> str:
    return f", one of: {', '.join(adapter.labels[:10])}" if adapter.labels else " or a class number"


def _check_options(
    counter: Any, randoms: Any, runs: int, size: int | None, folds: int, alpha: float, batch_size: int
) -> None:
    if counter is None and randoms is None:
        raise InputError(
            "a concept vector needs something to set the concept against: pass counter= (another concept) or randoms= "
            "(a pool of random inputs)"
        )
    for name, value in {"runs": runs, "size": size, "folds": folds, "batch_size": batch_size}.items():
        check(name, value, int | None, "tcav")
    check("alpha", alpha, float, "tcav")
    if runs < 3:
        raise InputError(f"runs={runs}: the significance test needs at least 3, better 30")
    if size is not None and size < 3:
        raise InputError(f"size={size}: a concept vector needs at least 3 examples on each side")
    if folds < 2:
        raise InputError(f"folds={folds}: held-out accuracy needs at least 2")
    if not 0 < alpha < 1:
        raise InputError(f"alpha={alpha}: the level of significance lies between 0 and 1, usually 0.05")
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}: pass at least 1")


def _check_lengths(parts: Sequence[np.ndarray]) -> None:
    if len({part.shape[1] for part in parts}) > 1:
        raise InputError(
            "the inputs differ in length, so their flattened activations do. Use pool='mean' or pool='cls'"
        )


def _recognised(adapter: AbstractAdapter, goal: AbstractTarget, predicted: np.ndarray | None) -> float | None:
    """Share of examples that the model itself puts into the target class."""
    if predicted is None or not isinstance(goal, Class):
        return None
    index = adapter.find(goal.choice) if isinstance(goal.choice, str) else goal.choice
    return float((predicted == index).mean())
