"""Text models: classifiers, taggers, question answering, masked and causal language models, encoder-decoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence import cancel
from whence.errors import EmptyInputError, InputError, InputTooLongError, UnknownNameError
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example
from whence.models.targets import AbstractTarget, Answer, Next, Span, TokenLabel
from whence.models.tokens import spans_of, spell_tokens

__all__ = [
    "CausalLM",
    "MaskedLM",
    "QuestionAnswering",
    "Seq2SeqLM",
    "TextAdapter",
    "TextClassifier",
    "TokenClassifier",
]


class TextAdapter(AbstractAdapter):
    """A model over token ids. Takes text, pairs, words already split, or encoded inputs."""

    task: ClassVar[str] = "text"

    def __init__(self, module: nn.Module, tokenizer: Any = None, **options: Any):
        super().__init__(module, **options)
        self.tokenizer = tokenizer
        self._fills: dict[str, int] = {}

    @property
    def sources(self) -> tuple[str, ...]:
        return ("input_ids",)

    @property
    def padding_side(self) -> str:
        return getattr(self.tokenizer, "padding_side", "right") or "right"

    def fill(self) -> dict[str, int]:
        pad = getattr(self.config, "pad_token_id", None)
        if pad is None:
            pad = getattr(self.tokenizer, "pad_token_id", None)
        return {"input_ids": int(pad or 0), "decoder_input_ids": int(pad or 0)}

    @property
    def limit(self) -> int | None:
        """The most tokens the model takes."""
        config = self.config
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        known = [getattr(text, n, None) for n in ("max_position_embeddings", "n_positions")]
        known.append(getattr(self.tokenizer, "model_max_length", None))
        sensible = [int(k) for k in known if isinstance(k, int) and 0 < k < 10**7]
        return min(sensible) if sensible else None

    # -- encoding --------------------------------------------------------------------------------------------

    def encode(self, inputs: Any, **options: Any) -> tuple[list[Example], bool]:
        if isinstance(inputs, Mapping) and self._is_encoded(inputs):
            examples = self._encoded(inputs)
            return examples, len(examples) == 1
        single = self._is_single(inputs)
        items = [inputs] if single else list(inputs)
        if not items:
            raise EmptyInputError("the list of inputs is empty")
        return [self._example(item, **options) for item in items], single

    def _is_single(self, inputs: Any) -> bool:
        return isinstance(inputs, (str, tuple, Mapping))

    @staticmethod
    def _is_encoded(inputs: Mapping[str, Any]) -> bool:
        return any(isinstance(v, Tensor) for v in inputs.values())

    def _encoded(self, inputs: Mapping[str, Tensor]) -> list[Example]:
        """Tensors that were encoded elsewhere. Rows are cut to their attention mask."""
        ids = inputs.get("input_ids")
        if ids is None:
            raise InputError(f"encoded inputs must hold 'input_ids'; got {sorted(inputs)}")
        batched = {k: v if v.dim() > 1 else v.unsqueeze(0) for k, v in inputs.items()}
        mask = batched.get("attention_mask", torch.ones_like(batched["input_ids"])).bool()
        examples = []
        for n in range(mask.shape[0]):
            row = {k: v[n][mask[n]] if v[n].shape[:1] == mask[n].shape else v[n] for k, v in batched.items()}
            examples.append(self._finished(self._with_mask(row)))
        return examples

    def _with_mask(self, row: dict[str, Tensor]) -> dict[str, Tensor]:
        if "attention_mask" in self._parameters:
            row.setdefault("attention_mask", torch.ones_like(row["input_ids"]))
        return row

    def _finished(self, row: dict[str, Tensor]) -> Example:
        """An example from ids alone: tokens are spelled if there is a tokenizer to do it."""
        ids = row["input_ids"].tolist()
        if not ids:
            raise EmptyInputError("there are no tokens to explain")
        if self.tokenizer is None:
            return Example(row, tokens=tuple(str(i) for i in ids), special=(False,) * len(ids))
        known = set(getattr(self.tokenizer, "all_special_ids", ()))
        return Example(row, tokens=spell_tokens(self.tokenizer, ids), special=tuple(i in known for i in ids))

    def _example(self, item: Any, *, truncate: bool = False) -> Example:
        """One text, pair of texts, or list of words."""
        if self.tokenizer is None:
            raise InputError(
                "this model came without a tokenizer, so it can't read text. Pass encoded inputs, "
                "{'input_ids': …, 'attention_mask': …}, or load it with one: whence.load((module, tokenizer))"
            )
        first, second, split = _parts(item)
        self._check_length(first, second, split, truncate)
        encoding = self.tokenizer(
            first, second, is_split_into_words=split, truncation=truncate, max_length=self.limit if truncate else None
        )
        row = {k: torch.tensor(encoding[k]) for k in encoding if k in self._accepted(encoding)}
        text = " ".join(first) if split else first
        spans = spans_of(self.tokenizer, encoding, text if second is None else None)
        sides = _sides(encoding) if second is not None else ()
        shown = text if second is None else f"{text}\n{second}"
        return Example(self._with_mask(row), **spans, sides=sides, text=shown)

    def _accepted(self, encoding: Mapping[str, Any]) -> set[str]:
        takes_all = "kwargs" in self._parameters or "input_ids" not in self._parameters
        return {k for k in encoding if k in self._parameters or (takes_all and k in ("input_ids", "attention_mask"))}

    def _check_length(self, first: Any, second: Any, split: bool, truncate: bool) -> None:
        if truncate or self.limit is None:
            return
        needed = len(self.tokenizer(first, second, is_split_into_words=split, verbose=False)["input_ids"])
        if needed > self.limit:
            raise InputTooLongError(
                f"the text has {needed} tokens and the model takes at most {self.limit}. "
                f"Pass truncate=True to explain the first {self.limit}, or shorten it."
            )

    def shift(self, examples: Sequence[Example], n: int) -> int:
        if self.padding_side != "left":
            return 0
        longest = max(e.inputs["input_ids"].shape[0] for e in examples)
        return longest - examples[n].inputs["input_ids"].shape[0]

    def masked(self, example: Example, keep: np.ndarray, fill: str = "mask") -> Example:
        """Tokens replaced by the tokenizer's `mask`, `unk` or `pad` token, or taken out (`delete`).

        `keep` covers all tokens shown: for encoder-decoders source and decoder, one after the other.
        """
        if len(keep) != len(example.tokens):
            raise InputError(f"{len(keep)} marks for {len(example.tokens)} tokens")
        inputs, start = dict(example.inputs), 0
        position = example.position
        for name in self.sources:
            ids = inputs[name]
            kept = torch.from_numpy(np.ascontiguousarray(keep[start : start + ids.shape[0]]))
            start += ids.shape[0]
            if fill != "delete":
                inputs[name] = torch.where(kept, ids, torch.full_like(ids, self._fill_id(fill)))
                continue
            if not kept.any():
                raise InputError("every token would be deleted; leave at least one (special tokens, for instance)")
            same = [
                k
                for k, v in inputs.items()
                if v.shape[:1] == ids.shape and k.startswith("decoder") == name.startswith("decoder")
            ]
            for k in same:
                inputs[k] = inputs[k][kept]
            if position is not None and name == self.sources[-1]:
                position = int(kept[: position + 1].sum()) - 1
        return replace(example, inputs=inputs, position=position)

    def _fill_id(self, fill: str) -> int:
        if fill not in self._fills:  # asked for every perturbed input, and tokenizers are slow to answer
            self._fills[fill] = self._found_fill(fill)
        return self._fills[fill]

    def _found_fill(self, fill: str) -> int:
        order = {
            "mask": ("mask", "unk", "pad", "eos"),
            "unk": ("unk", "mask", "pad", "eos"),
            "pad": ("pad", "unk", "eos"),
        }
        if fill not in order:
            raise UnknownNameError("fill", fill, (*order, "delete"))
        for name in order[fill]:  # a tokenizer without a mask token falls back to the next best
            found = getattr(self.tokenizer, f"{name}_token_id", None)
            if found is not None:
                return int(found)
        return self.fill()["input_ids"]

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        batch = super().collate(examples)
        lengths = {e.inputs["input_ids"].shape[0] for e in examples}
        if self.padding_side == "left" and len(lengths) > 1 and "position_ids" in self._parameters:
            # Absolute positions must not count the padding before them.
            batch["position_ids"] = (batch["attention_mask"].cumsum(-1) - 1).clamp_min(0)
        return batch


def _parts(item: Any) -> tuple[Any, str | None, bool]:
    """(first, second, whether first is a list of words)."""
    first: Any
    second: str | None
    if isinstance(item, str):
        first, second, split = item, None, False
    elif isinstance(item, tuple) and len(item) == 2 and all(isinstance(t, str) for t in item):
        first, second, split = item[0], item[1], False
    elif isinstance(item, list) and item and all(isinstance(t, str) for t in item):
        first, second, split = item, None, True
    else:
        raise InputError(
            f"can't read {type(item).__name__} {str(item)[:60]!r}: pass a text, a pair (text, text), or a list of words"
        )
    if not (any(w.strip() for w in first) if split else first.strip()):
        raise EmptyInputError("the text is empty: there is nothing to explain")
    return first, second, split


def _sides(encoding: Any) -> tuple[str, ...]:
    names = {None: "", 0: "first", 1: "second"}
    return tuple(names[s] for s in encoding.sequence_ids()) if hasattr(encoding, "sequence_ids") else ()


class TextClassifier(TextAdapter):
    task = "text-classification"

    @property
    def mixes_lengths(self) -> bool:
        # Decoder-type classifiers find the last token by looking for padding; without a padding id they can't.
        return super().mixes_lengths and getattr(self.config, "pad_token_id", 0) is not None


class TokenClassifier(TextAdapter):
    task = "token-classification"

    def default_target(self) -> AbstractTarget:
        return TokenLabel()

    def target(self, choice: Any) -> AbstractTarget:
        return TokenLabel(None, choice) if isinstance(choice, (int, str)) else super().target(choice)


class QuestionAnswering(TextAdapter):
    """Takes pairs (question, context)."""

    task = "question-answering"

    def default_target(self) -> AbstractTarget:
        return Answer()


class _LanguageModel(TextAdapter):
    """Outputs are tokens of the vocabulary."""

    def spell(self, index: int) -> str:
        return self.tokenizer.decode([index]) if self.tokenizer is not None else f"token {index}"

    def find(self, label: str) -> int:
        if self.tokenizer is None:
            raise InputError(f"no tokenizer to look up the token {label!r}; pass its id")
        ids = self.tokenizer(label, add_special_tokens=False)["input_ids"]
        if len(ids) == 1:
            return ids[0]
        pieces = [self.tokenizer.decode([i]) for i in ids]
        raise InputError(
            f"{label!r} is {len(ids)} tokens, not one: {pieces}. Explain the first, {pieces[:1]}, by its id {ids[:1]}; "
            f"or all of them: explain(…, continuation={label!r}, target=whence.span())"
        )

    def default_target(self) -> AbstractTarget:
        return Next()

    @property
    def generator(self) -> Any:
        if not hasattr(self.module, "generate"):
            raise InputError("this model can't generate text; pass continuation='…'")
        return self.module


def _still_wanted(ids: Tensor, scores: Any, **options: Any) -> Tensor:
    """Asked by `generate` after every token whether to end: never, unless the work was cancelled."""
    cancel.check()
    return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)


class MaskedLM(_LanguageModel):
    """Explains what the model fills in for its mask token."""

    task = "fill-mask"

    def _finished(self, row: dict[str, Tensor]) -> Example:
        return self._at_mask(super()._finished(row))

    def _example(self, item: Any, **options: Any) -> Example:
        return self._at_mask(super()._example(item, **options))

    def _at_mask(self, example: Example) -> Example:
        mask = getattr(self.tokenizer, "mask_token_id", None)
        places = [n for n, i in enumerate(example.inputs["input_ids"].tolist()) if i == mask]
        if not places:
            name = getattr(self.tokenizer, "mask_token", "[MASK]")
            raise InputError(f"put the model's mask token {name!r} where it should predict a word")
        return Example(**{**vars(example), "position": places[0]})


class CausalLM(_LanguageModel):
    """A prompt, with a continuation that is given, generated, or not there (then: the next token)."""

    task = "text-generation"

    @property
    def padding_side(self) -> str:
        return "right"  # later tokens can't be seen: padding behind them changes nothing, whatever the positions

    def encode(self, inputs: Any, **options: Any) -> tuple[list[Example], bool]:
        if _is_chat(inputs):
            return [self._example(inputs, **options)], True
        return super().encode(inputs, **options)

    def _finished(self, row: dict[str, Tensor]) -> Example:
        example = super()._finished(row)
        return Example(**{**vars(example), "position": len(example.tokens) - 1})

    def _example(
        self, item: Any, *, truncate: bool = False, continuation: str | None = None, generate: int = 0
    ) -> Example:
        if _is_chat(item):
            item = self.tokenizer.apply_chat_template(item, tokenize=False, add_generation_prompt=True)
        prompt = super()._example(item, truncate=truncate)
        length = len(prompt.tokens)
        ids = prompt.inputs["input_ids"].tolist()
        extra = self._continuation(ids, continuation, generate)
        if not extra:
            return Example(**{**vars(prompt), "position": length - 1})
        # The last token of the continuation predicts nothing that is explained, so it is not an input.
        row = self._with_mask({"input_ids": torch.tensor(ids + extra[:-1])})
        tokens = prompt.tokens + spell_tokens(self.tokenizer, extra[:-1])
        return Example(
            row,
            tokens=tokens,
            special=prompt.special + (False,) * (len(extra) - 1),
            sides=("prompt",) * length + ("continuation",) * (len(extra) - 1),
            text=prompt.text,
            position=length - 1,
            continuation=tuple(extra),
        )

    def _continuation(self, ids: list[int], given: str | None, generate: int) -> list[int]:
        if given is not None:
            return self.tokenizer(given, add_special_tokens=False)["input_ids"]
        if not generate:
            return []
        with torch.no_grad():
            start = torch.tensor([ids], device=self.device)
            out = self.generator.generate(
                start, attention_mask=torch.ones_like(start), max_new_tokens=generate, do_sample=False,
                pad_token_id=self.fill()["input_ids"], stopping_criteria=[_still_wanted],
            )  # fmt: skip
        return out[0, len(ids) :].tolist()


def _is_chat(item: Any) -> bool:
    return isinstance(item, list) and bool(item) and all(isinstance(m, Mapping) and "role" in m for m in item)


class Seq2SeqLM(_LanguageModel):
    """A source text and a target text that is given or generated. Tokens of both are explained."""

    task = "text2text-generation"

    @property
    def sources(self) -> tuple[str, ...]:
        return ("input_ids", "decoder_input_ids")

    def default_target(self) -> AbstractTarget:
        return Span()

    def _finished(self, row: dict[str, Tensor]) -> Example:
        example = super()._finished(row)
        if "decoder_input_ids" not in row:
            row["decoder_input_ids"] = torch.tensor([self._start()])
        decoder = row["decoder_input_ids"].tolist()
        return self._joined(example, decoder, ())

    def _example(
        self, item: Any, *, truncate: bool = False, continuation: str | None = None, generate: int = 32
    ) -> Example:
        source = super()._example(item, truncate=truncate)
        if continuation is not None:
            chosen = self.tokenizer(text_target=continuation)["input_ids"]
        else:
            with torch.no_grad():
                ids = source.inputs["input_ids"][None].to(self.device)
                out = self.generator.generate(
                    ids, attention_mask=torch.ones_like(ids), max_new_tokens=generate, do_sample=False, num_beams=1,
                    stopping_criteria=[_still_wanted],
                )  # fmt: skip
            chosen = out[0, 1:].tolist()
        if not chosen:
            raise EmptyInputError("the model generated nothing; pass continuation='…' to explain")
        source.inputs["decoder_input_ids"] = torch.tensor([self._start(), *chosen[:-1]])
        return self._joined(source, [self._start(), *chosen[:-1]], tuple(chosen))

    def _start(self) -> int:
        config, generation = self.config, getattr(self.module, "generation_config", None)
        for holder in (generation, config):
            for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
                if (found := getattr(holder, name, None)) is not None:
                    return int(found)
        return 0

    def _joined(self, source: Example, decoder: list[int], continuation: tuple[int, ...]) -> Example:
        known = set(getattr(self.tokenizer, "all_special_ids", ()))
        spelled = spell_tokens(self.tokenizer, decoder) if self.tokenizer is not None else tuple(map(str, decoder))
        n = len(source.tokens)
        return Example(
            source.inputs,
            tokens=source.tokens + spelled,
            special=source.special + tuple(i in known for i in decoder),
            sides=("source",) * n + ("decoder",) * len(decoder),
            text=source.text,
            position=0 if continuation else len(decoder) - 1,
            continuation=continuation,
        )
