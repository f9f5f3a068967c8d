"""Tokens as they read: spelling, offsets and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["spans_of", "special_in", "spell_tokens"]


def spell_tokens(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """Each id as text of its own. Byte-level pieces of one character can't be read alone: they are shown as is."""
    return tuple(_spelled(tokenizer, int(i)) for i in ids)


def _spelled(tokenizer: Any, i: int) -> str:
    text = str(tokenizer.decode([i]))
    if not text or "\ufffd" in text:
        return str(tokenizer.convert_ids_to_tokens(i))
    begins_word = not text.startswith(" ") and str(tokenizer.convert_ids_to_tokens(i)).startswith("▁")
    return f" {text}" if begins_word else text  # sentencepiece drops the space of what it takes for a first word


def special_in(tokenizer: Any, ids: Sequence[int]) -> tuple[bool, ...]:
    """Which ids are special tokens. An unknown character is none, unless its id means something else as well.

    Without a tokenizer nobody knows.
    """
    special = set(getattr(tokenizer, "all_special_ids", ()))
    names = ("bos", "eos", "sep", "cls", "pad", "mask")
    meant = {getattr(tokenizer, f"{name}_token_id", None) for name in names}
    unknown = getattr(tokenizer, "unk_token_id", None)
    return tuple(int(i) in special and (i != unknown or unknown in meant) for i in ids)


def spans_of(tokenizer: Any, encoding: Any, texts: Sequence[str | Sequence[str]]) -> dict[str, Any]:
    """Names, offsets, words, special marks and sides of the tokens of an encoded text, pair of texts, or list of words.

    Offsets are those of the whole text as it is shown: two texts are two lines, words stand a space apart.
    """
    ids = list(encoding["input_ids"])
    if not getattr(tokenizer, "is_fast", False):
        return {"names": spell_tokens(tokenizer, ids), "special": special_in(tokenizer, ids)}
    backend = encoding.encodings[0]
    starts, text = _starts(texts)
    offsets = tuple(_offset(span, starts, seq, word) for span, seq, word in _places(backend))
    special = tuple(
        bool(mark) or (known and not _is_unknown(tokenizer, i, text[a:b]))
        for mark, known, i, (a, b) in zip(
            backend.special_tokens_mask, _known_special(tokenizer, ids), ids, offsets, strict=True
        )
    )
    # the text itself shows case, accents and characters that the vocabulary may not have
    names = tuple(
        _spelled(tokenizer, int(i)) if s or b <= a else text[a:b]
        for i, (a, b), s in zip(ids, offsets, special, strict=True)
    )
    sides: tuple[str, ...] = ()
    if len(texts) > 1:
        sides = tuple({None: "", 0: "first", 1: "second"}[s] for s in backend.sequence_ids)
    return {
        "names": names,
        "offsets": offsets,
        "word_ids": _words(text, offsets, special, [None if isinstance(t, str) else t for t in texts], backend),
        "special": special,
        "sides": sides,
    }


def _known_special(tokenizer: Any, ids: Sequence[int]) -> list[bool]:
    special = set(getattr(tokenizer, "all_special_ids", ()))
    return [int(i) in special for i in ids]


def _is_unknown(tokenizer: Any, i: int, piece: str) -> bool:
    """Whether an id stands for something that was written and that the vocabulary does not have."""
    return i == getattr(tokenizer, "unk_token_id", None) and piece.strip() not in ("", tokenizer.unk_token)


def _places(backend: Any) -> list[tuple[tuple[int, int], int, int]]:
    """Per token: its span, which text it is of, and which given word."""
    sequences = [s or 0 for s in backend.sequence_ids]
    words = [w or 0 for w in backend.word_ids]
    return [((int(a), int(b)), s, w) for (a, b), s, w in zip(backend.offsets, sequences, words, strict=True)]


def _starts(texts: Sequence[str | Sequence[str]]) -> tuple[list[list[int]], str]:
    """Where each text (and in lists each word) begins in the text as it is shown; and that text."""
    starts, shown, at = [], [], 0
    for text in texts:
        words = [text] if isinstance(text, str) else list(text)
        begins = []
        for word in words:
            begins.append(at)
            at += len(word) + 1
        starts.append(begins)
        shown.append(" ".join(words))
    return starts, "\n".join(shown)


def _offset(span: tuple[int, int], starts: list[list[int]], sequence: int, word: int) -> tuple[int, int]:
    a, b = span
    if b <= a:
        return (0, 0)
    begins = starts[sequence]
    shift = begins[word] if len(begins) > 1 else begins[0]
    return (a + shift, b + shift)


def _words(
    text: str,
    offsets: Sequence[tuple[int, int]],
    special: Sequence[bool],
    given: Sequence[Sequence[str] | None],
    backend: Any,
) -> tuple[int | None, ...]:
    """Words are what stands between white space, or the words that were given.

    Tokenizers that split at punctuation or not at all agree on that.
    """
    if given[0] is not None:
        return tuple(None if s else w for w, s in zip(backend.word_ids, special, strict=True))
    number, owner, inside = -1, [], False
    for character in text:
        if character.isspace():
            inside = False
            owner.append(-1)
        else:
            number += not inside
            inside = True
            owner.append(number)
    words: list[int | None] = []
    for (start, stop), mark in zip(offsets, special, strict=True):
        held = [w for w in owner[start:stop] if w >= 0]
        words.append(None if mark or not held else held[0])
    return tuple(words)
