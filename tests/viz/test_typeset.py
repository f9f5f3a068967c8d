"""Tokens set into lines, with letters of one width: places can be counted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.viz.made import explanation
from whence.results import Explanation
from whence.viz.typeset import pieces, typeset


def ten(text: str, size: float, bold: bool) -> float:
    """Ten pixels a letter; wide ones twenty, joiners nothing."""
    return sum(0 if c == "\u200d" else 20 if ord(c) > 0x2E7F else 10 for c in text)


def lines(exp: Explanation, width: float) -> list[list[str]]:
    """What stands on each line, from left to right."""
    placed, number = typeset(exp, ten, 10, width)
    return [[p.text for p in sorted(placed, key=lambda p: p.x) if p.line == n] for n in range(number)]


def test_words_wrap_and_places_are_counted():
    placed, number = typeset(explanation("not a gem"), ten, 10, 60)
    assert number == 2
    assert [(p.text, p.x, p.width, p.line) for p in placed] == [("not", 0, 30, 0), ("a", 40, 10, 0), ("gem", 0, 30, 1)]


def test_a_line_exactly_full_is_not_broken():
    assert lines(explanation("not a gem"), 90) == [["not", "a", "gem"]]
    assert lines(explanation("not a gem"), 89) == [["not", "a"], ["gem"]]


def test_subwords_stay_together_and_close():
    exp = explanation("un gem", cut=2)
    assert lines(exp, 50) == [["un"], ["ge", "m"]]
    placed, _ = typeset(exp, ten, 10, 50)
    assert [(p.left, p.right) for p in placed] == [(True, True), (True, False), (False, True)]
    assert placed[2].x == placed[1].x + placed[1].width


def test_a_word_longer_than_a_line_is_cut_and_nothing_is_lost():
    assert lines(explanation("abcdefgh"), 30) == [["abc"], ["def"], ["gh"]]
    assert {p.token for p in typeset(explanation("abcdefgh"), ten, 10, 30)[0]} == {0}


def test_line_breaks_of_the_text_are_kept():
    assert lines(explanation("a\n\nb"), 500) == [["a"], ["b"]]


def test_right_to_left_lines_start_at_the_right():
    placed, _ = typeset(explanation("אבג דה"), ten, 10, 100)
    assert [(p.text, p.x) for p in placed] == [("דה", 40), ("אבג", 70)]
    assert all(p.rtl for p in placed)


def test_right_to_left_wraps_in_reading_order():
    assert lines(explanation("אבג דה וז"), 60) == [["דה", "אבג"], ["וז"]]


def test_names_within_hebrew_run_to_the_right_and_brackets_turn():
    assert lines(explanation("אב my gem (גד)"), 500) == [["(", "גד", ")", "my", "gem", "אב"]]


def test_chinese_breaks_anywhere_but_before_a_full_stop():
    assert lines(explanation("电影很好。", cut=1), 80) == [["电", "影", "很"], ["好", "。"]]


def test_arabic_letters_stay_joined_within_a_word():
    assert lines(explanation("مرحبا", cut=3), 500) == [["\u200dبا", "مرح\u200d"]]


def test_arabic_words_are_not_joined_to_each_other():
    assert lines(explanation("مرحبا عالم"), 500) == [["عالم", "مرحبا"]]


def test_parts_of_the_input_stand_on_lines_of_their_own():
    exp = Explanation(
        scores=np.zeros(6),
        tokens=("[CLS]", "so", "ft", "[SEP]", "so", "ft"),
        word_ids=(None, 0, 0, None, 0, 0),
        sides=("", "first", "first", "", "second", "second"),
    )
    assert [p.gap + p.text for p in pieces(exp)] == ["[CLS]", " so", "ft", " [SEP]", "\nso", "ft"]
    assert lines(exp, 500) == [["[CLS]", "so", "ft", "[SEP]"], ["so", "ft"]]


def test_special_tokens_stand_apart_and_blank_tokens_are_seen():
    exp = Explanation(scores=np.zeros(4), tokens=("[CLS]", " Paris", "\n", " "))
    assert [p.gap + p.text for p in pieces(exp)] == ["[CLS]", " Paris", "⏎", " "]
    assert lines(exp, 500) == [["[CLS]", "Paris", "⏎"], ["␣"]]


@given(st.text(st.sampled_from("ab אב电。(),\n 1"), min_size=1, max_size=40), st.integers(0, 2), st.integers(20, 200))
def test_every_letter_is_placed_once_within_the_line(text, cut, width):
    exp = explanation(text, cut=cut)
    if not exp.tokens:
        return
    placed, number = typeset(exp, ten, 10, width)
    letters = sorted("".join(p.text for p in placed).translate(str.maketrans(")", "(")))
    assert letters == sorted("".join(exp.tokens).translate(str.maketrans(")", "(")))
    for n in range(number):
        row = sorted((p.x, p.x + p.width) for p in placed if p.line == n)
        assert row[0][0] >= -1e-6
        assert row[-1][1] <= width + 1e-6
        assert all(stop <= start + 1e-6 for (_, stop), (start, _) in pairwise(row)), "no overlap"


def test_no_width_is_too_small():
    assert lines(explanation("ab"), 1) == [["a"], ["b"]]


def written(*tokens: str) -> Explanation:
    """Tokens that hold their own white space, as language models write them."""
    ends = np.cumsum([len(token) for token in tokens]).tolist()
    places = tuple(zip([0, *ends[:-1]], ends, strict=True))
    return Explanation(scores=np.zeros(len(tokens)), tokens=tokens, offsets=places, text="".join(tokens))


def test_code_keeps_its_lines_and_its_indentation():
    code = written("def", " f", "():", "\n   ", " if", " a", ":", "\n       ", " return", "\n\n", "x")
    assert lines(code, 400) == [["def", "f", "():", "⏎"], ["if", "a", ":", "⏎"], ["return", "⏎⏎"], ["x"]]
    placed, _ = typeset(code, ten, 10, 400)
    assert [p.x for p in placed if p.text in ("def", "if", "return", "x")] == [0, 40, 80, 0]


def test_lines_of_a_text_keep_their_indentation_and_wrap_under_it():
    placed, number = typeset(explanation("if a:\n  bb cc"), ten, 10, 60)
    assert number == 3
    assert [(p.text, p.x, p.line) for p in placed if p.text in ("bb", "cc")] == [("bb", 20, 1), ("cc", 20, 2)]


def test_marks_stand_on_their_letter_whatever_token_they_are_in():
    found, _ = typeset(written("كتاب", "\u064bا"), ten, 10, 400)
    by_token = {p.token: p.text.replace("\u200d", "") for p in found}
    assert by_token == {0: "كتاب\u064b", 1: "ا"}
    alone, _ = typeset(written("جد", "\u064b", "\u0651", "ا"), ten, 10, 400)
    texts = {p.token: p.text.replace("\u200d", "") for p in alone}
    assert texts[0] == "جد\u064b\u0651"
    assert texts[1] == texts[2] == "\u2009", "a sliver keeps the colour"


def test_letters_join_through_a_mark_at_the_end_of_a_token():
    found, _ = typeset(written("كتب\u064e", "ت"), ten, 10, 400)
    assert [p.text for p in sorted(found, key=lambda p: p.token)] == ["كتب\u064e\u200d", "\u200dت"]
