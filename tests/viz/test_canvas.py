"""PDF and PNG: size, places and colours of pixels, fonts."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
from PIL import Image

from tests.viz.made import explanation
from whence import viz
from whence.viz import fonts
from whence.viz.canvas import to_pdf, to_png
from whence.viz.drawing import Dot, Drawing, Line, Polygon, Raster, Rect, Text


def pixels(*shapes, scale=1.0, width=40, height=30):
    return np.asarray(Image.open(io.BytesIO(to_png(Drawing(width, height, shapes), scale))))


def test_a_png_has_the_size_of_the_drawing_times_its_scale():
    assert pixels().shape == (30, 40, 3)
    assert pixels(scale=3).shape == (90, 120, 3)
    assert (pixels() == 255).all(), "the sheet is white"


def test_a_box_is_where_it_should_be():
    found = pixels(Rect(10, 5, 20, 10, "#e66101"))
    assert (found[6:14, 11:29] == (230, 97, 1)).all()
    assert (found[:4] == 255).all()
    assert (found[16:] == 255).all()


def test_shapes_cover_what_they_should():
    red, green, blue, grey = "#ff0000", "#00ff00", "#0000ff", "#808080"
    corner = ((0, 0), (10, 0), (0, 10))
    found = pixels(Dot(30, 20, 5, red), Polygon(corner, green), Line(0, 25, 20, 25, blue, 4), Rect(38, 0, 2, 2, grey))
    assert found[20, 30].tolist() == [255, 0, 0]
    assert found[2, 2].tolist() == [0, 255, 0]
    assert found[25, 10].tolist() == [0, 0, 255]
    assert found[0, 39].tolist() == [128, 128, 128]


def test_a_raster_stands_upright():
    quarters = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [0, 0, 0]]], np.uint8)
    found = pixels(Raster(10, 5, 20, 20, quarters))
    assert found[8, 13].tolist() == [255, 0, 0]
    assert found[8, 27].tolist() == [0, 255, 0]
    assert found[22, 13].tolist() == [0, 0, 255]
    assert found[22, 27].tolist() == [0, 0, 0]


@pytest.mark.parametrize("anchor", ["start", "middle", "end"])
def test_text_is_upright_above_its_baseline_and_anchored(anchor):
    text = Text(60, 20, "HHHH", 14, anchor=anchor)
    ink = pixels(text, width=120, height=60).min(axis=2) < 200
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    assert 7 <= rows[0] <= 12
    assert 18 <= rows[-1] <= 20
    wide = fonts.measure("HHHH", 14, False)
    expected = {"start": 60, "middle": 60 - wide / 2, "end": 60 - wide}[anchor]
    assert abs(columns[0] - expected) <= 3  # a letter has a little white beside it


def test_boxes_of_a_png_enclose_their_ink():
    """Text in black on a full box: no ink lies outside."""
    found = np.asarray(Image.open(io.BytesIO(viz.tokens(explanation("Wonderful", [1.0])).png(1.0)))).astype(int)
    box = np.abs(found - np.array([230, 97, 1])).max(2) < 3
    rows, columns = np.flatnonzero(box.sum(1) > 20), np.flatnonzero(box.sum(0) > 5)
    band = found[rows[0] : rows[-1] + 1]
    outside = np.concatenate([band[:, : columns[0] - 1], band[:, columns[-1] + 2 :]], axis=1)
    assert (outside > 200).all()


def test_a_pdf_is_one_page_of_the_right_size_and_always_the_same():
    drawing = Drawing(96, 48, (Text(5, 20, "gem"),), "a title")
    content = to_pdf(drawing)
    assert content.startswith(b"%PDF")
    assert b"/MediaBox [ 0 0 72 36 ]" in content
    assert b"CreationDate" not in content, "a date would make each file another"
    assert content == to_pdf(drawing)


def test_a_huge_figure_is_scaled_down():
    size = Image.open(io.BytesIO(to_png(Drawing(2000, 20_000, (Rect(0, 0, 2000, 20_000, "#2166ac"),))))).size
    assert size[0] * size[1] < 21e6


def test_widths_are_those_of_the_font():
    assert fonts.measure("gem gem", 20, False) == pytest.approx(
        2 * fonts.measure("gem", 20, False) + fonts.measure(" ", 20, False)
    )
    assert fonts.measure("gem", 40, False) == pytest.approx(2 * fonts.measure("gem", 20, False))
    assert fonts.measure("gem", 20, True) > fonts.measure("gem", 20, False)


def test_a_character_without_a_font_is_named_with_a_package():
    rare = "\U0001f6d8"  # unassigned for long: no font has it
    fonts._missing.discard(rare)
    with pytest.warns(UserWarning, match="apt install fonts-"):
        fonts.family(f"a{rare}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fonts.family(f"a{rare}")  # said once
    assert rare in fonts.missing()


def test_right_to_left_and_wide_text_is_drawn_with_what_is_installed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # machines without such fonts say so
        assert viz.tokens(explanation("שלום עולם. 电影很好", cut=2)).png()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("char", "advice"),
    [("🎉", "apt install fonts-symbola"), ("🥹", "Colour emoji can't be drawn"), ("文", "apt install fonts-noto-cjk")],
)
def test_a_missing_character_has_advice_that_helps(monkeypatch, char, advice):
    monkeypatch.setattr(fonts, "_take", lambda *_: False)
    monkeypatch.setattr(fonts, "_missing", set())
    with pytest.warns(UserWarning, match=advice):
        fonts._look_for(char)


def test_marks_that_choose_a_picture_are_no_missing_characters():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fonts.family("a\ufe0f\u200d")
