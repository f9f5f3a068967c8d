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
from whence.models.example import Example, ExampleBatch, Features
from whence.models.targets import AbstractTarget, Class, Contrast, Custom, Next, Span
from whence.models.text import IDS, TextAdapter
from whence.models.tokens import spans_of, special_in, spell_tokens

__all__ = ["CausalLM", "MaskedLM", "Seq2SeqLM", "is_chat"]

ANCHORS = ("\n", ".", "a", "x")
"""What a continuation is tokenized behind where its prompt can't be seen: it must not be taken for a first word."""
ENCODER = replace(IDS, side="source")
DECODER = Source("decoder_input_ids", "token", "decoder", "decoder_attention_mask", begins=True)


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
        return self._names([index])[0] if self.tokenizer is not None else f"token {index}"

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

    def ids_of(self, text: str) -> list[int]:
        """The tokens of a text as it would stand in the middle of another."""
        for start in ANCHORS:
            known, whole = self._plain_ids(start), self._plain_ids(start + text)
            if whole[: len(known)] == known and len(whole) > len(known):
                return whole[len(known) :]
        return self._plain_ids(text)

    def _plain_ids(self, text: str) -> list[int]:
        if self.tokenizer is None:
            raise InputError(f"this model came without a tokenizer, so {text!r} can't be read: pass ids")
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _mask(self, row: Mapping[str, Tensor], ids: Tensor) -> Tensor:
        mask = row.get(IDS.mask or "")
        return torch.ones_like(ids) if mask is None else mask[None].to(ids.device)

    def narrowed(self, batch: ExampleBatch, targets: Sequence[Any] | None) -> ExampleBatch:
        """Logits at the predicting tokens alone, where the model can do that: those of a long text are gigabytes."""
        name, follows = "logits_to_keep", self.follows
        if targets is None or name not in self._accepted or follows is None or follows != IDS.name:
            return batch
        if not all(getattr(t, "reads_rows", False) for t in targets) or not all(e.rows for e in batch.rows):
            return batch
        kept = sorted({batch.place(follows, n, row) for n, e in enumerate(batch.rows) for row in e.rows})
        places = torch.tensor(kept, device=self.device)
        return replace(batch, inputs={**batch.inputs, name: places}, kept=tuple(kept))

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

    def ids_of(self, text: str) -> list[int]:
        return self._plain_ids(text)

    def encode_one(self, item: Any, **options: Any) -> Example:
        example = super().encode_one(item, **options)
        part = example.parts[0]
        ids = example.inputs[IDS.name].tolist()
        shown = ids if part.places is None else [ids[p] for p in part.places]
        mask = getattr(self.tokenizer, "mask_token_id", None)
        return replace(example, rows=tuple(n for n, i in enumerate(shown) if mask is not None and i == mask))

    def aim(self, example: Example, choice: Any) -> tuple[Example, AbstractTarget]:
        aimed = super().aim(example, choice)
        if example.rows or isinstance(aimed[1], Custom):
            return aimed
        if self.tokenizer is None:
            raise InputError(
                "this model came without a tokenizer, so its mask token is not known. Pass target=lambda outputs: …"
            )
        raise InputError(
            f"put the model's mask token {self.blank!r} where it should predict a word, or pass "
            "target=lambda outputs: …"
        )


class CausalLM(_LanguageModel):
    """A prompt, with a continuation that is given, generated, or not there (then: the next token)."""

    task = "text-generation"
    writes = True

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        return ([inputs], True) if is_chat(inputs) else super().split(inputs)

    def encode_one(
        self,
        item: Any,
        *,
        truncate: bool = False,
        continuation: str | None = None,
        generate: int | None = None,
    ) -> Example:
        if is_chat(item):
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
            prompt, (ids,) = self._followed_by(example, choice)
            if len(ids) == 1:
                return prompt, Class(ids[0])
            return self._with_written(prompt, ids), Span(against_runner_up=False)
        words = isinstance(choice, Contrast) and (isinstance(choice.this, str) or isinstance(choice.that, str))
        if words and not example.written:
            example, (this, that) = self._followed_by(example, choice.this, choice.that)
            common = _common(this, that)
            if common == min(len(this), len(that)):
                raise InputError(
                    f"{choice.this!r} and {choice.that!r} do not differ in any token that both have: nothing decides "
                    "between them"
                )
            made = self._with_written(example, this[: common + 1]) if common else example
            return replace(made, rows=made.rows[-1:], written=()), Contrast(this[common], that[common])
        return super().aim(example, choice)

    def _followed_by(self, example: Example, *words: int | str) -> tuple[Example, list[list[int]]]:
        """The prompt, open at its end, and the tokens of what may follow it.

        Prompt and word are tokenized as one text. Where they grow together ("Once upon a " and "time"), the prompt ends
        before the token that both have a part in.
        """
        prompt = _open_ended(example)
        texts = [word for word in words if isinstance(word, str)]
        known = self._plain_ids(prompt.text) if prompt.text else []
        if not known or prompt.inputs[IDS.name].tolist()[-len(known) :] != known:  # encoded elsewhere, cut, padded
            return prompt, [[word] if isinstance(word, int) else self.ids_of(word) for word in words]
        whole = {word: self._plain_ids(f"{prompt.text}{word}") for word in texts}
        common = min([len(known), *(_common(known, ids) for ids in whole.values())])
        kept = prompt.count - len(known) + common
        if not kept:
            return prompt, [[word] if isinstance(word, int) else self.ids_of(word) for word in words]
        if common < len(known):
            prompt = _cut(prompt, kept)
        return prompt, [[word] if isinstance(word, int) else whole[word][common:] for word in words]

    def continued(self, prompt: Example, text: str) -> Example:
        """The prompt with `text` written behind it. Both are tokenized as one."""
        if not isinstance(text, str):
            raise InputError(f"continuation= is one text, not {type(text).__name__}: explain several one by one")
        whole = prompt.text
        prompt, (ids,) = self._followed_by(prompt, text)
        if not ids:
            raise EmptyInputError("the continuation is empty: there is nothing to explain")
        return self._with_written(prompt, ids, None if whole is None else whole + text)

    def _with_written(self, prompt: Example, ids: Sequence[int], whole: str | None = None) -> Example:
        """Ids behind a prompt. The last of them predicts nothing that is explained, so it is not an input.

        `whole` is the text of both, where it is known.
        """
        if not ids:
            raise EmptyInputError("the model generated nothing; pass continuation='…' to explain")
        part = prompt.parts[0]
        more = list(ids[:-1])
        row = _without_tail(prompt)
        old = row[IDS.name]
        row = {k: _longer(k, v, more) if v.shape == old.shape else v for k, v in row.items()}
        names, offsets, words = self._spelled(ids, whole)
        length, total = part.count, part.count + len(more)
        features = Features(
            part.source,
            (total,),
            part.names + names,
            offsets=part.offsets + offsets if part.offsets and offsets else (),
            word_ids=part.word_ids + words if part.word_ids and len(words) == len(more) else (),
            special=part.special + special_in(self.tokenizer, more),
            sides=("prompt",) * length + ("continuation",) * len(more),
            places=None if part.places is None else part.places + tuple(range(len(old), len(old) + len(more))),
        )
        return replace(
            prompt,
            inputs=row,
            parts=(features, *prompt.parts[1:]),
            text=prompt.text if whole is None else whole,
            rows=tuple(range(length - 1, length - 1 + len(ids))),
            written=tuple(int(i) for i in ids),
        )

    def _spelled(
        self, ids: Sequence[int], whole: str | None
    ) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...], tuple[int | None, ...]]:
        """The tokens of a continuation that are inputs: as they read, where they stand in the text, in which words."""
        pieces = self._names(ids[:-1])
        if whole is None or not getattr(self.tokenizer, "is_fast", False):
            return pieces, (), ()
        encoding = self.tokenizer(whole, add_special_tokens=False, verbose=False)
        if list(encoding["input_ids"][-len(ids) :]) != list(ids):
            return pieces, (), ()
        backend = encoding.encodings[0] if getattr(self.tokenizer, "is_fast", False) else None
        spans = spans_of(self.tokenizer, encoding["input_ids"], backend, [whole])
        own = slice(len(spans["names"]) - len(ids), len(spans["names"]) - 1)
        return spans["names"][own], spans["offsets"][own], spans["word_ids"][own]

    def _generated(self, prompt: Example, count: int) -> list[int]:
        with torch.no_grad():
            begun = self.to_go_on_from(prompt)
            out = self.generator.generate(
                **begun, max_new_tokens=count, do_sample=False, pad_token_id=self.fill()[IDS.name],
                stopping_criteria=[_still_wanted],
            )  # fmt: skip
        return [int(i) for i in out[0, begun[IDS.name].shape[1] :]]

    def to_go_on_from(self, prompt: Example) -> dict[str, Any]:
        """What `generate` is given."""
        row = _without_tail(prompt)
        start = row[IDS.name][None].to(self.device)
        return {IDS.name: start, "attention_mask": self._mask(row, start)}


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
    return prompt if count == part.count else _cut(prompt, count)


def _cut(prompt: Example, count: int) -> Example:
    """The first tokens of a prompt."""
    part = prompt.parts[0]
    first = replace(
        part, shape=(count,), names=part.names[:count], offsets=part.offsets[:count], word_ids=part.word_ids[:count],
        special=part.special[:count], sides=part.sides[:count],
    )  # fmt: skip
    inputs = {k: v[:count] for k, v in prompt.inputs.items()}
    return replace(prompt, inputs=inputs, parts=(first,), rows=(count - 1,))


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """With how many ids two lists begin alike."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _without_tail(prompt: Example) -> dict[str, Tensor]:
    """The inputs of a prompt up to its last token: what follows is padding."""
    places, length = prompt.parts[0].places, prompt.inputs[IDS.name].shape[0]
    end = length if places is None else places[-1] + 1
    along = {k for k, v in prompt.inputs.items() if v.dim() and v.shape[0] == length and not v.is_floating_point()}
    return {k: v[:end] if k in along else v for k, v in prompt.inputs.items()}


def is_chat(item: Any) -> bool:
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
            chosen = list(self._reader(text_target=continuation)["input_ids"])
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
                ids, attention_mask=self._mask(source.inputs, ids), max_new_tokens=count, do_sample=False, num_beams=1,
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
