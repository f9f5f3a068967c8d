"""Names of tokens: what was written, never what the vocabulary lacks."""

from __future__ import annotations

import numpy as np
import pytest

import whence
from tests import small
from whence.models.tokens import read_on, spell_tokens


@pytest.fixture
def model():
    return whence.load((small.classifier(), small.wordpiece()))


@pytest.mark.parametrize("method", ["lrp", "occlusion", "integrated_gradients", "shap", "gae"])
def test_unknown_characters_are_features(model, method):
    """An emoji is a token like any other: not special, not without a score, and shown as it was written."""
    exp = whence.explain(model, "a good 🍕 movie", method)
    assert exp.tokens == ("[CLS]", "a", "good", "🍕", "movie", "[SEP]")
    assert exp.special == (True, False, False, False, False, True)
    assert exp.scores[3] != 0


def test_a_text_of_unknown_characters_is_not_empty(model):
    exp = whence.explain(model, "我爱北京", special_tokens=False)
    assert exp.tokens == ("我", "爱", "北", "京")
    assert np.all(exp.scores != 0)


def test_words_are_shown_as_they_were_written(model):
    exp = whence.explain(model, "Good NAÏVE movie")
    assert "".join(exp.tokens[1:-1]) == "GoodNAÏVEmovie"
    assert [word.text for word in exp.words()][1:-1] == ["Good", "NAÏVE", "movie"]


@pytest.mark.parametrize("text", ["a cafe\u0301 movie", ("good", "a movie\u0301\u0302"), [["goode\u0301", "movie"]]])
def test_accents_of_their_own_stand_with_their_letters(text, model):
    exp = one if isinstance(one := whence.explain(model, text), whence.Explanation) else one[0]
    shown = "".join(t for t, mark in zip(exp.tokens, exp.special, strict=True) if not mark)
    written = text[0] if isinstance(text, list) else (text,) if isinstance(text, str) else text
    assert shown == "".join(written).replace(" ", "")


def test_lists_of_words_keep_their_names_and_sums(model):
    exp = whence.explain(model, [["a", "goodish", "movie"]])[0]
    words = {word.text: word.score for word in exp.words()}
    assert list(words)[1:-1] == ["a", "goodish", "movie"]
    pieces = [i for i, w in enumerate(exp.word_ids) if w == 1]
    assert len(pieces) > 1
    assert words["goodish"] == pytest.approx(float(exp.scores[pieces].sum()), abs=1e-6)


def test_pairs_count_words_on_each_side(model):
    exp = whence.explain(model, ("a movie", "a plot"))
    assert [word.text for word in exp.words()] == ["[CLS]", "a", "movie", "[SEP]", "a", "plot", "[SEP]"]


@pytest.mark.parametrize("tokenizer", [small.bytelevel, small.bytefallback])
def test_characters_of_several_tokens_are_read_behind_each_other(tokenizer):
    """However many of them follow each other, and wherever the text is cut."""
    known, text = tokenizer(), "ab 中文很好，😀😀 a"
    ids = known(text, add_special_tokens=False)["input_ids"]
    for cut in range(1, len(ids)):
        if not known.decode(ids[:cut]).endswith("\ufffd"):
            read, spans = read_on(known, ids[:cut], ids[cut:])
            assert known.decode(ids[:cut]) + read == text
            assert [read[a:b] for a, b in dict.fromkeys(spans)] == list(read)


def test_a_character_that_is_never_complete_is_no_part_of_the_next():
    known = small.bytelevel()
    before, broken, behind = (known(text)["input_ids"] for text in ("ab", "中", "c 文"))
    read, spans = read_on(known, before, [*broken[:2], *behind])
    assert read == "\ufffdc 文"
    assert [read[a:b] for a, b in spans] == ["\ufffd", "\ufffd", "c", " ", "文", "文", "文"]


class Bytes:
    """Reads tokens that are bytes, whatever they begin and end with, as byte-level tokenizers do."""

    pieces = (b"a", b" \xe6", b"\x97", b"\xa5", b"\xe6\x9c\xac", b" ok")

    def decode(self, ids):
        return b"".join(self.pieces[i] for i in ids).decode(errors="replace")


def test_a_token_may_hold_a_space_and_the_beginning_of_a_character():
    read, spans = read_on(Bytes(), [0], [1, 2, 3, 4, 5])
    assert read == " 日本 ok"
    assert [read[a:b] for a, b in spans] == [" 日", " 日", " 日", "本", " ok"]


def test_an_id_that_the_tokenizer_does_not_have_is_shown_as_its_number():
    tokenizer = small.wordpiece()
    assert spell_tokens(tokenizer, [len(tokenizer) + 7]) == (f"<{len(tokenizer) + 7}>",)
