"""Figures for papers: as wide as a column to the point, fonts that venues take, the same letters in every viewer."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.viz import made
from whence import viz
from whence.errors import InputError, OptionError
from whence.results.showing import draw

RESULTS = made.every()
WIDTHS = {"single": 3.25, "double": 6.75}


@pytest.mark.parametrize("column", WIDTHS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_figure_is_as_wide_as_its_column(name, column):
    sheet = draw(RESULTS[name], "figure").sheet(column, "serif")
    assert sheet.size[0] == pytest.approx(WIDTHS[column], abs=1e-6)
    for shape in sheet.shapes:
        left = getattr(shape, "x", getattr(shape, "x1", 0.0))
        assert -30 <= left <= sheet.width + 1, (name, shape)  # a turned or right-aligned text begins beyond its place


def test_a_pdf_has_its_width_and_no_type_3_font(tmp_path):
    path = RESULTS["text"].save(tmp_path / "x.pdf", column="single", font="serif")
    raw = path.read_bytes()
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", raw)
    assert float(box[1]) == pytest.approx(3.25 * 72, abs=0.01)
    assert b"/Type3" not in raw
    assert b"/FontFile2" in raw, "the fonts themselves are inside"
    assert b"/Type3" not in RESULTS["text"].save(tmp_path / "y.pdf").read_bytes()


def test_letters_of_an_svg_are_outlines_and_what_they_say_is_kept(tmp_path):
    svg = RESULTS["text"].save(tmp_path / "x.svg", column="single", font="serif").read_text()
    root = ElementTree.fromstring(svg)
    assert root.get("width") == "3.25in"
    assert "<text" not in svg
    assert "font-family" not in svg
    assert 'aria-label="gem"' in svg


def test_serif_and_sans_differ():
    figure = viz.tokens(made.explanation("a gem of a film"))
    assert figure.on_paper(".svg", "single", "serif") != figure.on_paper(".svg", "single", "sans")


def test_a_png_is_fine_enough_for_print(tmp_path):
    content = RESULTS["text"].save(tmp_path / "x.png", column="single").read_bytes()
    assert Image.open(io.BytesIO(content)).width == pytest.approx(3.25 * 600, abs=2)


def test_what_is_no_figure_has_no_column(tmp_path):
    with pytest.raises(InputError, match=r"\.pdf \.png \.svg"):
        RESULTS["text"].save(tmp_path / "x.html", column="single")
    with pytest.raises(OptionError, match="double"):
        RESULTS["text"].save(tmp_path / "x.pdf", column="triple")
    with pytest.raises(OptionError, match="serif"):
        RESULTS["text"].save(tmp_path / "x.pdf", font="times")


def test_numbers_that_are_read_together_have_the_same_decimals():
    figure = viz.bars(made.explanation("a dull gem", [0.5, -2.0, 0.031]))
    texts = [s.text for s in figure.drawing.shapes if type(s).__name__ == "Text"]
    assert {"−2.00", "+0.50", "+0.03"} <= set(texts)
    assert not [t for t in texts if re.search(r"(?<!\w)-\d", t)], "a true minus everywhere"


@pytest.mark.parametrize("name", RESULTS)
def test_no_figure_has_a_hyphen_for_a_minus(name):
    shapes = draw(RESULTS[name], "figure").drawing.shapes
    assert not [s.text for s in shapes if type(s).__name__ == "Text" and re.search(r"(?<![\w.])-[\d.]", s.text)]
