"""Every result type in every format that it offers: a file that its readers accept."""

from __future__ import annotations

import io
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from tests.viz import made
from whence.errors import InputError, MissingExtraError
from whence.results.showing import draw, formats
from whence.viz.drawing import Drawing

RESULTS = made.every()
DRAWN = [(name, kind[1:]) for name, result in RESULTS.items() for kind in formats(result)]


@pytest.mark.parametrize(("name", "kind"), DRAWN)
def test_files_are_valid(name, kind, tmp_path):
    content = RESULTS[name].save(tmp_path / f"x.{kind}").read_bytes()
    if kind == "svg":
        ElementTree.fromstring(content)
    elif kind == "png":
        assert np.asarray(Image.open(io.BytesIO(content)).convert("L")).std() > 0, "something is drawn"
    elif kind == "pdf":
        assert content.startswith(b"%PDF")
        assert content.rstrip().endswith(b"%%EOF")
    elif kind == "html":
        assert content.startswith(b"<!doctype html>")
    assert len(content) > 20


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_offers_figures(name):
    assert {".svg", ".pdf", ".png"} <= set(formats(RESULTS[name]))


@pytest.mark.parametrize("name", RESULTS)
def test_shown_in_notebooks(name):
    result = RESULTS[name]
    shown = result._repr_html_() if hasattr(result, "_repr_html_") else result._repr_svg_()
    assert shown.lstrip().startswith(("<div", "<svg"))


@pytest.mark.parametrize("name", sorted(set(RESULTS) - {"maps"}))
def test_shown_in_terminals(name):
    console = Console(file=io.StringIO(), width=80)
    console.print(RESULTS[name])
    assert console.file.getvalue().strip()


@pytest.mark.parametrize("name", RESULTS)
def test_nothing_is_fetched_and_names_are_escaped(name):
    svg = draw(RESULTS[name], "svg")
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in svg
    assert "<b>" not in svg


def test_a_missing_extra_says_what_to_type(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    from whence.viz import canvas

    with pytest.raises(MissingExtraError, match=r"pip install 'whence-xai\[viz\]'"):
        canvas.to_png(Drawing(10, 10, ()))
    assert RESULTS["text"].save(tmp_path / "x.svg").exists(), "SVG needs nothing"


def test_an_unknown_suffix_lists_the_known_ones(tmp_path):
    from whence import viz

    with pytest.raises(InputError, match=r"\.pdf \.png \.svg"):
        viz.tokens(made.explanation()).save(tmp_path / "x.bmp")
