"""`whence.explain`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from whence.core.recipe import Recipe
from whence.errors import InputError
from whence.methods.method import AbstractMethod, make
from whence.methods.method import methods as known_methods
from whence.methods.propagate import Propagate
from whence.models.adapter import AbstractAdapter
from whence.models.examples import batches
from whence.models.loading import load
from whence.models.targets import AbstractTarget, Custom
from whence.progress import track
from whence.results import Explanation

__all__ = ["explain"]

BUDGET = {"cpu": 2048, "cuda": 16384}
"""Tokens in a batch, padding included."""


def explain(
    model: Any,
    inputs: Any,
    method: str | AbstractMethod | Recipe = "lrp",
    target: Any = None,
    *,
    special_tokens: bool = True,
    truncate: bool = False,
    continuation: str | None = None,
    generate: int | None = None,
    batch_tokens: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Any:
    """Explain predictions: one input gives one `Explanation`, a list gives a list.

    >>> import whence
    >>> exp = whence.explain("sentiment", "a gorgeous, witty, seductive movie")
    >>> exp.target
    'positive'

    Arguments:
        model: a loaded model, a name to load, `(module, tokenizer)`, or a module.
        inputs: text, a pair, words, chat messages, encoded tensors, an image; or a list of these.
        method: a name (`whence methods` lists them), a method with options, or a recipe.
        target: class index, label, token, `whence.contrast(a, b)`, `whence.span()`, a function of the outputs; a list
            with one for each input. Default: the prediction; for language models, against the runner-up.
        special_tokens: keep [CLS], [SEP], … in the result. What is left out is in `left_out`.
        truncate: cut inputs that are too long instead of raising an error.
        continuation: for language models, the text whose tokens are explained.
        generate: for language models, generate this many tokens and explain them.
        batch_tokens: tokens in a batch, padding included.
        progress: show a progress bar; by default when it takes longer than a moment.
        options: options of the method.
    """
    adapter = load(model)
    chosen = Propagate(recipe=method, **options) if isinstance(method, Recipe) else make(method, **options)
    encoding: dict[str, Any] = {"truncate": truncate}
    if continuation is not None or generate is not None:
        if "text" not in adapter.task or adapter.task == "text-classification":
            raise InputError("continuation= and generate= are for language models that generate text")
        encoding |= {"continuation": continuation} if continuation is not None else {"generate": generate}
    examples, single = adapter.encode(inputs, **encoding)
    targets = _targets(adapter, target, len(examples), examples)
    results = _in_batches(
        adapter,
        examples,
        lambda part: chosen.explain(adapter, *_picked(examples, targets, part)),
        batch_tokens,
        progress,
        chosen.name,
    )
    if isinstance(method, str) and method in known_methods and method != chosen.name:
        # an alias such as lrp keeps the name it was asked for by
        results = [replace(exp, method=method, options={"recipe": exp.method, **exp.options}) for exp in results]
    if not special_tokens:
        results = [exp.without_special() for exp in results]
    return results[0] if single else results


def _picked(examples: Sequence[Any], targets: Sequence[AbstractTarget], part: list[int]) -> tuple[list, list]:
    return [examples[i] for i in part], [targets[i] for i in part]


def _targets(adapter: AbstractAdapter, target: Any, count: int, examples: Sequence[Any]) -> list[AbstractTarget]:
    if isinstance(target, (list, tuple)):
        if len(target) != count:
            raise InputError(f"{len(target)} targets for {count} inputs: pass one, or one for each")
        made = [adapter.target(t) for t in target]
        if any(isinstance(t, Custom) for t in made):
            raise InputError("a function as target serves all inputs: pass it alone, not in a list")
        return made
    one = adapter.target(target)
    if target is None and any(e.continuation for e in examples):
        from whence.models.targets import Span

        one = Span()
    return [one] * count


def _in_batches(
    adapter: AbstractAdapter,
    examples: Sequence[Any],
    work: Callable[[list[int]], list[Explanation]],
    budget: int | None,
    progress: bool | None,
    what: str,
) -> list[Explanation]:
    """Do the work in batches of about equal length; results come back in the order of the inputs."""
    budget = budget or BUDGET["cuda" if adapter.device.type == "cuda" else "cpu"]
    parts = list(batches(examples, budget, equal_lengths=not adapter.mixes_lengths))
    results: list[Explanation | None] = [None] * len(examples)
    for part in track(parts, what, len(examples), map(len, parts), show=progress):
        for i, result in zip(part, work(part), strict=True):
            results[i] = result
    return results  # type: ignore[return-value]
