"""`whence.explain`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, overload

import numpy as np

from whence.core.memory import Memory, size_of
from whence.core.propagation import At
from whence.core.recipe import Recipe
from whence.data.frames import column, is_frame, is_series, settled, values_of
from whence.errors import InputError, WhenceError
from whence.methods.as_written import streamed
from whence.methods.explaining import as_method, explain_examples, renamed
from whence.methods.hopping import hopped
from whence.methods.insides import inside_of, places_in
from whence.methods.method import AbstractMethod
from whence.methods.propagate import Propagate
from whence.methods.tracing import Rows, traced
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.generating import Continuation, Generate, checked_generate
from whence.models.loading import load
from whence.models.refusing import in_words
from whence.models.writing import CausalLM
from whence.options import Count, check
from whence.progress import showing
from whence.results import Explanation, Trace
from whence.results.hops import Hops
from whence.results.inside import Inside
from whence.results.several import Several
from whence.results.units import Units

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
    continuation: None = None,
    generate: None = None,
    by: Units = "token",
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
    continuation: None = None,
    generate: None = None,
    by: Units = "token",
    batch_tokens: int | None = None,
    memory: Memory = "auto",
    on_error: Literal["raise"] = "raise",
    progress: bool | None = None,
    **options: Any,
) -> Several[Explanation]: ...
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
    continuation: Continuation | None = None,
    generate: Generate | None = None,
    by: Units = "token",
    rows: Rows = "token",
    hops: Hops = 0,
    on_token: Callable[[str, Explanation], Any] | None = None,
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
    continuation: Continuation | None = None,
    generate: Generate | None = None,
    by: Units = "token",
    rows: Rows = "token",
    hops: Hops = 0,
    on_token: Callable[[str, Explanation], Any] | None = None,
    batch_tokens: int | None = None,
    memory: Memory = "auto",
    on_error: Literal["raise", "skip"] = "raise",
    progress: bool | None = None,
    **options: Any,
) -> Any:
    """Explain predictions: one input gives one `Explanation` (or a `Trace` of what was written, or an `Inside` of the
    model), a list gives a list of them, which shows and saves itself.

    >>> import whence
    >>> exp = whence.explain("sentiment", "a gorgeous, witty, seductive movie")
    >>> exp.target
    'positive'

    Arguments:
        model: a loaded model, a name to load, `(module, tokenizer)`, or a module.
        inputs: text, a pair, words, chat messages, encoded tensors, an image; a list or a column of these; a frame.
        method: a name (`whence methods` lists them), a method with options, or a recipe.
        target: class index, label, word, `whence.contrast(a, b)`, `whence.span()`, `whence.written(3)`,
            `whence.box("cat")`, `whence.region("cat")`, a function of the outputs; a list or column with one for each
            input. Default: the prediction; for language models, against the runner-up.
        text: of a frame, the column that is explained; two columns for pairs.
        special_tokens: keep [CLS], [SEP], … in the result. What is left out is in `left_out`.
        truncate: cut inputs that are too long instead of raising an error.
        continuation: for language models, the text whose tokens are explained; or these by their ids (`trace.ids`).
        generate: for language models, write this many tokens and explain them; or options of its `generate`, such as
            {"max_new_tokens": 100, "do_sample": True, "temperature": 0.7, "seed": 0, "stop_strings": ["."]}. Without a
            target, what is written (or continued) gives a `Trace`: each written token, and where it came from.
        by: units of texts whose tokens are summed: "word", "sentence", "message", "document"; or stretches of the text.
        rows: of a trace, what its rows are: written tokens, words or sentences. Each costs a backward pass.
        hops: so many times, or until little is left ("all"), what comes from the model's own text is passed on to where
            that came from.
        on_token: called with every written token and its explanation as soon as it is written.
        batch_tokens: tokens in a batch, padding included.
        memory: "auto" holds everything for the backward pass where it fits on the GPU, and else runs as many blocks
            of the model again as needed; "keep", "recompute", or the most that is held, "40GiB". Results are equal.
        on_error: "skip" explains the rest of a list where some inputs can't be; None stands in their place.
        progress: show a progress bar; by default when it takes longer than a moment.
        options: options of the method. `at` says where relevance is read: "word", "embedding" or "position" of the
            input; or inside the model, "layers", "heads", "attentions", "neurons", "mlps", "experts", the name of a
            module, or a list of these, which gives an `Inside`.
    """
    check("on_error", on_error, Literal["raise", "skip"], "explain")
    check("batch_tokens", batch_tokens, Count | None, "explain")
    size_of(memory)
    check("special_tokens", special_tokens, bool, "explain")
    check("truncate", truncate, bool, "explain")
    check("rows", rows, Rows, "explain")
    adapter = load(model)
    at = options.pop("at") if _is_inside(options.get("at")) else None
    chosen = as_method(method, **options)
    places = () if at is None else places_in(adapter, chosen, at)
    if at is not None:
        _only_places(at, by=by, rows=rows, hops=hops, on_token=on_token, special_tokens=special_tokens, memory=memory)
    encoding = encoding_of(adapter, truncate, continuation, generate)
    if on_token is not None:
        if generate is None or not isinstance(adapter, CausalLM):
            raise InputError("on_token= is told of tokens that a language model writes: pass generate= as well")
        if target is not None or rows != "token" or hops != 0:
            raise InputError("on_token= is told of single tokens: leave target=, rows= and hops= out")
        stream = partial(streamed, adapter, chosen, generate=encoding.pop("generate"), on_token=on_token, memory=memory)
    with showing(progress):
        table = adapter.kind == "module" and text is None and is_frame(settled(inputs))  # its columns are the features
        found, single = adapter.attempt(settled(inputs) if table else column(inputs, text), **encoding)
    failed = {n: e for n, e in enumerate(found) if not isinstance(e, Example)}
    if failed and (single or on_error == "raise"):
        n, error = next(iter(failed.items()))
        raise error if single else error.of_input(n) from None
    choices = _choices(target, len(found))
    good = [n for n in range(len(found)) if n not in failed]
    examples = [e for e in found if isinstance(e, Example)]
    aimed = [choices[n] for n in good]
    apart = on_error == "skip" and not single
    traces = (continuation is not None or generate is not None) and target is None and hops == 0 and not places
    if rows != "token" and not traces:
        raise InputError("rows= are those of a trace: pass generate= or continuation=, without target= and hops=")
    if traces and not special_tokens:
        raise InputError(
            "a trace has all its tokens: leave special_tokens= out, and use trace.span(…).without_special()"
        )
    made: list[Any]
    if places:
        assert isinstance(chosen, Propagate)
        read = partial(inside_of, adapter, chosen, places=places)
        made = _one_by_one(adapter, lambda e, t: read(*adapter.aim(e, t)), examples, aimed, apart)
    elif hops != 0:
        made = _one_by_one(
            adapter, lambda e, t: hopped(adapter, chosen, e, t, hops, memory=memory), examples, aimed, apart
        )
    elif on_token is not None:
        made = _one_by_one(adapter, lambda e, _: stream(e), examples, aimed, apart)
    elif traces:
        draw = partial(traced, adapter, chosen, rows=rows, memory=memory, progress=progress)
        made = _one_by_one(adapter, lambda e, _: draw(e), examples, aimed, apart)
    else:
        made = list(explain_examples(
            adapter, chosen, examples, aimed, batch_tokens=batch_tokens, memory=memory, progress=progress, apart=apart
        ))  # fmt: skip
    results: list[Explanation | Trace | Inside | None] = [None] * len(found)
    for n, result in zip(good, made, strict=True):
        try:
            if isinstance(result, Exception):
                raise result
            if isinstance(result, Inside):
                results[n] = replace(result, inputs=renamed(result.inputs, method))
            elif isinstance(result, Trace):
                results[n] = replace(result, whole=renamed(result.whole, method)).by(by)
            else:
                named = renamed(result, method)
                results[n] = (named if special_tokens else named.without_special()).by(by)
        except WhenceError as error:
            if not apart:
                raise error if single else error.of_input(n) from None
            failed[n] = error
    if failed:
        lines = "; ".join(f"input {n}: {error}" for n, error in sorted(failed.items())[:5])
        more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
        warnings.warn(f"{len(failed)} of {len(found)} inputs skipped. {lines}{more}", SkippedWarning, stacklevel=2)
    return results[0] if single else Several(results)


def _is_inside(at: Any) -> bool:
    """Whether `at` names places inside the model rather than those of its input."""
    return at is not None and at not in get_args(At)


def _only_places(at: Any, **others: Any) -> None:
    """An error for what has no meaning inside a model."""
    plain = {"by": "token", "rows": "token", "hops": 0, "on_token": None, "special_tokens": True}
    for name, value in plain.items():
        if others[name] != value:
            raise InputError(
                f"at={at!r} reads the inside of a model, token by token: leave {name}= out; "
                "`.inputs` is an ordinary explanation, with by(…) and without_special()"
            )
    if others["memory"] not in ("auto", "keep"):
        raise InputError(f"at={at!r} holds all that it looks at: leave memory= out")


def _one_by_one(
    model: AbstractAdapter,
    work: Callable[[Example, Any], Any],
    examples: Sequence[Example],
    targets: Sequence[Any],
    apart: bool,
) -> list[Any]:
    """Each example by itself; with `apart`, an error in the place of what failed."""
    made: list[Any] = []
    for example, target in zip(examples, targets, strict=True):
        try:
            with in_words(model, example):
                made.append(work(example, target))
        except WhenceError as error:
            if not apart:
                raise
            made.append(error)
    return made


def encoding_of(
    adapter: AbstractAdapter, truncate: bool, continuation: Continuation | None, generate: Generate | None
) -> dict[str, Any]:
    generate = checked_generate(generate)
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
