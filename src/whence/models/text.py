"""Text models: classifiers, taggers, question answering. Those that write are in `writing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.batch import Source
from whence.errors import EmptyInputError, InputError, InputTooLongError, OptionError, nearest
from whence.models.adapter import AbstractAdapter, Kind
from whence.models.encoded import EncodedRow, encoded_rows, is_encoded
from whence.models.example import Example, Features
from whence.models.targets import AbstractTarget, Answer, TokenLabel
from whence.models.tokens import spans_of, special_in, spell_tokens

__all__ = ["QuestionAnswering", "TextAdapter", "TextClassifier", "TokenClassifier"]

IDS = Source("input_ids", "token", mask="attention_mask")
OTHERS = ("pixel_values", "image_patches", "input_features", "input_values")
"""Inputs of transformers that are no text."""
FILLS = {
    "mask": ("mask", "unk", "pad", "eos"),
    "unk": ("unk", "mask", "pad", "eos"),
    "pad": ("pad", "unk", "eos"),
}
"""What a fill stands for; a tokenizer without the first has the next."""
LETTERS = 1000
"""Characters for each token that a model takes, beyond which a text is not even looked at: a text of 24 MB took a
tokenizer 10 GB, and was too long."""


class TextAdapter(AbstractAdapter):
    """A model over token ids. Takes text, pairs, words already split, or encoded inputs."""

    task: ClassVar[str] = "text"
    kind: ClassVar[Kind] = "text"
    named: ClassVar[tuple[str, str]] = ("text", "text_pair")
    """What an input calls its text, or the two texts of a pair, where it has names for them."""

    def __init__(self, module: nn.Module, tokenizer: Any = None, **options: Any):
        super().__init__(module, **options)
        self.tokenizer = tokenizer
        self._positions = _positions(module)
        self._fills: dict[str, int] = {}

    @property
    def sources(self) -> tuple[Source, ...]:
        """The inputs that are explained."""
        return (IDS,)

    @property
    def reads(self) -> str:
        return "text" if self.tokenizer is not None else "encoded text (it came without a tokenizer)"

    def fill(self) -> dict[str, int]:
        pad = self._pad_id
        return {source.name: 0 if pad is None else pad for source in self.sources}

    @property
    def _pad_id(self) -> int | None:
        pad = getattr(self.config, "pad_token_id", None)
        pad = getattr(self.tokenizer, "pad_token_id", None) if pad is None else pad
        return None if pad is None else int(pad)

    @cached_property
    def limit(self) -> int | None:
        config = self.config
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        known = [getattr(text, n, None) for n in ("max_position_embeddings", "n_positions")]
        known.append(getattr(self.tokenizer, "model_max_length", None))
        known.append(self._positions)
        sensible = [int(k) for k in known if isinstance(k, int) and 0 < k < 10**7]
        return min(sensible) if sensible else None

    @property
    def blank(self) -> str | None:
        return getattr(self.tokenizer, "mask_token", None)

    @property
    def separator(self) -> str | None:
        return getattr(self.tokenizer, "sep_token", None)

    def tokens_in(self, text: str, pair: str | None = None) -> int | None:
        if self.tokenizer is None:
            return None
        return len(self.tokenizer(text, pair, verbose=False)["input_ids"])

    # -- encoding --------------------------------------------------------------------------------------------

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        if is_encoded(inputs, IDS.name):
            rows = encoded_rows(inputs, IDS.name)
            return list(rows), len(rows) == 1
        if isinstance(inputs, (str, tuple, Mapping)):
            return [inputs], True
        if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "OUT":
            inputs = inputs.tolist()
        if not isinstance(inputs, (list, Sequence)) or isinstance(inputs, (bytes, bytearray)):
            if hasattr(inputs, "__iter__") and not isinstance(inputs, (bytes, bytearray, Tensor, np.ndarray)):
                inputs = list(inputs)
            else:
                raise self.unreadable(inputs)
        if not inputs:
            raise EmptyInputError("the list of inputs is empty")
        return [row for item in inputs for row in self._rows_in(item)], False

    def _rows_in(self, item: Any) -> list[Any]:
        return list(encoded_rows(item, IDS.name)) if is_encoded(item, IDS.name) else [item]

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        """One text, pair of texts, list of words, or row that was encoded elsewhere."""
        if isinstance(item, EncodedRow):
            return self._from_row(item)
        texts, split = self._texts_in(self._unnamed(item))
        return self._tokenized(texts, split, truncate)

    def _unnamed(self, item: Any) -> Any:
        """A text or pair that came by name, as rows of data sets and inputs of pipelines do: {"text": "a gem"}."""
        first, second = self.named
        if not isinstance(item, Mapping) or first not in item or _has_pictures(item):
            return item
        self.check_keys(item, first, second)
        return item[first] if item.get(second) is None else (item[first], item[second])

    def _texts_in(self, item: Any) -> tuple[list[Any], bool]:
        """The texts of one input, and whether it is a list of words."""
        texts: list[Any]
        if isinstance(item, str):
            texts, split = [item], False
        elif isinstance(item, tuple) and len(item) == 2 and all(isinstance(t, str) for t in item):
            texts, split = list(item), False
        elif isinstance(item, list) and item and all(isinstance(t, str) for t in item):
            texts, split = [item], True
        else:
            raise self.unreadable(item)
        if not (any(w.strip() for w in texts[0]) if split else texts[0].strip()):
            raise EmptyInputError("the text is empty: there is nothing to explain")
        return texts, split

    def unreadable(self, item: Any) -> InputError:
        """What was passed, and what to pass, for something that is no text."""
        wanted = "pass a text, a pair (text, text), or a list of words"
        if item is None or (isinstance(item, float) and item != item):
            return InputError(f"the text is missing ({item!r}): {wanted}")
        if _has_pictures(item):
            return InputError(f"this model is explained for text alone, without pictures: {wanted}")
        if isinstance(item, Mapping) and "role" in item:
            return InputError(f"messages of a chat are for models that write, and this one does not: {wanted}")
        if isinstance(item, Mapping):
            return InputError(
                f"can't read a dict with {', '.join(map(repr, list(item)[:6]))}: {wanted}, or encoded tensors"
            )
        if isinstance(item, (bytes, bytearray)):
            return InputError(f"can't read {len(item)} bytes as a text: decode them first, data.decode()")
        if isinstance(item, tuple):
            return InputError(
                f"can't read a tuple of {len(item)}: a pair is (text, text); pass several texts as a list"
            )
        shown = "" if str(item).startswith("<") else f" {str(item)[:60]!r}"
        return InputError(f"can't read {type(item).__name__}{shown}: {wanted}")

    def _tokenized(
        self, texts: Sequence[Any], split: bool, truncate: bool, *, add_special_tokens: bool = True
    ) -> Example:
        tokenizer = self._reader
        if self.limit is not None and (many := max(map(_letters, texts))) > (most := LETTERS * self.limit):
            if not truncate:
                raise InputTooLongError(
                    f"the text has {many:,} characters, and the model takes at most {self.limit} tokens. "
                    "Pass truncate=True to explain its beginning, or shorten it."
                )
            texts = [text[:most] if split else text.lstrip()[:most] for text in texts]
        second = texts[1] if len(texts) > 1 else None
        options: dict[str, Any] = {"is_split_into_words": split, "add_special_tokens": add_special_tokens}
        encoding = tokenizer(texts[0], second, verbose=False, **options)
        count = len(encoding["input_ids"])
        if self.limit is not None and count > self.limit:
            if not truncate:
                raise InputTooLongError(
                    f"the text has {count} tokens and the model takes at most {self.limit}. "
                    f"Pass truncate=True to explain the first {self.limit}, or shorten it."
                )
            encoding = tokenizer(texts[0], second, truncation=True, max_length=self.limit, **options)
        backend = encoding.encodings[0] if getattr(tokenizer, "is_fast", False) else None
        if not encoding["input_ids"] or (backend is not None and _holds_nothing(backend)):
            raise EmptyInputError("the text is empty: the tokenizer makes no token of it")
        return self._read(dict(encoding), backend, texts)

    def _read(self, encoding: Mapping[str, Any], backend: Any, texts: Sequence[Any]) -> Example:
        """What a tokenizer made of texts, as an example."""
        row = {k: torch.tensor(v) for k, v in encoding.items() if k in self._accepted or k == "input_ids"}
        if "attention_mask" in self._accepted:
            row.setdefault("attention_mask", torch.ones_like(row["input_ids"]))
        return self._example(row, encoding["input_ids"], backend, texts)

    def _example(self, row: dict[str, Tensor], ids: Sequence[int], backend: Any, texts: Sequence[Any]) -> Example:
        spans = spans_of(self.tokenizer, ids, backend, texts)
        shown = "\n".join(t if isinstance(t, str) else " ".join(t) for t in texts)
        return Example(row, (Features(self.sources[0], (len(ids),), **spans),), text=shown)

    def encode_some(self, items: Sequence[Any], **options: Any) -> list[Example | None]:
        """Texts go through a fast tokenizer together; what is no plain text, or too long, one by one.

        Their tensors are cut from one: every operation on a small one is a chance to lose the turn to another thread.
        """
        made: list[Example | None] = [None] * len(items)
        most = float("inf") if self.limit is None else LETTERS * self.limit
        plain = [n for n, item in enumerate(items) if isinstance(item, str) and item.strip() and _letters(item) <= most]
        own = type(self).encode_one is TextAdapter.encode_one
        if not own or len(plain) < 2 or not getattr(self.tokenizer, "is_fast", False):
            return made
        encoding = self.tokenizer([items[n] for n in plain], verbose=False)
        ids = encoding["input_ids"]
        cut = {k: _cut(v, ids) for k, v in encoding.items() if k in self._accepted or k == "input_ids"}
        if "attention_mask" in self._accepted:
            cut.setdefault("attention_mask", _cut([[1] * len(row) for row in ids], ids))
        for place, n in enumerate(plain):
            told = ids[place] and not _holds_nothing(encoding.encodings[place])
            if told and (self.limit is None or len(ids[place]) <= self.limit):
                row = {name: rows[place] for name, rows in cut.items()}
                made[n] = self._example(row, ids[place], encoding.encodings[place], [items[n]])
        return made

    @property
    def _reader(self) -> Any:
        if self.tokenizer is None:
            raise InputError(
                "this model came without a tokenizer, so it can't read text. Pass encoded inputs, "
                "{'input_ids': …, 'attention_mask': …}, or load it with one: whence.load((module, tokenizer))"
            )
        return self.tokenizer

    def _from_row(self, row: EncodedRow) -> Example:
        """The model gets the row as it is, its padding and mask included. What the mask leaves out is no feature."""
        self._check_all_is_text(row)
        return Example(row.inputs, (self._features(self.sources[0], row.inputs),), shared=row.shared)

    def _check_all_is_text(self, row: EncodedRow) -> None:
        """Pictures and sounds that go in with a text are a part of what made the answer."""
        held = (row.inputs, row.shared)
        other = next((name for name in OTHERS for own in held if isinstance(own.get(name), Tensor)), None)
        if other is not None:
            raise InputError(
                f"{other!r} would have no scores: {type(self.module).__name__} is explained for its text alone. Pass "
                "the text without it, or the model in a module of your own that takes tensors"
            )

    def _features(self, source: Source, row: Mapping[str, Tensor], side: str = "") -> Features:
        ids, mask = row[source.name], row.get(source.mask or "")
        shown = ids.tolist()
        least = min(shown, default=0)
        if ids.is_floating_point() or least < 0:
            held = "floats" if ids.is_floating_point() else least
            raise InputError(
                f"{source.name!r} holds {held}, and ids of tokens are whole numbers from 0: pass what the model's "
                "tokenizer makes"
            )
        places: tuple[int, ...] | None = None
        if mask is not None and mask.shape == ids.shape and not bool(mask.all()):
            places = tuple(torch.nonzero(mask).flatten().tolist())
            shown = [shown[i] for i in places]
        if not shown:
            raise EmptyInputError("there are no tokens to explain")
        sides = (side,) * len(shown) if side else ()
        special = special_in(self.tokenizer, shown)
        return Features(source, (len(shown),), self._names(shown), special=special, sides=sides, places=places)

    def _names(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Tokens as they read; their numbers where there is no tokenizer."""
        return tuple(map(str, ids)) if self.tokenizer is None else spell_tokens(self.tokenizer, ids)

    # -- perturbing ------------------------------------------------------------------------------------------

    def masked(self, example: Example, keep: np.ndarray, fill: str = "mask") -> Example:
        """Tokens replaced by the tokenizer's `mask`, `unk` or `pad` token, or taken out (`delete`).

        `keep` covers all features: for encoder-decoders source and decoder, one after the other.
        """
        if len(keep) != example.count:
            raise InputError(f"{len(keep)} marks for {example.count} tokens")
        made = example
        for part, own in zip(example.parts, example.slices(), strict=True):
            places = np.arange(part.count) if part.places is None else np.array(part.places)
            gone = places[~np.asarray(keep[own], dtype=bool)]
            if len(gone):
                made = self._without(made, part, gone, fill)
        return made

    def _without(self, example: Example, part: Features, gone: np.ndarray, fill: str) -> Example:
        name = part.source.name
        ids = example.inputs[name]
        if fill == "delete":
            return self._deleted(example, part, gone)
        value = self._fill_id(fill)
        changed = ids.clone()
        changed[torch.from_numpy(gone)] = value
        if value == self._pad_id:
            # The model may look for padding among its ids (where the text ends, which positions count), and must go on
            # finding what it found: only the embeddings are exchanged.
            return replace(example, looked_up={**example.looked_up, name: changed})
        return replace(example, inputs={**example.inputs, name: changed})

    def _deleted(self, example: Example, part: Features, gone: np.ndarray) -> Example:
        length = example.inputs[part.source.name].shape[0]
        keep = torch.ones(length, dtype=torch.bool)
        keep[torch.from_numpy(gone)] = False
        if not keep.any() or part.count == len(gone):
            raise InputError("every token would be deleted; leave at least one (special tokens, for instance)")
        inputs = {
            k: v[keep] if v.dim() and v.shape[0] == length and self.goes_with(k, self.sources) == part.source else v
            for k, v in example.inputs.items()
        }
        places = part.places or range(length)
        kept = [i for i, p in enumerate(places) if bool(keep[p])]
        rows = example.rows
        if part.source.name == self.follows:
            rows = tuple(sum(i <= r for i in kept) - 1 for r in rows)
            if min(rows, default=0) < 0:
                raise InputError("everything before a token that is asked about would be deleted. Use fill='mask'")
        moved = torch.cumsum(keep, 0) - 1  # where what is left stands

        def pick(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(values[i] for i in kept) if values else ()

        left = replace(
            part, shape=(len(kept),), names=pick(part.names), offsets=pick(part.offsets), word_ids=pick(part.word_ids),
            special=pick(part.special), sides=pick(part.sides),
            places=None if part.places is None else tuple(int(moved[places[i]]) for i in kept),
        )  # fmt: skip
        parts = tuple(left if p is part else p for p in example.parts)
        looked_up = {k: v[keep] if k == part.source.name else v for k, v in example.looked_up.items()}
        return replace(example, inputs=inputs, looked_up=looked_up, rows=rows, parts=parts)

    def check_fill(self, fill: str) -> None:
        if fill not in (*FILLS, "delete"):
            known = (*FILLS, "delete")
            raise OptionError(f"unknown fill {fill!r}.{nearest(fill, known)} Known: {', '.join(known)}")
        if fill in ("mask", "unk") and self.tokenizer is None:
            raise InputError(
                f"this model came without a tokenizer, so its {fill} token is not known. Use the padding token "
                "(fill='pad', baseline='pad'), or load it with a tokenizer: whence.load((module, tokenizer))"
            )

    def _fill_id(self, fill: str) -> int:
        if fill not in self._fills:  # asked for every perturbed input, and tokenizers are slow to answer
            self.check_fill(fill)
            known = (getattr(self.tokenizer, f"{name}_token_id", None) for name in FILLS[fill])
            found = next((i for i in known if i is not None), None)
            self._fills[fill] = int(found) if found is not None else self._pad_id or 0
        return self._fills[fill]


def _holds_nothing(backend: Any) -> bool:
    """Whether all tokens are special and none was written: control characters and the like are left out."""
    return all(backend.special_tokens_mask) and not any(b > a for a, b in backend.offsets)


def _letters(text: str | Sequence[str]) -> int:
    """Of a text without the blanks around it, or of a list of words."""
    return len(text.strip()) if isinstance(text, str) else sum(map(len, text))


def _cut(rows: Sequence[Sequence[int]], like: Sequence[Sequence[int]]) -> Sequence[Tensor]:
    """Rows of numbers, each as long as its row of ids, as parts of one tensor."""
    sizes = [len(row) for row in like]
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    if [len(row) for row in rows] != sizes:
        raise ValueError("not one number for each token")
    cut: Sequence[Tensor] = torch.from_numpy(flat).split(sizes)
    return cut


def _positions(module: nn.Module) -> int | None:
    """The longest input that a table of positions allows which begins to count behind its padding (RoBERTa's)."""
    tables = (m for name, m in module.named_modules() if name.endswith("position_embeddings"))
    found = [len(m.weight) - m.padding_idx - 1 for m in tables if getattr(m, "padding_idx", None) is not None]
    return min(found, default=None)


def _has_pictures(item: Any) -> bool:
    return isinstance(item, Mapping) and ("image" in item or "images" in item)


class TextClassifier(TextAdapter):
    task = "text-classification"


class TokenClassifier(TextAdapter):
    task = "token-classification"

    @property
    def follows(self) -> str | None:
        return IDS.name

    def default_target(self, example: Example) -> AbstractTarget:
        return TokenLabel()

    def target(self, choice: Any) -> AbstractTarget:
        is_label = isinstance(choice, (int, str, np.integer)) and not isinstance(choice, bool)
        return (
            TokenLabel(None, choice if isinstance(choice, str) else int(choice)) if is_label else super().target(choice)
        )


class QuestionAnswering(TextAdapter):
    """Takes pairs (question, context). A text as target is an answer that stands in the context."""

    task = "question-answering"
    classifies = False
    fields = ("start_logits", "end_logits")
    named = ("question", "context")

    @property
    def follows(self) -> str | None:
        return IDS.name

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        if isinstance(item, str) and item.strip():
            raise InputError(
                "a question alone has no answer to find: pass a pair (question, context), "
                "or {'question': …, 'context': …}"
            )
        return super().encode_one(item, truncate=truncate)

    def _from_row(self, row: EncodedRow) -> Example:
        example = super()._from_row(row)
        (part,) = example.parts
        return replace(example, parts=(replace(part, sides=self._sides(row, part)),))

    def _sides(self, row: EncodedRow, part: Features) -> tuple[str, ...]:
        """Question and context of a pair that came encoded: by their types, or by what stands between them."""
        places = list(part.places or range(part.count))
        types, ids = row.inputs.get("token_type_ids"), row.inputs[IDS.name]
        if types is not None and len(types.unique()) > 1:
            return tuple("second" if types[p] else "first" for p in places)
        ends = [p for p in places if int(ids[p]) == getattr(self.tokenizer, "sep_token_id", None)]
        return tuple("second" if p > ends[0] else "first" for p in places) if len(ends) > 1 else ()

    def default_target(self, example: Example) -> AbstractTarget:
        return Answer()

    def target(self, choice: Any) -> AbstractTarget:
        return Answer(text=choice) if isinstance(choice, str) else super().target(choice)
