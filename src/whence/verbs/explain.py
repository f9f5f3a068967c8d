"""`whence.explain`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from whence.core.memory import Memory, size_of
from whence.core.recipe import Recipe
from whence.data.frames import column, is_series, values_of
from whence.errors import InputError, WhenceError
from whence.methods.explaining import as_method, explain_examples, renamed
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.loading import load
from whence.options import Count, check
from whence.results import Explanation

__all__ = ["SkippedWarning", "encoding_of", "explain"]


class SkippedWarning(UserWarning):
    """Inputs that could not be explained were passed over."""


@overload
def explain(
    model: Any,
    inputs: str | tuple[str, str] | Path,
    method: str | AbstractMethod | Recipe = "lrp",
    target: Any = None,
    *,
    text: str | int | Sequence[str] | None = None,
    special_tokens: bool = True,
    truncate: bool = False,
    continuation: str | None = None,
    generate: int | None = None,
    batch_tokens: int | None = None,
    memory: Memory = "auto",
    on_error: Literal["raise", "skip"] = "raise",
    progress: bool | None = None,
    **options: Any,
) -> Explanation: ...
@overload
def explain(
    model: Any,
    inputs: list[str] | list[tuple[str, str]] | list[Path],
    method: str | AbstractMethod | Recipe = "lrp",
    target: Any = None,
    *,
    text: str | int | Sequence[str] | None = None,
    special_tokens: bool = True,
    truncate: bool = False,
    continuation: str | None = None,
    generate: int | None = None,
    batch_tokens: int | None = None,
    memory: Memory = "auto",
    on_error: Literal["raise"] = "raise",
    progress: bool | None = None,
    **options: Any,
) -> list[Explanation]: ...
@overload
def explain(
    model: Any,
    inputs: Any,
    method: str | AbstractMethod | Recipe = "lrp",
    target: Any = None,
    *,
    text: str | int | Sequence[str] | None = None,
    special_tokens: bool = True,
    truncate: bool = False,
    continuation: str | None = None,
    generate: int | None = None,
    batch_tokens: int | None = None,
    memory: Memory = "auto",
    on_error: Literal["raise", "skip"] = "raise",
    progress: bool | None = None,
    **options: Any,
) -> Any: ...
def explain(
    model: Any,
    inputs: Any,
    method: str | AbstractMethod | Recipe = "lrp",
    target: Any = None,
    *,
    text: str | int | Sequence[str] | None = None,
    special_tokens: bool = True,
    truncate: bool = False,
    continuation: str | None = None,
    generate: int | None = None,
    batch_tokens: int | None = None,
    memory: Memory = "auto",
    on_error: Literal["raise", "skip"] = "raise",
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
        inputs: text, a pair, words, chat messages, encoded tensors, an image; a list or a column of these; a frame.
        method: a name (`whence methods` lists them), a method with options, or a recipe.
        target: class index, label, word, `whence.contrast(a, b)`, `whence.span()`, a function of the outputs; a list
            or column with one for each input. Default: the prediction; for language models, against the runner-up.
        text: of a frame, the column that is explained; two columns for pairs.
        special_tokens: keep [CLS], [SEP], … in the result. What is left out is in `left_out`.
        truncate: cut inputs that are too long instead of raising an error.
        continuation: for language models, the text whose tokens are explained.
        generate: for language models, generate this many tokens and explain them.
        batch_tokens: tokens in a batch, padding included.
        memory: "auto" holds everything for the backward pass where it fits on the GPU, and else runs as many blocks
            of the model again as needed; "keep", "recompute", or the most that is held, "40GiB". Results are equal.
        on_error: "skip" explains the rest of a list where some inputs can't be; None stands in their place.
        progress: show a progress bar; by default when it takes longer than a moment.
        options: options of the method.
    """
    check("on_error", on_error, Literal["raise", "skip"], "explain")
    check("batch_tokens", batch_tokens, Count | None, "explain")
    size_of(memory)
    check("special_tokens", special_tokens, bool, "explain")
    check("truncate", truncate, bool, "explain")
    adapter = load(model)
    chosen = as_method(method, **options)
    encoding = encoding_of(adapter, truncate, continuation, generate)
    found, single = adapter.attempt(column(inputs, text), **encoding)
    failed = {n: e for n, e in enumerate(found) if not isinstance(e, Example)}
    if failed and (single or on_error == "raise"):
        n, error = next(iter(failed.items()))
        raise error if single else error.of_input(n) from None
    choices = _choices(target, len(found))
    good = [n for n in range(len(found)) if n not in failed]
    made = explain_examples(
        adapter,
        chosen,
        [e for e in found if isinstance(e, Example)],
        [choices[n] for n in good],
        batch_tokens=batch_tokens,
        memory=memory,
        progress=progress,
        apart=on_error == "skip" and not single,
    )
    results: list[Explanation | None] = [None] * len(found)
    for n, result in zip(good, made, strict=True):
        if isinstance(result, Explanation):
            result = renamed(result, method)
            results[n] = result if special_tokens else result.without_special()
        elif isinstance(result, WhenceError):
            failed[n] = result
        else:
            raise result
    if failed:
        lines = "; ".join(f"input {n}: {error}" for n, error in sorted(failed.items())[:5])
        more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
        warnings.warn(f"{len(failed)} of {len(found)} inputs skipped. {lines}{more}", SkippedWarning, stacklevel=2)
    return results[0] if single else results


def encoding_of(
    adapter: AbstractAdapter, truncate: bool, continuation: str | None, generate: int | None
) -> dict[str, Any]:
    check("generate", generate, Count | None, "explain")
    if continuation is None and generate is None:
        return {"truncate": truncate}
    if not adapter.writes:
        raise InputError("continuation= and generate= are for language models that generate text")
    if continuation is not None and generate is not None:
        raise InputError("continuation= says what is written and generate= lets the model write: pass one of them")
    written = {"continuation": continuation} if continuation is not None else {"generate": generate}
    return {"truncate": truncate, **written}


def _choices(target: Any, count: int) -> list[Any]:
    if is_series(target) or isinstance(target, np.ndarray):
        target = target.tolist() if isinstance(target, np.ndarray) else values_of(target)
    if not isinstance(target, (list, tuple)):
        return [target] * count
    if len(target) != count:
        raise InputError(f"{len(target)} targets for {count} inputs: pass one, or one for each")
    return list(target)
