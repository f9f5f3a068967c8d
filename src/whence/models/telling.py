"""Models that read in an encoder and write in a decoder: from a text, or from something that is no text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from whence.core.batch import Source
from whence.errors import EmptyInputError, InputError, InputTooLongError
from whence.models.encoded import EncodedRow
from whence.models.example import Example
from whence.models.generating import Continuation, Generate, writing_options
from whence.models.targets import AbstractTarget
from whence.models.text import IDS
from whence.models.word_targets import Next, Span
from whence.models.writing import LanguageModel

__all__ = ["DECODER", "Seq2SeqLM", "Telling"]

ENCODER = replace(IDS, side="source")
DECODER = Source("decoder_input_ids", "token", "decoder", "decoder_attention_mask", begins=True)


class Seq2SeqLM(LanguageModel):
    """A source text and a target text that is given or generated. Tokens of both are explained."""

    task = "text2text-generation"
    writes = True

    @property
    def sources(self) -> tuple[Source, ...]:
        return (ENCODER, DECODER)

    @property
    def follows(self) -> str | None:
        return DECODER.name

    def goes_with(self, name: str, sources: Sequence[Source]) -> Source:
        return DECODER if name.startswith("decoder_") else ENCODER

    def default_target(self, example: Example) -> AbstractTarget:
        return Span() if example.written else Next()

    def needs_weights(self, options: Mapping[str, Any]) -> bool:
        return options.get("continuation") is None

    def _from_row(self, row: EncodedRow) -> Example:
        self._check_all_is_text(row)
        if "labels" in row.inputs:
            raise InputError(f"'labels' are for training: pass {DECODER.name!r}, or continuation='…', in their place")
        inputs = {DECODER.name: torch.tensor([self._start()]), **row.inputs}
        parts = (self._features(ENCODER, inputs, "source"), self._features(DECODER, inputs, "decoder"))
        return Example(inputs, parts, shared=row.shared, rows=(parts[1].count - 1,))

    def encode_one(
        self,
        item: Any,
        *,
        truncate: bool = False,
        continuation: Continuation | None = None,
        generate: Generate | None = None,
    ) -> Example:
        source = super().encode_one(item, truncate=truncate)
        if isinstance(item, EncodedRow):
            if continuation is None and generate is None:
                return source
            if DECODER.name in item.inputs:
                raise InputError(f"pass either {DECODER.name!r} or continuation= and generate=, not both")
        if continuation is not None:
            chosen = self._target_ids(continuation) if isinstance(continuation, str) else self.given_ids(continuation)
        else:
            chosen = self._generated(source, 32 if generate is None else generate)
        if not chosen:
            raise EmptyInputError("the model generated nothing; pass continuation='…' to explain")
        row = {**source.inputs, DECODER.name: torch.tensor([self._start(), *chosen[:-1]])}
        own = source.parts[0]
        parts = (
            replace(own, sides=("source",) * own.count),
            replace(self._features(DECODER, row, "decoder"), offsets=(), word_ids=()),
        )
        return replace(source, inputs=row, parts=parts, rows=tuple(range(len(chosen))), written=tuple(chosen))

    def _target_ids(self, text: str) -> list[int]:
        return list(self._reader(text_target=text)["input_ids"])

    def _generated(self, source: Example, generate: Generate) -> list[int]:
        with writing_options(generate, self.tokenizer) as options, self.counted():
            ids = source.inputs[IDS.name][None].to(self.device)
            out = self.generator.generate(input_ids=ids, attention_mask=self._mask(source.inputs, ids), **options)
        return [int(i) for i in out[0, 1:]]

    def _start(self) -> int:
        config, generation = self.config, getattr(self.module, "generation_config", None)
        for holder in (generation, config):
            for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
                if (found := getattr(holder, name, None)) is not None:
                    return int(found)
        return 0


class Telling(Seq2SeqLM):
    """Writes about something that is no text: a sound, a picture. That and what is written are explained together."""

    def perceived(self, item: Any, truncate: bool = False) -> Example:
        """What it is about, as an example of one part whose features have names."""
        raise NotImplementedError

    @property
    def sources(self) -> tuple[Source, ...]:
        return (DECODER,)

    def goes_with(self, name: str, sources: Sequence[Source]) -> Source:
        return DECODER if name.startswith("decoder_") else sources[0]

    @property
    def attends_across(self) -> bool:
        return True

    def encode_one(
        self,
        item: Any,
        *,
        truncate: bool = False,
        continuation: Continuation | None = None,
        generate: Generate | None = None,
    ) -> Example:
        seen = self.perceived(item, truncate)
        given = seen.inputs.get(DECODER.name)
        if given is not None and continuation is None and generate is None:
            return self._told(seen, given.tolist(), len(given), ())
        start = self._prefix()
        room = self._longest - len(start)
        if continuation is not None:
            chosen = self._plain_ids(continuation) if isinstance(continuation, str) else self.given_ids(continuation)
        else:
            chosen = self._generated_after(seen, start, min(64, room) if generate is None else generate)
        if len(chosen) > room:
            raise InputTooLongError(
                f"{len(chosen)} tokens are written, and the model writes at most {room}: shorten it"
            )
        if not chosen:
            raise EmptyInputError("the model wrote nothing; pass continuation='…' to explain")
        return self._told(seen, [*start, *chosen[:-1]], len(start), tuple(chosen))

    @property
    def _longest(self) -> int:
        """How many tokens the decoder takes."""
        holders = (self.config, getattr(self.config, "decoder", None), getattr(self.config, "text_config", None))
        names = ("max_target_positions", "max_position_embeddings", "n_positions")
        found = [getattr(holder, name, None) for holder in holders for name in names]
        return min([n for n in found if isinstance(n, int) and n > 0], default=10**9)

    def _told(self, seen: Example, ids: list[int], start: int, chosen: tuple[int, ...]) -> Example:
        row = {**seen.inputs, DECODER.name: torch.tensor(ids)}
        decoder = replace(self._features(DECODER, row, "decoder"), offsets=(), word_ids=())
        rows = tuple(range(start - 1, start - 1 + max(1, len(chosen))))
        return replace(seen, inputs=row, parts=(*seen.parts, decoder), rows=rows, written=chosen)

    def _prefix(self) -> list[int]:
        """What stands before the text: where it starts, and what the tokenizer puts there (language, task)."""
        start, known = self._start(), list(getattr(self.tokenizer, "prefix_tokens", None) or ())
        return known if known[:1] == [start] else [start]

    def _generated_after(self, seen: Example, start: list[int], generate: Generate) -> list[int]:
        from transformers import GenerationMixin

        given: dict[str, Any] = {k: self.placed(k, v[None]) for k, v in seen.inputs.items() if k != DECODER.name}
        begun = torch.tensor([start], device=self.device)
        with writing_options(generate, self.tokenizer) as options, self.counted():
            # not Whisper's own: it looks at a sound in pieces, and keeps to itself how it began
            out = GenerationMixin.generate(self.generator, **given, decoder_input_ids=begun, **options)
        chosen = [int(i) for i in out[0, len(start) :]]
        ends = getattr(getattr(self.module, "generation_config", None), "eos_token_id", None)
        ends = set(ends) if isinstance(ends, (list, tuple)) else {ends}
        stop = next((n for n, i in enumerate(chosen) if i in ends), len(chosen))
        return chosen[:stop]

    def untold(self, example: Example, keep: np.ndarray, fill: str) -> Example:
        """`example` with written tokens replaced."""
        gone = np.flatnonzero(~np.asarray(keep, dtype=bool))
        return self._without(example, example.parts[-1], gone, fill) if len(gone) else example
