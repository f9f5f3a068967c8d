"""Shapes as SVG: places, colours, escaping, compactness."""

from __future__ import annotations

import base64
import io
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from whence.viz.drawing import Dot, Drawing, Line, Polygon, Polyline, Raster, Rect, Text, stacked
from whence.viz.metrics import clipped, measure, wrapped
from whence.viz.svg import to_svg

NAME = "{http://www.w3.org/2000/svg}"


def drawn(*shapes):
    return ElementTree.fromstring(to_svg(Drawing(100, 50, shapes, "a title")))


def only(root, tag):
    return [e for e in root.iter(NAME + tag) if e.attrib != {"width": "100", "height": "50", "fill": "#fff"}]


def test_the_sheet_is_white_and_named():
    root = drawn()
    assert root.attrib["viewBox"] == "0 0 100 50"
    assert root.find(NAME + "title").text == "a title"
    assert root.find(NAME + "rect").attrib == {"width": "100", "height": "50", "fill": "#fff"}


def test_a_box_is_where_it_should_be():
    (rect,) = only(drawn(Rect(1, 2, 30.04, 4, "#e66101", radius=2, title="+1")), "rect")
    assert rect.attrib == {"fill": "#e66101", "x": "1", "y": "2", "width": "30", "height": "4", "rx": "2"}
    assert rect.find(NAME + "title").text == "+1"


def test_boxes_of_one_colour_share_a_path():
    (path,) = only(drawn(Rect(0, 0, 5, 5, "#000000"), Rect(9, 0, 5, 5, "#000000")), "path")
    assert path.attrib["d"] == "M0 0h5v5h-5zM9 0h5v5h-5z"


def test_texts_are_escaped_fitted_and_share_a_group():
    root = drawn(Text(1, 10, "<script>", fill="#123456", width=40), Text(50, 10, "a & b", fill="#123456", width=20))
    (group,) = root.findall(NAME + "g")
    assert group.attrib["fill"] == "#123456"
    assert [(t.text, t.attrib["textLength"]) for t in group] == [("<script>", "40"), ("a & b", "20")]


def test_forbidden_characters_do_not_break_the_file():
    (text,) = only(drawn(Text(0, 0, "a\x00b\x1b[0m\ud800")), "text")
    assert text.text == "a\ufffdb\ufffd[0m\ufffd"


def test_lines_and_areas():
    root = drawn(
        Line(0, 0, 9, 9, "#111111", 2, (4, 3)),
        Polyline(((0, 0), (1, 1)), "#222222"),
        Polygon(((0, 0), (1, 1), (2, 0)), "#333333", 0.13),
        Dot(5, 6, 2, "#444444"),
    )
    assert only(root, "path")[0].attrib["stroke-dasharray"] == "4 3"
    assert only(root, "polyline")[0].attrib["points"] == "0,0 1,1"
    assert only(root, "polygon")[0].attrib["opacity"] == "0.13"
    assert only(root, "circle")[0].attrib["cx"] == "5"


def test_a_raster_keeps_its_pixels():
    pixels = np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8)
    (image,) = only(drawn(Raster(0, 0, 20, 10, pixels)), "image")
    data = base64.b64decode(image.attrib["href"].partition(",")[2])
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")), pixels)
    assert image.attrib["image-rendering"] == "pixelated"


def test_a_smooth_raster_has_colours_between():
    pixels = np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)
    assert set(np.unique(Raster(0, 0, 20, 10, pixels).at(20, 10))) == {0, 255}
    assert len(np.unique(Raster(0, 0, 20, 10, pixels, smooth=True).at(20, 10))) > 4


def test_right_to_left_text_keeps_its_left_edge():
    (text,) = only(drawn(Text(7, 9, "שלום", rtl=True)), "text")
    assert (text.attrib["direction"], text.attrib["text-anchor"], text.attrib["x"]) == ("rtl", "end", "7")


def test_widths_by_hand():
    assert measure("Wi", 1000, False) == 944 + 222
    assert measure("é", 1000) == measure("e", 1000)
    assert measure("e\u0301", 1000) == measure("e", 1000)
    assert measure("电", 1000) == 1000


def test_clipped_and_wrapped_text_fits():
    assert clipped("abcdef", 1e9, measure) == "abcdef"
    short = clipped("a rather long title", 60, measure, 12)
    assert short.endswith("…")
    assert measure(short, 12) <= 60
    lines = wrapped("one two three four", 60, measure, 12)
    assert " ".join(lines) == "one two three four"
    assert all(measure(line, 12) <= 60 for line in lines)


def test_stacked_drawings_stand_beside_and_under_each_other():
    one = Drawing(10, 20, (Dot(1, 2, 1, "#000000"),))
    whole = stacked([one, one, one], columns=2, gap=5)
    assert (whole.width, whole.height) == (25, 45)
    assert [(d.x, d.y) for d in whole.shapes] == [(1, 2), (16, 2), (1, 27)]


@pytest.mark.parametrize("text", ["−1.23 against", "±0.02", "by lrp · 98\xa0%", "0.5 × 2 ≥ 1"])
def test_signs_of_numbers_are_fitted_to_the_room_they_were_given(text):
    svg = to_svg(Drawing(100, 20, (Text(0, 10, text),)))
    assert f'textLength="{measure(text, 12.0):.1f}'.removesuffix(".0") in svg
