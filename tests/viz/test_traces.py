"""Traces as text, fragments and pages; tests/browser opens the pages."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
from rich.console import Console

from tests.viz import made
from whence.results import Explanation, Part, Trace
from whence.results.showing import draw
from whence.viz import trace_page
from whence.viz.passages import others, passages, spoken
from whence.viz.trace_map import trace_map


def data(page: str) -> dict:
    return json.loads(re.search(r'id="whence-data">(.*?)</script>', page, re.DOTALL)[1])


def read(trace: Trace) -> list[tuple[str, str]]:
    return [(p.name, "".join(cell.gap + cell.text for cell in p.cells)) for p in passages(trace)]


def test_passages_are_the_sides_and_what_was_written():
    assert read(made.trace()) == [
        ("template", "<s>"),
        ("user", "Name a <b> city."),
        ("template", "</s>"),
        ("written", "Rome is nice</s>"),
    ]
    written = passages(made.trace())[-1].cells
    assert [cell.text for cell in written] == ["Rome", "is", "nice", "</s>"], "the space before a token is not coloured"
    assert [cell.special for cell in written] == [False, False, False, True]
    assert spoken(made.trace()) == "Name a <b> city."


def test_words_and_sentences_keep_the_space_between_them():
    for unit in ("word", "sentence"):
        assert read(made.trace().by(unit, rows="word")) == read(made.trace())


def test_tokens_that_nobody_placed_stand_as_they_read():
    bare = replace(made.trace().whole, offsets=(), text=None, word_ids=())
    assert read(made.trace(whole=bare)) == read(made.trace())
    split = replace(bare, tokens=("<s>", "Na", "me", " <b>", " ci", "ty", "</s>", " Rome", " is", " nice"))
    assert read(made.trace(whole=split))[1] == ("user", "Name <b> city")


def test_a_page_without_a_prompt_is_called_by_what_was_written():
    sides = ("template",) * 7 + ("continuation",) * 3
    assert spoken(made.trace(whole=replace(made.trace().whole, sides=sides))) == "Rome is nice</s>"


def test_rows_that_share_a_column_are_all_there():
    trace = made.trace().by("sentence")
    cells = passages(trace)[-1].cells
    assert [(cell.start, cell.stop) for cell in cells] == [(3, 4)] * 3 + [(4, 4)]


def test_text_names_each_row_its_score_and_its_sources():
    lines = draw(made.trace(), "txt").splitlines()
    assert lines[0] == "written: Rome is nice</s> = +7.0000   method: lrp   4 written × 10 earlier"
    assert lines[1] == "+3.0000\tRome\tcity +2.00 · Name +0.50 · <b> +0.25"
    assert lines[3] == "+1.0000\tnice\tRome +1.50 · city -1.00 · is +0.50"
    assert lines[5] == "template: +1.7500   user: +1.2500   written: +4.0000"
    assert lines[6].startswith("receipt: inputs +7.0000")


def test_a_trace_without_scores_of_its_rows_is_drawn():
    bare = made.trace(target_scores=(), receipts=(), targets=())
    assert draw(bare, "txt").splitlines()[1].startswith("\tRome")
    assert data(draw(bare, "html"))["receipts"] == []


def test_a_terminal_shows_the_text_and_does_not_obey_it():
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(made.trace(written=(" \x1b[2JRome", " is", " nice", "</s>")))
    shown = console.file.getvalue()
    assert "Name a <b> city." in shown
    assert "\x1b" not in shown
    assert "city +2.00" in shown


def test_a_fragment_is_escaped_and_coloured_by_the_sum():
    html = draw(made.trace(), "notebook")
    texts = "".join(ElementTree.fromstring(html).itertext())
    assert "Name a <b> city." in texts
    assert "<b> city" not in html
    assert re.search(r"background:#e66101[^>]*>Rome<", html), "the strongest of all"
    assert "from: city +2.00" in html


def test_scores_come_back_to_a_step():
    scores = np.random.default_rng(0).normal(size=(4, 10)).astype(np.float32)
    found = data(draw(made.trace(scores=scores), "html"))
    steps = np.frombuffer(base64.b64decode(found["scores"]), "<i2").reshape(4, 10)
    largest = np.abs(scores).max(1)
    back = steps * np.array(found["steps"])[:, None]
    assert (np.abs(back - scores).max(1) <= 0.51 * largest / 32767).all()  # half a step, and the rounding of its size


def test_scores_that_are_not_finite_are_marked():
    steps, sizes = trace_page.steps_of(np.array([[np.nan, 2.0], [0.0, 0.0]]))
    assert steps.tolist() == [[-32768, 32767], [0, 0]]
    assert sizes[1] == 0.0


def test_a_large_trace_makes_a_small_file():
    count, width = 500, 2000
    whole = Explanation(np.zeros(width), tokens=tuple(f" t{n}" for n in range(width)), method="lrp", target_score=0.0)
    places = tuple((width - count + 1 + n, width - count + 2 + n) for n in range(count - 1)) + ((width, width),)
    scores = np.random.default_rng(0).normal(size=(count, width))
    page = draw(Trace(scores, whole, tuple(f" t{n}" for n in range(count)), places), "html")
    assert len(page) < 4_000_000  # two bytes for a score, in base64


def test_no_token_ends_the_element_that_holds_the_data():
    page = draw(made.trace(written=("</script>", "<!--", " nice", "</s>")), "html")
    assert data(page)["passages"][-1]["cells"][0][1] == "</script>"
    assert page.count("</script>") == 2


def test_without_a_script_the_whole_is_there():
    still = re.search(r"<noscript>(.*?)</noscript>", draw(made.trace(), "html"), re.DOTALL)[1]
    assert "Name" in still
    assert 'class="w-t w-p24" title="+2.5">Rome<' in still
    assert "receipt: inputs" in still


def seen() -> Trace:
    """Two tokens, one written, and a picture of 2 × 2 squares."""
    whole = Explanation(
        np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), tokens=("a", " b", *(f"patch {n}" for n in range(4))),
        sides=("prompt", "continuation", *("picture",) * 4), target="b c", method="lrp",
        image=np.full((8, 8, 3), 128, np.uint8),
        parts=(Part("input_ids", "token", shape=(2,)), Part("pixel_values", "patch", shape=(2, 2))),
    )  # fmt: skip
    return Trace(np.stack([whole.scores, whole.scores]) / 2, whole, (" b", " c"), ((1, 2), (2, 2)))


def test_pictures_are_named_and_drawn_beside_the_text():
    assert [(name, own) for name, own, _ in others(seen())] == [("picture", slice(2, 6))]
    assert "picture: +18.0000" in draw(seen(), "txt")
    (picture,) = data(draw(seen(), "html"))["others"]
    assert picture["squares"] == [[2, 3], [4, 5]]
    assert picture["image"].startswith("data:image/png;base64,")
    assert read(seen()) == [("prompt", "a"), ("written", "b c")]
    for kind in ("notebook", "terminal", "svg"):
        draw(seen(), kind)


def test_a_sound_without_a_picture_says_its_share():
    heard = replace(
        seen(),
        whole=replace(
            seen().whole,
            image=None,
            parts=(
                Part("decoder_input_ids", "token", shape=(2,)),
                Part("input_values", "frame", shape=(4,), seconds=0.5),
            ),
        ),
    )
    assert "sound: +18.0000" in draw(heard, "txt")
    assert data(draw(heard, "html"))["others"][0]["name"] == "sound"


def test_the_map_names_tokens_where_they_fit():
    assert ">nice<" in trace_map(made.trace()).svg
    wide = Trace(
        np.ones((2, 300)), Explanation(np.ones(300), tokens=("x",) * 300), ("a", "b"), ((299, 300), (300, 300))
    )
    assert "300 earlier" in trace_map(wide).svg


def test_a_character_of_several_tokens_stands_once():
    whole = Explanation(
        np.ones(6), tokens=("🐝", "🐝", " ه", "ه", "a", "b"), text="🐝 هab",
        offsets=((0, 1), (0, 1), (1, 3), (2, 3), (3, 4), (4, 5)), sides=("user",) * 5 + ("continuation",), target="b",
    )  # fmt: skip
    user, _ = passages(Trace(whole.scores[None], whole, ("b",), ((5, 6),)))
    assert "".join(cell.gap + cell.text for cell in user.cells) == "🐝 هa"
    assert [cell.text for cell in user.cells] == ["🐝", "", "ه", "", "a"]
    assert [(cell.start, cell.stop) for cell in user.cells] == [(n, n + 1) for n in range(5)]
