"""Coloured text: where boxes are, what colours they have, and how it grows."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from tests.viz.made import explanation, image
from whence import viz
from whence.errors import InputError
from whence.results import Comparison, Conservation, Prediction
from whence.viz.colour import blend, heat, shade
from whence.viz.drawing import Rect, Text
from whence.viz.metrics import measure


def boxes(figure, title=""):
    return {s.title.split()[0]: s for s in figure.drawing.shapes if isinstance(s, Rect) and s.title.startswith(title)}


def test_colours_of_known_scores():
    found = boxes(viz.tokens(explanation("good dull so", [2.0, -2.0, 0.0])))
    assert found["good"].fill == "#e66101"
    assert found["dull"].fill == "#2166ac"
    assert found["so"].fill == "#ffffff", "zero is white"


def test_half_the_score_is_half_the_colour():
    assert blend(0.5, 1.0) == (242, 176, 128)
    assert shade(0.5, 1.0) == "#f2b080"
    assert shade(float("nan"), 1.0) == "#ffffff"
    assert heat(np.array([[1.0, 0.0, -1.0]]), 1.0).tolist() == [[[230, 97, 1], [255, 255, 255], [33, 102, 172]]]


def test_boxes_enclose_their_text():
    drawing = viz.tokens(explanation("some words to be set", cut=3)).drawing
    texts = [s for s in drawing.shapes if isinstance(s, Text) and s.width]
    rects = [s for s in drawing.shapes if isinstance(s, Rect)]
    for text in texts:
        inside = [r for r in rects if r.y < text.y < r.y + r.height]
        assert min(r.x for r in inside) <= text.x
        assert max(r.x + r.width for r in inside) >= text.x + text.width
    assert sum(t.width for t in texts) == pytest.approx(sum(measure(t.text, t.size) for t in texts))


def test_text_wraps_at_the_width_asked_for():
    exp = explanation("word " * 100)
    for width in (300, 700):
        drawing = viz.tokens(exp, width=width).drawing
        assert drawing.width == width
        assert max(s.x + s.width for s in drawing.shapes if isinstance(s, Rect)) <= width
    assert viz.tokens(exp, width=300).drawing.height > viz.tokens(exp, width=700).drawing.height


def test_one_scale_across_a_shared_comparison():
    small, large = explanation("gem", [1.0], method="gi"), explanation("gem", [4.0])
    own = [s.fill for s in viz.tokens(Comparison((small, large))).drawing.shapes if isinstance(s, Rect)]
    shared = [
        s.fill for s in viz.tokens(Comparison((small, large)), scale="shared").drawing.shapes if isinstance(s, Rect)
    ]
    assert own == ["#e66101", "#e66101"]
    assert shared == [shade(1.0, 4.0), "#e66101"]


def test_a_comparison_has_one_line_per_method_under_each_other():
    found = Comparison(tuple(explanation("gem", [1.0], method=m) for m in ("gi", "lrp", "gae")))
    names = [s for s in viz.tokens(found).drawing.shapes if isinstance(s, Text) and s.bold]
    assert [s.text for s in names] == ["positive", "gi", "lrp", "gae"]
    assert [s.y for s in names] == sorted(s.y for s in names)


def test_header_legend_and_receipt_are_there():
    exp = explanation(
        conservation=Conservation(1.0, 1.5, {"bias": 0.5}), prediction=Prediction(("positive",), (1.5,), (0.951,))
    )
    texts = " ".join(s.text for s in viz.tokens(exp).drawing.shapes if isinstance(s, Text))
    for part in ("positive  +1.5", "by lrp", "95.1\xa0%", "−1 against", "for +1", "inputs +1.0000 bias +0.5000"):
        assert part in texts


def test_words_are_merged():
    found = boxes(viz.tokens(explanation("gems", [0.25, 0.5], cut=2), words=True))
    assert list(found) == ["gems"]
    assert found["gems"].title.endswith("+0.75")


def test_ten_thousand_tokens_stay_small():
    text = " ".join(f"word{n:x}" for n in range(5_000))  # two tokens each
    exp = explanation(text, np.random.default_rng(0).normal(size=10_000).tolist(), cut=4)
    svg = viz.tokens(exp).svg
    root = ElementTree.fromstring(svg)
    assert len(svg) < 1_500_000
    assert sum(1 for _ in root.iter()) < 10_000, "fewer elements than tokens"
    shown = "".join(t.text for t in root.iter("{http://www.w3.org/2000/svg}text"))
    assert all(word in shown for word in text.split()), "nothing is dropped"
    html = exp._repr_html_()
    assert len(html) < 800_000
    assert html.partition("</style>")[2].count("style=") < 10, "tokens have classes"


def test_what_is_invisible_is_not_drawn_in_long_texts():
    exp = explanation("gem " * 2000, [1.0, *[0.0] * 1999])
    assert sum(isinstance(s, Rect) for s in viz.tokens(exp).drawing.shapes) == 1


def test_the_strongest_of_a_long_text_are_named():
    exp = explanation("dull " * 500 + "gem", [*[0.01] * 500, 3.0])
    assert any("gem +3" in s.text for s in viz.tokens(exp).drawing.shapes if isinstance(s, Text))


def test_images_have_no_tokens():
    with pytest.raises(InputError, match=r"viz\.overlay"):
        viz.tokens(image())
