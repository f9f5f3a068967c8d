"""Models whose outputs are words: masked and causal language models, encoder-decoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whence import cancel
from whence.core.batch import Source
from whence.errors import EmptyInputError, InputError
from whence.models.encoded import EncodedRow
from whence.models.example import Example, Features
from whence.models.targets import AbstractTarget, Class, Contrast, Next, Span
from whence.models.text import IDS, TextAdapter
from whence.models.tokens import spans_of, special_in, spell_tokens

__all__ = ["CausalLM", "MaskedLM", "Seq2SeqLM"]

ANCHORS = ("\n", ".", "a", "x")
"""What a continuation is tokenized behind where its prompt can't be seen: it must not be taken for a first word."""
ENCODER = replace(IDS, side="source")
DECODER = Source("decoder_input_ids", "token", "decoder", "decoder_attention_mask")


def _still_wanted(ids: Tensor, scores: Any, **options: Any) -> Tensor:
    """Asked by `generate` after every token whether to end: never, unless the work was cancelled."""
    cancel.check()
    return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)


class _LanguageModel(TextAdapter):
    """Outputs are tokens of the vocabulary, at every token."""

    speaks = True

    @property
    def follows(self) -> str | None:
        return IDS.name

    def default_target(self, example: Example) -> AbstractTarget:
        return Span() if example.written else Next()

    def spell(self, index: int) -> str:
        return spell_tokens(self.tokenizer, [index])[0] if self.tokenizer is not None else f"token {index}"

    def read(self, ids: Sequence[int]) -> str:
        if self.tokenizer is None:
            return " ".join(map(self.spell, ids))
        together = str(self.tokenizer.decode(list(ids)))  # several tokens may be one character
        begins_word = self.spell(ids[0]).startswith(" ") and not together.startswith(" ")
        return f" {together}" if begins_word else together

    def find(self, label: str) -> int:
        ids = self.ids_of(label)
        if len(ids) == 1:
            return ids[0]
        pieces = list(spell_tokens(self.tokenizer, ids))
        raise InputError(
            f"{label!r} is {len(ids)} tokens, not one: {pieces}. Explain the first, {pieces[:1]}, by its id {ids[:1]}; "
            f"or all of them: explain(…, continuation={label!r}, target=whence.span())"
        )

    def ids_of(self, text: str, before: str | None = None) -> list[int]:
        """The tokens of a text that goes on after `before`; alone, as it would stand in the middle of a text."""
        if self.tokenizer is None:
            raise InputError(f"no tokenizer to look up the token {text!r}; pass its id")
        for start in (*([before] if before else []), *ANCHORS):
            known, whole = self._plain_ids(start), self._plain_ids(start + text)
            if whole[: len(known)] == known and len(whole) > len(known):
                return whole[len(known) :]
        return self._plain_ids(text)

    def _plain_ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _mask(self, example: Example, ids: Tensor) -> Tensor:
        mask = example.inputs.get(IDS.mask or "")
        return torch.ones_like(ids) if mask is None else mask[None].to(ids.device)

    @property
    def generator(self) -> Any:
        if not hasattr(self.module, "generate"):
            raise InputError("this model can't generate text; pass continuation='…'")
        return self.module


class MaskedLM(_LanguageModel):
    """Explains what the model fills in for its mask tokens, all of them together."""

    task = "fill-mask"

    def read(self, ids: Sequence[int]) -> str:
        return " … ".join(map(self.spell, ids))

    def ids_of(self, text: str, before: str | None = None) -> list[int]:
        if self.tokenizer is None:
            raise InputError(f"no tokenizer to look up the token {text!r}; pass its id")
        return self._plain_ids(text)

    def encode_one(self, item: Any, **options: Any) -> Example:
        return self._at_masks(super().encode_one(item, **options))

    def _at_masks(self, example: Example) -> Example:
        mask = getattr(self.tokenizer, "mask_token_id", None)
        part = example.parts[0]
        ids = example.inputs[IDS.name].tolist()
        shown = ids if part.places is None else [ids[p] for p in part.places]
        rows = tuple(n for n, i in enumerate(shown) if i == mask)
        if mask is None:
            raise InputError(
                "this model came without a tokenizer, so its mask token is not known: pass target=function"
            )
        if not rows:
            name = getattr(self.tokenizer, "mask_token", "[MASK]")
            raise InputError(f"put the model's mask token {name!r} where it should predict a word")
        return replace(example, rows=rows)


class CausalLM(_LanguageModel):
    """A prompt, with a continuation that is given, generated, or not there (then: the next token)."""

    task = "text-generation"
    writes = True

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        return ([inputs], True) if _is_chat(inputs) else super().split(inputs)

    def encode_one(
        self,
        item: Any,
        *,
        truncate: bool = False,
        continuation: str | None = None,
        generate: int | None = None,
    ) -> Example:
        if _is_chat(item):
            item = self._reader.apply_chat_template(item, tokenize=False, add_generation_prompt=True)
            prompt = self._tokenized([item], False, truncate, add_special_tokens=False)  # the template has them
        else:
            prompt = super().encode_one(item, truncate=truncate)
        prompt = replace(prompt, rows=(prompt.count - 1,))
        if continuation is not None:
            return self.continued(prompt, continuation)
        if generate:
            return self._with_written(prompt, self._generated(prompt, generate))
        return prompt

    def aim(self, example: Example, choice: Any) -> tuple[Example, AbstractTarget]:
        """A word of several tokens is written into the input up to the token that decides, and explained there."""
        if isinstance(choice, str) and not example.written:
            ids = self.ids_of(choice, self._before(example))
            if len(ids) == 1:
                return example, Class(ids[0])
            return self._with_written(example, ids), Span(against_runner_up=False)
        words = isinstance(choice, Contrast) and (isinstance(choice.this, str) or isinstance(choice.that, str))
        if words and not example.written:
            this, that = (self._ids(example, word) for word in (choice.this, choice.that))
            common = next((n for n, (a, b) in enumerate(zip(this, that, strict=False)) if a != b), None)
            if common is None:
                raise InputError(
                    f"{choice.this!r} and {choice.that!r} do not differ in any token that both have: nothing decides "
                    "between them"
                )
            made = self._with_written(example, this[: common + 1]) if common else example
            return replace(made, rows=made.rows[-1:], written=()), Contrast(this[common], that[common])
        return super().aim(example, choice)

    def _ids(self, example: Example, word: int | str) -> list[int]:
        return [word] if isinstance(word, int) else self.ids_of(word, self._before(example))

    def _before(self, example: Example) -> str | None:
        """The text that goes before what is written, where it is known."""
        return example.text

    def continued(self, prompt: Example, text: str) -> Example:
        """The prompt with `text` written behind it. Both are tokenized as one."""
        ids = self.ids_of(text, self._before(prompt))
        if not ids:
            raise EmptyInputError("the continuation is empty: there is nothing to explain")
        return self._with_written(_open_ended(prompt), ids, text)

    def _with_written(self, prompt: Example, ids: Sequence[int], text: str | None = None) -> Example:
        """Ids behind a prompt. The last of them predicts nothing that is explained, so it is not an input."""
        if not ids:
            raise EmptyInputError("the model generated nothing; pass continuation='…' to explain")
        part = prompt.parts[0]
        more = list(ids[:-1])
        end = part.count if part.places is None else part.places[-1] + 1  # what follows is padding
        row = {k: v[:end] if v.shape[:1] == prompt.inputs[IDS.name].shape else v for k, v in prompt.inputs.items()}
        old = row[IDS.name]
        row = {k: _longer(k, v, more) if v.shape == old.shape else v for k, v in row.items()}
        names, offsets = self._spelled(prompt, ids, text)
        length, total = part.count, part.count + len(more)
        features = Features(
            part.source,
            (total,),
            part.names + names,
            offsets=part.offsets + offsets if part.offsets and offsets else (),
            word_ids=(),
            special=part.special + special_in(self.tokenizer, more),
            sides=("prompt",) * length + ("continuation",) * len(more),
            places=None if part.places is None else part.places + tuple(range(len(old), len(old) + len(more))),
        )
        return replace(
            prompt,
            inputs=row,
            parts=(features,),
            text=prompt.text if text is None or prompt.text is None else prompt.text + text,
            rows=tuple(range(length - 1, length - 1 + len(ids))),
            written=tuple(int(i) for i in ids),
        )

    def _spelled(
        self, prompt: Example, ids: Sequence[int], text: str | None
    ) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
        """The tokens of a continuation that are inputs, as they read, and where they stand in the whole text."""
        pieces = spell_tokens(self.tokenizer, ids[:-1])
        if text is None or prompt.text is None or not getattr(self.tokenizer, "is_fast", False):
            return pieces, ()
        encoding = self.tokenizer(prompt.text + text, add_special_tokens=False, verbose=False)
        if list(encoding["input_ids"][-len(ids) :]) != list(ids):
            return pieces, ()
        spans = spans_of(self.tokenizer, encoding, [prompt.text + text])
        own = slice(len(spans["names"]) - len(ids), len(spans["names"]) - 1)
        return spans["names"][own], spans["offsets"][own]

    def _generated(self, prompt: Example, count: int) -> list[int]:
        with torch.no_grad():
            start = prompt.inputs[IDS.name][None].to(self.device)
            out = self.generator.generate(
                start, attention_mask=self._mask(prompt, start), max_new_tokens=count, do_sample=False,
                pad_token_id=self.fill()[IDS.name], stopping_criteria=[_still_wanted],
            )  # fmt: skip
        return [int(i) for i in out[0, start.shape[1] :]]


def _longer(name: str, value: Tensor, ids: list[int]) -> Tensor:
    """An input of a prompt that has a number for each token, for more tokens behind it."""
    if name == IDS.name:
        more = value.new_tensor(ids)
    elif name == "position_ids":
        more = value[-1] + torch.arange(1, len(ids) + 1, dtype=value.dtype)
    else:  # a mask, a type
        more = value[-1:].expand(len(ids))
    return torch.cat([value, more])


def _open_ended(prompt: Example) -> Example:
    """The prompt without special tokens that its tokenizer put at its end: the text goes on."""
    part = prompt.parts[0]
    count = part.count
    while part.offsets and count > 1 and part.special[count - 1] and part.offsets[count - 1] == (0, 0):
        count -= 1
    if count == part.count:
        return prompt
    cut = replace(
        part, shape=(count,), names=part.names[:count], offsets=part.offsets[:count], word_ids=part.word_ids[:count],
        special=part.special[:count], sides=part.sides[:count],
    )  # fmt: skip
    inputs = {k: v[:count] for k, v in prompt.inputs.items()}
    return replace(prompt, inputs=inputs, parts=(cut,), rows=(count - 1,))


def _is_chat(item: Any) -> bool:
    return isinstance(item, list) and bool(item) and all(isinstance(m, Mapping) and "role" in m for m in item)


class Seq2SeqLM(_LanguageModel):
    """A source text and a target text that is given or generated. Tokens of both are explained."""

    task = "text2text-generation"
    writes = True

    @property
    def sources(self) -> tuple[Source, ...]:
        return (ENCODER, DECODER)

    @property
    def follows(self) -> str | None:
        return DECODER.name

    def side_of(self, name: str) -> str:
        return DECODER.side if name.startswith("decoder_") else ENCODER.side

    def default_target(self, example: Example) -> AbstractTarget:
        return Span() if example.written else Next()

    def needs_weights(self, options: Mapping[str, Any]) -> bool:
        return options.get("continuation") is None

    def _from_row(self, row: EncodedRow) -> Example:
        inputs = {DECODER.name: torch.tensor([self._start()]), **row.inputs}
        parts = (self._features(ENCODER, inputs, "source"), self._features(DECODER, inputs, "decoder"))
        return Example(inputs, parts, shared=row.shared, rows=(parts[1].count - 1,))

    def encode_one(
        self,
        item: Any,
        *,
        truncate: bool = False,
        continuation: str | None = None,
        generate: int | None = None,
    ) -> Example:
        source = super().encode_one(item, truncate=truncate)
        if isinstance(item, EncodedRow):
            if continuation is None and generate is None:
                return source
            if DECODER.name in item.inputs:
                raise InputError(f"pass either {DECODER.name!r} or continuation= and generate=, not both")
        if continuation is not None:
            chosen = list(self.tokenizer(text_target=continuation)["input_ids"])
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

    def _generated(self, source: Example, count: int) -> list[int]:
        with torch.no_grad():
            ids = source.inputs[IDS.name][None].to(self.device)
            out = self.generator.generate(
                ids, attention_mask=self._mask(source, ids), max_new_tokens=count, do_sample=False, num_beams=1,
                stopping_criteria=[_still_wanted],
            )  # fmt: skip
        return [int(i) for i in out[0, 1:]]

    def _start(self) -> int:
        config, generation = self.config, getattr(self.module, "generation_config", None)
        for holder in (generation, config):
            for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
                if (found := getattr(holder, name, None)) is not None:
                    return int(found)
        return 0
