"""The page of a pair in a browser: arcs, the matrix, and what lights up."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.viz import made
from whence.viz.pair_page import page as paired

READY = "#whence-pair.w-complete"


def test_both_texts_the_matrix_and_the_receipt_are_there(opened):
    page = opened(paired(made.pair()), wait=READY)
    expect(page.locator('[data-side="left"]')).to_contain_text("the <b>cat")
    expect(page.locator('[data-side="right"]')).to_contain_text("kitten sat")
    expect(page.locator(".w-cell")).to_have_count(4)
    expect(page.locator(".w-arc")).to_have_count(4)
    expect(page.locator(".w-books")).to_contain_text("sinks × sinks−0.1000")


def test_a_word_shows_what_it_goes_with_and_a_click_keeps_it(opened):
    page = opened(paired(made.pair()), wait=READY)
    page.locator("[data-left]").nth(1).hover()
    expect(page.locator(".w-arc")).to_have_count(2)
    expect(page.locator(".w-tip")).to_contain_text("× kitten+0.900")
    page.locator("[data-left]").nth(1).click()
    page.mouse.move(5, 5)
    expect(page.locator(".w-arc")).to_have_count(2)
    page.keyboard.press("Escape")
    page.locator("[data-right]").nth(1).hover()
    expect(page.locator(".w-arc.w-less")).to_have_count(1)


def test_a_cell_names_its_two_words(opened):
    page = opened(paired(made.pair()), wait=READY)
    page.locator(".w-cell").nth(1).hover()
    expect(page.locator(".w-tip")).to_contain_text("×")
    expect(page.locator(".w-lit")).to_have_count(2)


def test_patches_of_a_picture_have_arcs_too(opened):
    page = opened(paired(made.seen_pair()), wait=READY)
    expect(page.locator(".w-square")).to_have_count(4)
    expect(page.locator(".w-arc")).to_have_count(3)
    page.locator(".w-square").first.hover()
    expect(page.locator(".w-arc")).to_have_count(1)
    expect(page.locator(".w-tip")).to_contain_text("patch 0,0, in all")


def test_a_large_matrix_is_a_picture(opened):
    import numpy as np

    from whence.results import Explanation, Pair

    side = Explanation(np.ones(121), tokens=tuple(f"w{n}" for n in range(121)))
    matrix = np.zeros((121, 121))
    matrix[60, 60] = 1
    page = opened(paired(Pair(matrix, 1.0, "dot", side, side)), wait=READY)
    page.locator("canvas.w-big").hover()
    expect(page.locator(".w-tip")).to_contain_text("w60 × w60+1.00")
