"""A trace while the model writes: each token is explained, and told of, before the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whence.core.memory import Memory
from whence.errors import EmptyInputError, InputError, WhenceError
from whence.methods.explaining import explain_examples
from whence.methods.method import AbstractMethod
from whence.methods.tracing import place_of
from whence.models.example import Example
from whence.models.generating import Generate
from whence.models.tokens import PARTIAL
from whence.models.word_targets import Span
from whence.models.writing import CausalLM
from whence.results import Explanation, Trace

__all__ = ["streamed"]


def streamed(
    model: CausalLM,
    method: AbstractMethod,
    prompt: Example,
    generate: Generate,
    on_token: Callable[[str, Explanation], Any],
    *,
    memory: Memory = "auto",
) -> Trace:
    """`traced` while the model writes: each token is explained, and told of, before the next one is written."""
    listener = _Listener(model, method, prompt, on_token, memory)
    given = {"max_new_tokens": generate} if isinstance(generate, int) else generate
    if given.get("num_beams", 1) != 1:
        raise InputError("with several beams nobody knows what is written before the end: leave on_token= out")
    try:
        model.write(prompt, {**given, "streamer": listener})
    except Exception as error:  # of `generate`: an option that it has not, a text that is too long
        if listener.busy or isinstance(error, WhenceError):
            raise
        raise InputError(f"the model can't write this: {type(error).__name__}: {error}") from error
    if not listener.rows:
        raise EmptyInputError("the model generated nothing; pass continuation='…' to explain")
    example = model.with_written(prompt, listener.ids)
    end = example.slices()[0].stop
    rows = []
    for row in listener.rows:
        missing = example.count - len(row)
        scores = np.insert(row.scores.reshape(-1), end - missing, np.zeros(missing))
        rows.append(model.explanation(example, scores=scores, **_apart_from_features(row)))
    count = len(example.written)
    places = [place_of(model, example, n, n + 1) for n in range(count)]
    return Trace.of(rows, model.pieces_written(example), places, example.written)


def _apart_from_features(row: Explanation) -> dict[str, Any]:
    names = ("target", "target_score", "method", "options", "prediction", "conservation", "class_specific", "stamp")
    return {name: getattr(row, name) for name in names}


class _Listener:
    """What `generate` calls a streamer: it is told the prompt, and then every token."""

    def __init__(
        self,
        model: CausalLM,
        method: AbstractMethod,
        prompt: Example,
        on_token: Callable[[str, Explanation], Any],
        memory: Memory,
    ):
        self.model, self.method, self.prompt, self.on_token, self.memory = model, method, prompt, on_token, memory
        self.ids: list[int] = []
        self.rows: list[Explanation] = []
        self.busy = False
        """Whether a token is explained, or told of."""
        self._begun = False
        self._told = 0

    def put(self, value: Any) -> None:
        if not self._begun:
            self._begun = True
            return
        self.busy = True
        for i in value.reshape(-1).tolist():
            self.ids.append(int(i))
            example = self.model.with_written(self.prompt, self.ids)
            number = len(self.ids) - 1
            (row,) = explain_examples(
                self.model, self.method, [example], [Span(number, number + 1)], memory=self.memory
            )
            assert isinstance(row, Explanation)  # an error was raised
            self.rows.append(row)
            self.on_token(self._news("".join(self.model.pieces_written(example))), row)
        self.busy = False

    def _news(self, text: str) -> str:
        """What nobody was told of. A character of several tokens is told with the last of them."""
        begin, self._told = self._told, max(self._told, len(text.rstrip(PARTIAL)))
        return text[begin : self._told]

    def end(self) -> None:
        """Nothing is left to be told."""
