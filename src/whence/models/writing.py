"""Models whose outputs are words: masked and causal language models, encoder-decoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from whence.errors import EmptyInputError, InputError
from whence.models.chat import Chat, is_chat, sides_of
from whence.models.example import Example, ExampleBatch, Features
from whence.models.generating import Continuation, Generate, writing_options
from whence.models.targets import AbstractTarget, Class, Contrast, Custom, TokenLabel
from whence.models.text import IDS, TextAdapter
from whence.models.tokens import read_on, spans_of, special_in, spell_tokens, words_in
from whence.models.word_head import KEEP, Head, find_head
from whence.models.word_targets import Next, Rivals, Span, Written

__all__ = ["CausalLM", "LanguageModel", "MaskedLM"]

ANCHORS = ("\n", ".", "a", "x")
"""What a continuation is tokenized behind where its prompt can't be seen: it must not be taken for a first word."""
HEAD = "its head"
DECODED = "decoder_input_ids"


class LanguageModel(TextAdapter):
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

    def pieces_written(self, example: Example) -> tuple[str, ...]:
        if self.tokenizer is None:
            return super().pieces_written(example)
        ids, count = example.inputs[self.follows or IDS.name].tolist(), len(example.written)
        text, spans = read_on(self.tokenizer, ids[: len(ids) - count + 1], example.written)
        begun = [n == 0 or spans[n] != spans[n - 1] for n in range(count)]  # several tokens may be one character
        return tuple(text[a:b] if first else "" for first, (a, b) in zip(begun, spans, strict=True))

    def aim(self, example: Example, choice: Any) -> tuple[Example, AbstractTarget]:
        return self._at_written(example, choice) if isinstance(choice, Written) else super().aim(example, choice)

    def _at_written(self, example: Example, choice: Written) -> tuple[Example, AbstractTarget]:
        """The example as it was when a written token was to come, and that token rather than others."""
        count = len(example.written)
        if not -count <= choice.place < count:
            raise InputError(
                f"written token {choice.place} does not exist: {count} were written. Pass generate=N or continuation="
            )
        at = choice.place % count
        if choice.than is None:
            target: AbstractTarget = Next(example.written[at])
        else:
            this, that = example.written[at:], self.ids_of(choice.than)
            parting = _common(this, that)
            if parting == min(len(this), len(that)):
                raise InputError(
                    f"{self.read(this)!r} and {choice.than!r} do not differ in any token that both have: nothing "
                    "decides between them"
                )
            at += parting
            target = Rivals(((example.rows[at], this[parting], that[parting]),))
        made = self.beginning(example, at + 1) or example
        return replace(made, rows=(example.rows[at],), written=()), target

    def beginning(self, example: Example, count: int) -> Example | None:
        """The example as it was when the last of its first `count` written tokens was to come; None where more than
        tokens that follow each other goes in."""
        return None

    def given_ids(self, ids: Any) -> list[int]:
        """Ids that were passed as a continuation, or an error for what is none."""
        ids = ids.tolist() if hasattr(ids, "tolist") else ids
        if not isinstance(ids, Sequence) or not all(isinstance(i, Integral) and not isinstance(i, bool) for i in ids):
            raise InputError(
                f"continuation= is one text or its token ids, not {type(ids).__name__}: explain several one by one"
            )
        config = self.config.get_text_config() if hasattr(self.config, "get_text_config") else self.config
        size = getattr(config, "vocab_size", None)
        wrong = next((i for i in ids if i < 0 or (size is not None and i >= size)), None)
        if wrong is not None:
            raise InputError(f"there is no token {wrong} in the model's vocabulary")
        return [int(i) for i in ids]

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
        """Logits at the predicting tokens alone: those of a long text are gigabytes."""
        follows = self.follows
        if targets is None or follows is None or not batch.rows:
            return batch
        if not all(getattr(t, "reads_rows", False) for t in targets) or not all(e.rows for e in batch.rows):
            return batch
        each = [[t] for t in targets] if len(targets) == batch.examples else [targets] * batch.examples
        read = [{e.rows[0]}.union(*(t.rows_of(e) for t in own)) for e, own in zip(batch.rows, each, strict=True)]
        kept = sorted({batch.place(follows, n, row) for n, rows in enumerate(read) for row in rows})
        if len(kept) == batch.inputs[follows].shape[1] or not (KEEP in self._accepted or self._head(batch)):
            return batch
        places = torch.tensor(kept, device=self.device)
        return replace(batch, inputs={**batch.inputs, KEEP: places}, kept=tuple(kept))

    def forward(self, inputs: dict[str, Any]) -> Any:
        """The model's outputs; where its head can't be told which rows to read, it is given no others."""
        rows = inputs.get(KEEP)
        if rows is None or KEEP in self._accepted:
            return super().forward(inputs)
        rest = {name: value for name, value in inputs.items() if name != KEEP}
        head: Head = self.known.facts.get(HEAD) or self._findings.last(HEAD)
        with head.given(rows, rest[self.follows or IDS.name].shape[1]):
            return super().forward(rest)

    def _head(self, batch: ExampleBatch) -> Head | None:
        """The head, where it can be given rows. Tried with a few tokens, or the batch if there is more than text."""
        text = {IDS.name, DECODED} & set(batch.inputs)
        few = torch.tensor([[1, 2, 3]], device=self.device)
        tried = dict.fromkeys(sorted(text), few) if {s.name for s in batch.sources} <= text else dict(batch.inputs)
        tokens = tried[self.follows or IDS.name].shape[1]
        found = self.once(HEAD, lambda: find_head(self.module, lambda: self.forward(tried), tokens) or False)
        return found or None

    @property
    def generator(self) -> Any:
        if not hasattr(self.module, "generate"):
            raise InputError("this model can't generate text; pass continuation='…'")
        return self.module


class MaskedLM(LanguageModel):
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


class CausalLM(LanguageModel):
    """A prompt, with a continuation that is given, generated, or not there (then: the next token)."""

    task = "text-generation"
    writes = True

    @property
    def chats(self) -> bool:
        return getattr(self.tokenizer, "chat_template", None) is not None

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        return ([inputs], True) if is_chat(inputs) else super().split(inputs)

    def encode_one(
        self,
        item: Any,
        *,
        truncate: bool = False,
        continuation: Continuation | None = None,
        generate: Generate | None = None,
    ) -> Example:
        if is_chat(item):
            prompt = self._spoken(Chat.of(item).in_words(), truncate)
        else:
            prompt = super().encode_one(item, truncate=truncate)
        prompt = replace(prompt, rows=(prompt.count - 1,))
        if continuation is not None:
            return self.continued(prompt, continuation)
        if generate:
            return self.with_written(prompt, self.write(prompt, generate))
        return prompt

    def _spoken(self, chat: Chat, truncate: bool) -> Example:
        """A conversation; each token knows whose words it is of."""
        text = chat.rendered(self._reader)
        prompt = self._tokenized([text], False, truncate, add_special_tokens=False)  # the template has them
        part = prompt.parts[0]
        if not part.offsets:
            return prompt
        sides = sides_of(text, part.offsets, chat.places(text, self._reader))
        return replace(prompt, parts=(replace(part, sides=sides),))

    def aim(self, example: Example, choice: Any) -> tuple[Example, AbstractTarget]:
        """A word of several tokens is written into the input up to the token that decides, and explained there."""
        if choice == "":
            raise EmptyInputError("target='' is no word: pass one that may come next, or leave target= out")
        if isinstance(choice, str) and not example.written:
            prompt, (ids,) = self._followed_by(example, choice)
            if len(ids) == 1:
                return prompt, Class(ids[0])
            return self.with_written(prompt, ids), Span(score="logit")
        words = (choice.this, *choice.those) if isinstance(choice, Contrast) else ()
        if any(isinstance(word, str) for word in words) and not example.written:
            return self._against(example, choice)
        if isinstance(choice, TokenLabel) and not example.written:
            return self._behind(example, choice)
        return super().aim(example, choice)

    def _against(self, example: Example, choice: Contrast) -> tuple[Example, AbstractTarget]:
        """A continuation rather than others: it is written up to where the last of them parts from it."""
        example, (this, *those) = self._followed_by(example, choice.this, *choice.those)
        parting = [_common(this, that) for that in those]
        for that, at, name in zip(those, parting, choice.those, strict=True):
            if at == min(len(this), len(that)):
                raise InputError(
                    f"{choice.this!r} and {name!r} do not differ in any token that both have: nothing decides "
                    "between them"
                )
        made = self.with_written(example, this[: max(parting) + 1])
        pairs = tuple((made.rows[at], this[at], that[at]) for that, at in zip(those, parting, strict=True))
        rows = tuple(sorted({row for row, _, _ in pairs}))
        return replace(made, rows=rows, written=()), Rivals(pairs)

    def _behind(self, example: Example, choice: TokenLabel) -> tuple[Example, AbstractTarget]:
        """What comes behind a token in the middle."""
        count, position = example.parts[0].count, choice.position
        if position is None or not -count <= position < count:
            raise InputError(f"token {position} does not exist: the input has {count} tokens")
        chosen = choice.choice if choice.choice is None or isinstance(choice.choice, int) else self.find(choice.choice)
        return replace(example, rows=(position % count,)), Next(chosen)

    def _followed_by(self, example: Example, *words: int | str) -> tuple[Example, list[list[int]]]:
        """The prompt, open at its end, and the tokens of what may follow it.

        Prompt and word are tokenized as one text. Where they grow together ("Once upon a " and "time"), the prompt ends
        before the token that both have a part in.
        """
        texts = [word for word in words if isinstance(word, str)]
        known = self._plain_ids(example.text) if example.text else []
        prompt = _open_ended(example, known)
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

    def continued(self, prompt: Example, text: Continuation) -> Example:
        """The prompt with `text` written behind it. Both are tokenized as one; ids are taken as they are."""
        if not isinstance(text, str):
            return self.with_written(prompt, self.given_ids(text))
        whole = prompt.text
        prompt, (ids,) = self._followed_by(prompt, text)
        if not ids:
            raise EmptyInputError("the continuation is empty: there is nothing to explain")
        return self.with_written(prompt, ids, None if whole is None else whole + text)

    def with_written(self, prompt: Example, ids: Sequence[int], whole: str | None = None) -> Example:
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
        special = part.special + special_in(self.tokenizer, more)
        names, spans, text = self._spelled(prompt, ids, whole)
        offsets = part.offsets + spans[:-1] if part.offsets and spans else ()
        length, total = part.count, part.count + len(more)
        features = Features(
            part.source,
            (total,),
            part.names + names[:-1],
            offsets=offsets,
            word_ids=words_in(text, offsets, special) if part.word_ids and offsets and text is not None else (),
            special=special,
            sides=tuple(s if s not in ("", "text") else "prompt" for s in part.sides or [""] * length)
            + ("continuation",) * len(more),
            places=None if part.places is None else part.places + tuple(range(len(old), len(old) + len(more))),
        )
        return replace(
            prompt,
            inputs=row,
            parts=(features, *prompt.parts[1:]),
            text=text,
            rows=tuple(range(length - 1, length - 1 + len(ids))),
            written=tuple(int(i) for i in ids),
        )

    def _spelled(
        self, prompt: Example, ids: Sequence[int], whole: str | None
    ) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...], str | None]:
        """The tokens of a continuation as they read, where they stand in the text of prompt and continuation, and that
        text. Where it is not known, nobody can say where they stand."""
        plain = self._names(ids)
        if self.tokenizer is None:
            return plain, (), prompt.text
        if whole is not None and getattr(self.tokenizer, "is_fast", False):
            encoding = self.tokenizer(whole, add_special_tokens=False, verbose=False)
            if list(encoding["input_ids"][-len(ids) :]) == list(ids):
                found = spans_of(self.tokenizer, encoding["input_ids"], encoding.encodings[0], [whole])
                return found["names"][-len(ids) :], found["offsets"][-len(ids) :], whole
        if prompt.text is None:
            return plain, (), None
        written, spans = read_on(self.tokenizer, prompt.inputs[IDS.name].tolist(), ids)
        marks = special_in(self.tokenizer, ids)
        names = [
            name if mark or b <= a else written[a:b] for name, mark, (a, b) in zip(plain, marks, spans, strict=True)
        ]
        start = len(prompt.text)
        return tuple(names), tuple((start + a, start + b) for a, b in spans), prompt.text + written

    def beginning(self, example: Example, count: int) -> Example | None:
        part, length = example.parts[0], example.inputs[IDS.name].shape[0]
        if len(example.parts) > 1 or part.places is not None or example.looked_up:
            return None
        if any(value.shape != (length,) for value in example.inputs.values()):
            return None
        return replace(
            _cut(example, example.rows[count - 1] + 1), rows=example.rows[:count], written=example.written[:count]
        )

    def behind(self, prompt: Example, example: Example) -> Example:
        """What is written in `example`, behind another prompt that ends with the same words."""
        ids, last = prompt.inputs[IDS.name].tolist(), int(example.inputs[IDS.name][example.rows[0]])
        kept = next((n for n in range(len(ids), 0, -1) if ids[n - 1] == last), len(ids))  # see `_followed_by`
        return self.with_written(_cut(prompt, kept) if kept < prompt.count else prompt, example.written)

    def expects(self, example: Example) -> Tensor:
        """How likely every word is at each written token: (written, vocabulary)."""
        batch = self.collate([example], [Span()])
        with torch.inference_mode():
            outputs = self.run(batch)
            return self.view(outputs, batch, 0).at("logits", example.rows).float().softmax(-1)

    def write(self, prompt: Example, generate: Generate) -> list[int]:
        """The tokens that the model writes behind a prompt."""
        with writing_options(generate, self.tokenizer) as options, self.counted():
            begun = self.to_go_on_from(prompt)
            out = self.generator.generate(**begun, pad_token_id=self.fill()[IDS.name], **options)
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


def _open_ended(prompt: Example, known: list[int]) -> Example:
    """The prompt without special tokens that its tokenizer put at its end: the text goes on.

    They stand nowhere in the text; where nobody knows that, they are not among the tokens that are `known` to be of it.
    """
    part, ids = prompt.parts[0], prompt.inputs[IDS.name].tolist()

    def is_put(n: int) -> bool:
        nowhere = part.offsets[n] == (0, 0) if part.offsets else known and ids[: n + 1][-len(known) :] != known
        return bool(part.special[n] and nowhere)

    count = part.count
    while count > 1 and is_put(count - 1):
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
