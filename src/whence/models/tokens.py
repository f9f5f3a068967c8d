"""Tokens as they read: spelling, offsets and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["spans_of", "spell_tokens"]


def spell_tokens(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """Each id as text of its own. Byte-level pieces of one character can't be read alone: they are shown as is."""
    spelled = []
    for i in ids:
        text = tokenizer.decode([i])
        spelled.append(text if text and "\ufffd" not in text else str(tokenizer.convert_ids_to_tokens(int(i))))
    return tuple(spelled)


def spans_of(tokenizer: Any, encoding: Any, text: str | None) -> dict[str, Any]:
    """Tokens, offsets, word ids and special marks of one encoded text."""
    ids = encoding["input_ids"]
    known = set(getattr(tokenizer, "all_special_ids", ()))
    special = tuple(i in known for i in ids)
    if not getattr(tokenizer, "is_fast", False):
        return {"tokens": spell_tokens(tokenizer, ids), "special": special}
    backend = encoding.encodings[0]
    offsets = tuple((int(a), int(b)) for a, b in backend.offsets)
    if any(s for s in backend.special_tokens_mask):
        special = tuple(bool(s) or m for s, m in zip(backend.special_tokens_mask, special, strict=True))
    words = _words(text, offsets, special, backend.word_ids)
    pieces = spell_tokens(tokenizer, ids)
    if text is not None:  # the text itself shows case and accents that the vocabulary may not have
        pieces = tuple(
            piece if mark or b <= a else text[a:b] for piece, (a, b), mark in zip(pieces, offsets, special, strict=True)
        )
    return {"tokens": pieces, "offsets": offsets if text is not None else (), "word_ids": words, "special": special}


def _words(
    text: str | None, offsets: Sequence[tuple[int, int]], special: Sequence[bool], given: Sequence[int | None]
) -> tuple[int | None, ...]:
    """Words are what stands between white space; tokenizers that split at punctuation or not at all agree on that."""
    if text is None:
        return tuple(None if s else w for w, s in zip(given, special, strict=True))
    number, owner = -1, []
    inside = False
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
