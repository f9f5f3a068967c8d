"""The inside of a prediction, shown: names, ranks, receipts, and nothing that a token could break."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
from rich.console import Console

from tests.viz import made
from whence.results.showing import draw
from whence.viz import inside_maps, inside_page


def test_every_cell_says_its_name_and_score():
    svg = inside_maps.layer_map(made.inside()).svg
    assert "layer 1, gem: +3" in svg
    assert "&lt;b&gt;" in svg


def test_the_strongest_heads_have_their_rank():
    texts = [shape for shape in inside_maps.place_map(made.inside(), "heads").drawing.shapes if hasattr(shape, "text")]
    ranks = {shape.text: (shape.x, shape.y) for shape in texts if getattr(shape, "bold", False) and shape.size == 10}
    assert set(ranks) == {"1", "2", "3"}
    assert ranks["1"][1] > ranks["2"][1]  # (1, 0) is the strongest, (0, 1) the second
    assert ranks["1"][0] < ranks["2"][0]


def test_large_maps_are_one_picture():
    wide = replace(made.inside(), scores={"layers": np.random.default_rng(0).normal(size=(12, 600))})
    assert inside_maps.layer_map(wide).svg.count("<title>") < 10


def test_a_page_has_every_place_and_every_receipt():
    page = draw(made.inside(), "html")
    for place in ("layers", "heads", "mlps", "neurons", "block.norm"):
        assert f"Relevance of {place}" in page
    assert "layer +3.0000 bias +1.0000 = +4.0000 of +4.0000" in page
    assert "beside +0.2500 of +4.0000; the other +0.2500 passes this layer by" in page
    assert "<b> gem" not in page.split("<script")[0]


def test_in_words_and_in_a_terminal():
    inside = made.inside()
    assert "-2.0000\tlayer 1, head 0" in inside_page.lines(inside)
    assert inside_page.lines(inside, most=1).count("\tlayer") == 4
    console = Console(file=io.StringIO(), width=100)
    console.print(inside)
    shown = console.file.getvalue()
    assert "1 of 2 layers are accounted for in full" in shown
    assert "<b>" in shown


def test_layers_of_a_deep_model_that_balance_share_a_line():
    one, open_ = made.inside().receipts
    deep = replace(made.inside(), receipts=(*[one] * 7, replace(one, inputs=2.5), open_))
    assert inside_page.lines(deep).splitlines()[-2:] == [
        "receipts of 8 layers: each and what is absorbed behind it are +4.0000 (largest error +5.0e-01)",
        "receipt of layer 8: layer +3.5000 beside +0.2500 of +4.0000; the other +0.2500 passes this layer by",
    ]
