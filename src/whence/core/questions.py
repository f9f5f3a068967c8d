"""What a model asks of its tensors while a pass is recorded.

Nobody can wait for a device whose kernels are being recorded, and so nobody can ask what a tensor holds
(`if mask.all():`). Models look whether they are recorded and then take the longer way: transformers writes masks down
that hide nothing, and attention with a mask is slower, for long causal inputs several times.

Often the answer follows from shapes alone, which are those of the recording: positions made by `arange` are in one
piece, whatever the input. A tensor made of sizes, by functions that look at nothing else, is *settled*. Where a model
asked of settled tensors alone when the pass was rehearsed, its questions are answered from there, and it is not told
that it is recorded. What was asked of any other tensor depends on the input: such a model is recorded as it goes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from whence.core.call import tensors_in
from whence.core.naming import name_of

__all__ = ["Questions"]

SETTLED = "_whence_settled"
OF_SHAPES = frozenset(
    "dim element_size get get_device hash is_complex is_contiguous is_floating_point is_inference is_pinned "
    "is_same_size is_signed is_tensor len ndimension nelement numel set size storage_offset stride type".split()
)
"""Functions that say how a tensor lies in memory, and nothing of what it holds."""
WAITS = frozenset("argwhere bincount cpu data_ptr masked_select nonzero unique unique_consecutive".split())
"""Functions that have Python wait: they give tensors of a size that a tensor decides, or in another place. And a kernel
that is told where a tensor lies may write there, unseen."""
MADE_OF_SIZES = frozenset("arange eye full linspace ones tril_indices triu_indices zeros".split())
LIKE = frozenset("full_like new_full new_ones new_zeros ones_like zeros_like".split())
"""These look at the size of their first tensor, and not at what it holds."""
RANDOM = frozenset(
    "bernoulli exponential multinomial normal poisson rand_like randint_like randn_like random uniform".split()
)

Asked = Callable[[Any, bool], tuple[Any] | None]
"""A function that is called, and whether all its tensors are settled, to what it shall say."""
Said = Callable[[Any, bool, Any], None]
"""The same, and what it said."""


class Questions:
    """Hears what is asked in a rehearsal, and answers when the same is asked again."""

    def __init__(self) -> None:
        self.answers: list[tuple[Any, Any]] = []
        """The functions that were asked, and what they said."""
        self.open = False
        """Whether something was asked whose answer is the input's."""

    @contextmanager
    def heard(self) -> Iterator[None]:
        self.answers, self.open = [], False

        def note(function: Any, settled: bool, said: Any) -> None:
            self.open = self.open or not settled
            self.answers.append((function, said))

        with _Listening(lambda function, settled: None, note):
            yield

    @contextmanager
    def answered(self) -> Iterator[None]:
        """The same again; where nothing was asked of inputs, from the answers of before and without being noticed."""
        if self.open:
            yield
            return
        left = list(reversed(self.answers))

        def answer(function: Any, settled: bool) -> tuple[Any] | None:
            return (left.pop()[1],) if settled and left and left[-1][0] == function else None

        with unnoticed, _Listening(answer, lambda function, settled, said: None):
            yield


class _Listening(TorchFunctionMode):
    """Follows settled tensors; asks what a function shall say, and tells what it said."""

    def __init__(self, asked: Asked, said: Said):
        super().__init__()
        self.asked, self.said = asked, said

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func).name
        held = list(tensors_in(args, kwargs))
        settled = all(hasattr(t, SETTLED) for t in held[name in LIKE :])
        answer = self.asked(func, settled) if held else None
        if answer is not None:
            return answer[0]
        written = [] if settled else [(t, t._version) for t in held if hasattr(t, SETTLED)]
        out = func(*args, **kwargs)
        if written and (name == "set" or any(t._version != before for t, before in written)):
            self.said(func, False, None)  # what one tensor holds may be seen through another: from here on nobody knows
        if held and (name in WAITS or (_in_python(out) and name not in OF_SHAPES)):
            self.said(func, settled and name not in WAITS, out)
        elif settled and name not in RANDOM and (held or name in MADE_OF_SIZES):
            for made in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(made, Tensor) and not made.is_inference():  # nobody counts how often those are written
                    setattr(made, SETTLED, True)
        return out


def _in_python(out: Any) -> bool:
    if isinstance(out, list):
        return not any(isinstance(o, Tensor) for o in out)
    return isinstance(out, (bool, int, float, complex, str, bytes, np.ndarray))


class _Unnoticed:
    """While it lasts, torch says in this thread that nothing is recorded. One replacement for all threads."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.original: Callable[[], bool] | None = None
        self.here = threading.local()

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                self.original = torch.cuda.is_current_stream_capturing
                torch.cuda.is_current_stream_capturing = self._asked
            self.users += 1
        self.here.depth = getattr(self.here, "depth", 0) + 1

    def __exit__(self, *error: object) -> None:
        self.here.depth -= 1
        with self.lock:
            self.users -= 1
            if self.users == 0 and self.original is not None:
                torch.cuda.is_current_stream_capturing = self.original

    def _asked(self) -> bool:
        original = self.original
        return not getattr(self.here, "depth", 0) and original is not None and original()


unnoticed = _Unnoticed()
