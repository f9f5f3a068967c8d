"""Tokens as they read: spelling, offsets and words."""

from __future__ import annotations

import re
import unicodedata
import weakref
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

__all__ = ["PARTIAL", "read_on", "spans_of", "special_in", "spell_tokens", "words_in"]


class _Known:
    """What a tokenizer said before. It is asked for every text, and slow to answer."""

    def __init__(self, tokenizer: Any):
        self.size = len(tokenizer)
        self.special = frozenset(int(i) for i in getattr(tokenizer, "all_special_ids", ()))
        self.unknown = getattr(tokenizer, "unk_token_id", None)
        names = ("bos", "eos", "sep", "cls", "pad", "mask")
        meant = {getattr(tokenizer, f"{name}_token_id", None) for name in names}
        unknown = {self.unknown} - meant
        self.never_unknown = self.special - unknown
        """Special tokens without the one for unknown characters, unless that means something else as well."""
        self.spelled: dict[int, str] = {}


_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()


def _known_of(tokenizer: Any) -> _Known:
    found = _known.get(tokenizer)
    if found is None or found.size != len(tokenizer):  # tokens were added
        found = _known[tokenizer] = _Known(tokenizer)
    return found


def spell_tokens(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """Each id as text of its own. Byte-level pieces of one character can't be read alone: they are shown as is."""
    known, plain = _known_of(tokenizer), [int(i) for i in ids]
    for i in set(plain).difference(known.spelled):
        _spelled(tokenizer, i, known)
    return tuple(map(known.spelled.__getitem__, plain))


def _spelled(tokenizer: Any, i: int, known: _Known) -> str:
    if i not in known.spelled:
        text = str(tokenizer.decode([i]))
        if not text or PARTIAL in text:
            own = tokenizer.convert_ids_to_tokens(i)
            text = f"<{i}>" if own is None else str(own)  # models may have rows for more tokens than there are
        elif not text.startswith(" ") and str(tokenizer.convert_ids_to_tokens(i)).startswith("▁"):
            text = f" {text}"  # sentencepiece drops the space of what it takes for a first word
        known.spelled[i] = text
    return known.spelled[i]


def special_in(tokenizer: Any, ids: Sequence[int]) -> tuple[bool, ...]:
    """Which ids are special tokens. An unknown character is none, unless its id means something else as well.

    Without a tokenizer nobody knows.
    """
    if tokenizer is None:
        return (False,) * len(ids)
    return tuple(map(_known_of(tokenizer).never_unknown.__contains__, map(int, ids)))


def spans_of(tokenizer: Any, ids: Sequence[int], backend: Any, texts: Sequence[str | Sequence[str]]) -> dict[str, Any]:
    """Names, offsets, words, special marks and sides of the tokens of an encoded text, pair of texts, or list of words.

    Offsets are those of the whole text as it is shown: two texts are two lines, words stand a space apart. `backend` is
    what a fast tokenizer knows of them, None for others.
    """
    if backend is None:
        return {"names": spell_tokens(tokenizer, ids), "special": special_in(tokenizer, ids)}
    known = _known_of(tokenizer)
    starts, text = _starts(texts)
    offsets = _with_marks(text, _offsets(backend, starts))
    special = tuple(
        bool(mark) or (i in known.special and not _is_unknown(tokenizer, known, i, text[a:b]))
        for mark, i, (a, b) in zip(backend.special_tokens_mask, ids, offsets, strict=True)
    )
    # the text itself shows case, accents and characters that the vocabulary may not have
    names = tuple(
        _spelled(tokenizer, int(i), known) if s or b <= a else text[a:b]
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


def _is_unknown(tokenizer: Any, known: _Known, i: int, piece: str) -> bool:
    """Whether an id stands for something that was written and that the vocabulary does not have."""
    return i == known.unknown and piece.strip() not in ("", tokenizer.unk_token)


def _offsets(backend: Any, starts: list[list[int]]) -> tuple[tuple[int, int], ...]:
    """Where each token stands in the text as it is shown."""
    if len(starts) == 1 and len(starts[0]) == 1:
        return tuple((a, b) if b > a else (0, 0) for a, b in backend.offsets)
    sequences = [s or 0 for s in backend.sequence_ids]
    words = [w or 0 for w in backend.word_ids]
    return tuple(
        _offset((int(a), int(b)), starts, s, w) for (a, b), s, w in zip(backend.offsets, sequences, words, strict=True)
    )


def _with_marks(text: str, offsets: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """An accent that the tokenizer strips stands with the letter that it is written on."""
    begins = {a for a, _ in offsets}

    def end(b: int) -> int:
        while b < len(text) and b not in begins and unicodedata.category(text[b]) == "Mn":
            b += 1
        return b

    return tuple((a, end(b)) if b > a else (a, b) for a, b in offsets)


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


CONTEXT = 4
"""Tokens before one that decide how it reads: whether a space stands before it, of which character it is a part."""
PARTIAL = "\ufffd"
"""How a part of a character reads."""


def read_on(tokenizer: Any, before: Sequence[int], ids: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
    """How ids read behind others, and where in that text each of them stands.

    Tokens that are parts of one character stand where it stands.
    """
    known, text, spans = [*before[-CONTEXT:], *ids], "", []
    first, waiting, held = len(known) - len(ids), 0, ""
    for n in range(first, len(known)):
        base, context = _ending(tokenizer, known[max(0, n - CONTEXT - waiting) : n - waiting])
        whole = str(tokenizer.decode([*context, *known[n - waiting : n + 1]]))
        piece = whole[len(base) :] if whole.startswith(base) else str(tokenizer.decode(known[n - waiting : n + 1]))
        if held and piece.startswith(held) and piece[len(held) :].strip(PARTIAL):  # held is no part of what follows
            spans += [(len(text), len(text) + len(held))] * waiting
            text, piece, waiting = text + held, piece[len(held) :], 0
        waiting, held = waiting + 1, piece
        if piece.endswith(PARTIAL) and waiting < CONTEXT and n + 1 < len(known):  # a character is not complete
            continue
        spans += [(len(text), len(text) + len(piece))] * waiting
        text, waiting, held = text + piece, 0, ""
    return text, spans


def _ending(tokenizer: Any, ids: Sequence[int]) -> tuple[str, Sequence[int]]:
    """How ids read, without those at their beginning that are the rest of a character: a tokenizer may take bytes that
    follow each other for one, and read none where the first is missing."""
    read = str(tokenizer.decode(ids)) if ids else ""
    while read.startswith(PARTIAL):
        ids = ids[1:]
        read = str(tokenizer.decode(ids)) if ids else ""
    return read, ids


def words_in(text: str, offsets: Sequence[tuple[int, int]], special: Sequence[bool]) -> tuple[int | None, ...]:
    """Of which word of a text each token is a part: what stands between white space."""
    return _words(text, offsets, special, [None], None)


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
        before = (0, len(given[0]))  # words of a second list are counted on
        places = zip(backend.word_ids, backend.sequence_ids, special, strict=True)
        return tuple(None if s or w is None else w + before[n or 0] for w, n, s in places)
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    begins = [word.start() for word in re.finditer(r"\S+", text)]
    words: list[int | None] = []
    for (start, stop), mark in zip(offsets, special, strict=True):
        word = bisect_right(ends, start)  # the first that ends behind where the token begins
        words.append(None if mark or word == len(ends) or begins[word] >= stop else word)
    return tuple(words)
