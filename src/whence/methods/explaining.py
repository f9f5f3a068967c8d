"""The one room in which examples are explained: what is a method, which examples stand together, in which order.

`explain`, `evaluate`, `diagnose`, `tune` and `run` all come here.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from whence.core.layout import CannotSplit
from whence.core.memory import CannotRunAgain, Memory, current, planned
from whence.core.recipe import Recipe
from whence.errors import InputError, WhenceError
from whence.methods.method import AbstractMethod, class_of, methods
from whence.methods.propagate import Propagate
from whence.models.adapter import AbstractAdapter
from whence.models.attending import in_the_open
from whence.models.batching import batches, budget_of
from whence.models.example import Example
from whence.models.refusing import refused
from whence.models.targets import AbstractTarget, Custom
from whence.options import build
from whence.progress import track
from whence.results import Explanation

__all__ = ["as_method", "explain_examples", "renamed"]

T = TypeVar("T")
R = TypeVar("R")


def as_method(method: Any, **options: Any) -> AbstractMethod:
    """A method from its name, a recipe, the path of a saved recipe, or itself, with options."""
    if isinstance(method, AbstractMethod):
        if options:
            raise InputError(f"pass options to the method itself, {type(method).__name__}({', '.join(options)}=…)")
        return method
    if isinstance(method, Path) or (isinstance(method, str) and method.endswith(".json")):
        method = Recipe.load(method)
    known = [
        f.name for f in fields(Propagate if isinstance(method, Recipe) else class_of(method)) if f.name != "recipe"
    ]
    if isinstance(method, Recipe):
        made = build(lambda **chosen: Propagate(recipe=method, **chosen), f"recipe {method.name!r}", options, known)
    else:
        made = build(methods[method], f"method {method!r}", options, known)
    assert isinstance(made, AbstractMethod)
    return made


def explain_examples(
    model: AbstractAdapter,
    method: AbstractMethod,
    examples: Sequence[Example],
    choices: Sequence[Any] | None = None,
    *,
    batch_tokens: int | None = None,
    memory: Memory = "auto",
    progress: bool | None = False,
    apart: bool = False,
    threads: int = 1,
    on_batch: Callable[[list[int], float], Any] = lambda indices, seconds: None,
) -> list[Explanation | Exception]:
    """Explanations in the order of the examples, computed in batches of about equal length.

    Arguments:
        choices: what the user passed as target for each example; None for the prediction.
        batch_tokens: tokens in a batch, padding included.
        memory: what the forward pass holds for the backward pass, see `core.memory`.
        apart: an example that fails has its error in its place; otherwise the first error is raised.
        threads: batches that are under way at one time.
        on_batch: told which examples were explained together and how long it took.
    """
    made: list[Explanation | Exception] = [RuntimeError("not explained")] * len(examples)
    aimed: list[tuple[Example, AbstractTarget] | None] = []
    for n, example in enumerate(examples):
        try:
            aimed.append(model.aim(example, None if choices is None else choices[n]))
        except WhenceError as error:
            if not apart:
                raise (error if len(examples) == 1 else error.of_input(n)) from None
            made[n] = error
            aimed.append(None)
    todo = [(n, *held) for n, held in enumerate(aimed) if held is not None]

    def explained(part: list[int]) -> tuple[list[Explanation | Exception], float]:
        begin = time.perf_counter()
        try:
            with planned(memory), in_the_open(model.module):  # also of blocks that run again in the backward pass
                found = _batch(model, method, [todo[i][1:] for i in part], apart=apart)
        except Exception as error:
            for n, example, _ in (todo[i] for i in part):
                said = refused(model, example, error)
                if isinstance(said, WhenceError) and said is not error:
                    raise (said if len(examples) == 1 else said.of_input(n)) from error
            raise
        found = [
            refused(model, todo[i][1], one) if isinstance(one, Exception) else one
            for i, one in zip(part, found, strict=True)
        ]
        return found, time.perf_counter() - begin

    parts = _parts(model, method, [e for _, e, _ in todo], [t for _, _, t in todo], batch_tokens)
    with closing(_side_by_side(explained, parts, threads)) as done:
        both = zip(parts, done, strict=True)
        for part, (found, seconds) in track(both, method.name, len(todo), map(len, parts), show=progress):
            for i, result in zip(part, found, strict=True):
                made[todo[i][0]] = result
            on_batch([todo[i][0] for i in part], seconds)
    return made


def _side_by_side(work: Callable[[T], R], parts: Sequence[T], threads: int) -> Generator[R, None, None]:
    """`work` of every part, in order: in one thread results are made while in another the device computes."""
    if threads == 1 or len(parts) == 1:
        yield from map(work, parts)
        return
    pool = ThreadPoolExecutor(threads, "whence-explain")
    try:
        waiting = [pool.submit(copy_context().run, work, part) for part in parts]
        for one in waiting:
            yield one.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _parts(
    model: AbstractAdapter,
    method: AbstractMethod,
    examples: list[Example],
    targets: list[AbstractTarget],
    batch_tokens: int | None,
) -> list[list[int]]:
    """Which examples stand together. A function as target sees no padding but the input's own."""
    groups: dict[int, list[int]] = {}
    for n, example in enumerate(examples):
        groups.setdefault(id(example), []).append(n)
    shared = [
        group
        for group in groups.values()
        if len(group) > 1
        and isinstance(method, Propagate)
        and method.shares(model, [examples[n] for n in group], [targets[n] for n in group])
    ]
    rest = sorted(set(range(len(examples))) - {n for group in shared for n in group})
    keys: list[Hashable] = [
        (id(t.function), examples[n].shape_key) if isinstance(t := targets[n], Custom) else None for n in rest
    ]
    budget = batch_tokens or budget_of(model.device, "explain")
    found = batches(model, [examples[n] for n in rest], budget, keys) if rest else ()
    return shared + [[rest[i] for i in part] for part in found]


def _batch(
    model: AbstractAdapter, method: AbstractMethod, aimed: list[tuple[Example, AbstractTarget]], *, apart: bool
) -> list[Explanation | Exception]:
    """One batch. If its rows can't be told apart, or it does not fit, or one of them fails: smaller ones."""
    size, next_plan = 0, current()
    try:
        return list(method.explain(model, [e for e, _ in aimed], [t for _, t in aimed]))
    except CannotSplit:
        if len(aimed) == 1:
            raise
        size = 1
    except CannotRunAgain:
        size, next_plan = len(aimed), "keep"
    except torch.OutOfMemoryError as error:
        model.recordings.clear()
        if len(aimed) == 1 and current() == "auto":  # the estimate was too high
            size, next_plan = 1, "recompute"
        elif len(aimed) == 1:
            if not apart:
                raise
            return [error]
        else:
            size = (len(aimed) + 1) // 2
    except Exception as error:
        if not apart:
            raise
        if len(aimed) == 1:
            return [error]
        size = 1
    # Out here nothing holds what the failed pass had computed: an exception holds its frames, and they their tensors.
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()
    chunks = [aimed[i : i + size] for i in range(0, len(aimed), size)]
    with planned(next_plan):
        return [result for chunk in chunks for result in _batch(model, method, chunk, apart=apart)]


def renamed(explanation: Explanation, asked: Any) -> Explanation:
    """An alias such as `lrp` keeps the name it was asked for by."""
    if not isinstance(asked, str) or asked not in methods or asked == explanation.method:
        return explanation
    return replace(explanation, method=asked, options={"recipe": explanation.method, **explanation.options})
