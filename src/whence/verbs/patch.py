"""`whence.patch`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from whence.core.recipe import Recipe
from whence.errors import InputError
from whence.methods.patching import PATH, TRUTH, TwoRuns, recipe_of
from whence.models.example import Example
from whence.models.loading import load
from whence.options import Count, check
from whence.results import Patching
from whence.stamp import versions

__all__ = ["patch"]

At = Literal["heads", "mlps", "attentions", "layers"]
Run = Literal["clean", "corrupt"]


def patch(
    model: Any,
    clean: Any,
    corrupt: Any,
    *,
    target: Any = None,
    at: At | Sequence[At] = "heads",
    method: str | Recipe = "relp",
    into: Run = "clean",
    truth: bool = False,
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
        at: "heads" (each head, at all tokens), "mlps", "attentions" or "layers" (what they give, at each token).
        method: "relp" (Δ activation · gradient under LRP), "attribution" (plain gradient), "integrated_gradients" (mean
            gradient between both inputs), any recipe, or "activation": the model is run for each place, the truth.
        into: the run that is patched: "clean" (noising), or "corrupt", into which clean activations go (denoising).
        truth: run the model for each place as well, and say how well the estimate correlates.
        steps: of "integrated_gradients", points between the inputs.
    """
    several = isinstance(at, Iterable) and not isinstance(at, str)
    kinds: list[Any] = list(at) if several else [at]
    if not kinds:
        raise InputError("at=[] names no places: at='heads', 'mlps', 'attentions' or 'layers'")
    for kind in kinds:
        check("at", kind, At, "patch")
    check("into", into, Run, "patch")
    check("truth", truth, bool, "patch")
    check("steps", steps, Count, "patch")
    recipe = recipe_of(method)
    adapter = load(model)
    runs = TwoRuns(
        adapter, _single(adapter, clean, "clean"), _single(adapter, corrupt, "corrupt"), target,
        kinds=list(dict.fromkeys(kinds)), into=into, recipe=recipe,
    )  # fmt: skip
    asked = method.name if isinstance(method, Recipe) else method
    path = runs.along(kinds, steps) if asked == PATH else {}
    names = {run: tuple(name for part in e.parts for name in part.names) for run, e in runs.examples.items()}
    made = []
    for kind in kinds:
        true = runs.true_effects(kind, progress=progress) if truth or asked == TRUTH else None
        effects = true if asked == TRUTH else path[kind] if path else runs.estimated(kind)
        assert effects is not None
        made.append(
            Patching(
                effects=effects,
                kind=kind,
                method=asked,
                target=runs.name,
                layers=tuple(place.layer or 0 for place in runs.here.of(kind)),
                tokens=names[into],
                other_tokens=names["corrupt" if into == "clean" else "clean"],
                clean_score=runs.seen["clean"].target,
                corrupt_score=runs.seen["corrupt"].target,
                into=into,
                truth=true if truth else None,
                options={"steps": steps} if asked == PATH else {} if asked == TRUTH else {"recipe": recipe.name},
                stamp={**adapter.facts(), **versions()},
            )
        )
    return made if several else made[0]


def _single(adapter: Any, item: Any, which: str) -> Example:
    examples, single = adapter.encode(item)
    if not single:
        raise InputError(f"patch compares two inputs, and {which} is a list of {len(examples)}: pass them one by one")
    (example,) = examples
    return example  # type: ignore[no-any-return]
