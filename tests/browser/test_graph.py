"""The page of an attribution graph in a browser."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.viz import made
from whence.viz.graphs import page as drawn

SIDE = ".w-side"


def node(page, name):
    return page.get_by_role("button", name=name)


def test_the_strongest_edges_stand_beside_the_picture(opened):
    page = opened(drawn(made.graph()), wait=".w-graph svg")
    expect(page.locator("h1")).to_have_text("positive = +1.750")
    expect(page.locator(f"{SIDE} li")).to_have_count(2)  # between tokens
    expect(page.locator(f"{SIDE} li").first).to_contain_text("layer 1, head 0")
    assert page.locator("svg path").count() == 5
    assert page.locator("body script:not([type])").count() == 1


def test_a_node_shows_what_came_in_and_what_went_out(opened):
    page = opened(drawn(made.graph()), wait=".w-graph svg")
    node(page, "<script>, after layer 0").click()
    expect(page.locator(SIDE)).to_contain_text("relevance +1.50")
    expect(page.locator(f"{SIDE} li")).to_have_count(3)
    assert page.locator("svg path.w-in").count() == 2
    assert page.locator("svg path.w-out").count() == 1
    node(page, "<script>, after layer 0").click()
    page.mouse.move(1, 1)
    expect(page.locator("svg path.w-in")).to_have_count(0)


def test_arrow_keys_go_from_node_to_node(opened):
    page = opened(drawn(made.graph()), wait=".w-graph svg")
    node(page, "gem, after layer 1").focus()
    page.keyboard.press("ArrowDown")
    expect(node(page, "gem, after layer 0")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(node(page, "<script>, after layer 0")).to_be_focused()
    expect(page.locator(SIDE)).to_contain_text("came in by")
