"""One page for each method, and the picture that its own code draws."""

from __future__ import annotations

import re

from docs.generate.method_pages import FORMULA, GROUPS, example, method_pages, pictures
from whence.methods import methods
from whence.methods.method import class_of


def test_every_method_stands_in_one_group():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(methods)


def test_a_page_has_source_code_cost_and_options():
    pages = method_pages()
    assert set(pages) == {f"methods/{name}.md" for name in methods}
    for name in methods:
        page = pages[f"methods/{name}.md"]
        assert example(name).rstrip() in page
        assert class_of(name).cost in page
        assert all(heading in page for heading in ("## Picture and code", "## Cost", "## How faithful", "## Options"))
    assert re.search(r"\| \[AUAC\].*\| 0\.\d{3} \| 0\.\d{3} \| 0\.\d{3} \(`\w+`\)", pages["methods/gae.md"])
    assert "P is a constant" in pages["methods/lrp.md"]
    assert "the gradient at temperature 2" in pages["methods/gim.md"]


def test_formulas_are_set_apart():
    found = FORMULA.match("The last layer's attention, heads fused: r = mean_h A^L[row]   [A-Last in Ali 2022].")
    assert found
    assert found["words"] == "The last layer's attention, heads fused"
    assert found["formula"] == "r = mean_h A^L[row]"
    assert found["source"] == "A-Last in Ali 2022"
    assert FORMULA.match("Saliency averaged over noise   [Smilkov 2017].") is None


def test_the_code_of_every_page_draws_its_pictures(tmp_path):
    pictures(tmp_path)
    for name in methods:
        for what in ("text", "picture"):
            assert (tmp_path / f"{name}-{what}.svg").read_text(encoding="utf-8").startswith("<svg")
