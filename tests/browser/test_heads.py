"""The head view in a browser, at the size that matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser import made
from whence.viz.heads import page as heads


@pytest.fixture(scope="module")
def large() -> str:
    return heads(made.attention(512, layers=12, heads=12))


def test_512_tokens_and_144_heads_are_all_drawn(opened, large):
    page = opened(large, wait=".w-complete")
    expect(page.locator(".w-thumb.w-ready")).to_have_count(144)
    assert page.locator(".w-map").evaluate("c => [c.width, c.height]") == [512, 512]
    assert page.locator(".w-looks .w-t").count() == 512
    page.get_by_role("radio", name="Layer 11, head 7").click()
    expect(page.get_by_role("heading", name="Layer 11, head 7")).to_be_visible()


def test_a_token_shows_where_it_looks_and_who_looks_at_it(opened):
    page = opened(heads(made.attention(8, layers=2, heads=2)), wait=".w-complete")
    page.locator(".w-looks .w-t").nth(3).click()
    strongest = page.get_by_role("list", name="Strongest features")
    expect(strongest.locator("li").first).to_contain_text("w5")
    expect(strongest.locator("li").first).to_contain_text("1.000")
    page.get_by_role("radio", name="Who looks at it").check()
    page.locator(".w-looks .w-t").nth(5).click()
    expect(page.locator(".w-side")).to_contain_text("w5 is looked at by")
    expect(strongest.locator("li").first).to_contain_text("w3")


def test_the_map_names_what_is_under_the_pointer_and_the_keys(opened):
    page = opened(heads(made.attention(8, layers=1, heads=1)), wait=".w-complete")
    page.get_by_role("radio", name="Map").check()
    large = page.locator(".w-map")
    large.focus()
    for key in ("ArrowDown",) * 3 + ("ArrowRight",) * 5:
        page.keyboard.press(key)
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("w3 → w5")
    expect(tip).to_contain_text("1.0000")
    page.keyboard.press("Enter")
    expect(page.locator(".w-side")).to_contain_text("w3 looks at")
    box = large.bounding_box()
    large.hover(position={"x": box["width"] * 5.5 / 8, "y": box["height"] * 3.5 / 8})
    expect(tip).to_contain_text("w3 → w5")


def test_arrows_choose_heads(opened):
    page = opened(heads(made.attention(8, layers=2, heads=3)), wait=".w-complete")
    page.get_by_role("radio", name="Layer 0, head 0").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("radio", name="Layer 1, head 0")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="Layer 1, head 1")).to_be_visible()
    assert page.locator('.w-thumb[tabindex="0"]').count() == 1


def test_heads_are_sorted_by_relevance_and_back(opened):
    maps = replace(made.attention(8, layers=2, heads=2), relevance=(np.array([0.5, -3.0]), np.array([2.0, 0.0])))
    page = opened(heads(maps), wait=".w-complete")
    named = lambda: page.locator(".w-thumb").evaluate_all("all => all.map(b => b.ariaLabel)")
    by_layer = [f"Layer {layer}, head {head}" for layer in (0, 1) for head in (0, 1)]
    assert named() == by_layer
    page.get_by_role("radio", name="By relevance").check()
    assert named() == [by_layer[n] for n in (1, 2, 0, 3)]
    page.get_by_role("radio", name="Layer 0, head 1").click()
    expect(page.get_by_role("heading", name="Layer 0, head 1 · relevance −3")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Layer 1, head 0")).to_be_focused()
    page.get_by_role("radio", name="By layer").check()
    assert named() == by_layer
    assert page.locator(".w-layer").count() == 2


def test_arcs_run_from_the_chosen_token_and_keys_move_it(opened):
    page = opened(heads(made.attention(8, layers=1, heads=1)), wait=".w-complete")
    box = page.locator(".w-arcbox")
    assert box.locator("path.w-own").count() > 0
    box.locator(".w-from li").first.focus()
    page.keyboard.press("ArrowDown")
    expect(box.locator(".w-from li").nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowRight")
    expect(box.locator(".w-to li").nth(1)).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("radio", name="Who looks at it")).to_be_checked()


def test_the_same_weight_has_the_same_colour_in_every_head(opened):
    """A head whose weights are all 1/8 is faint, and not as strong as one that looks at one token."""
    layer = np.stack([np.full((8, 8), 1 / 8), np.eye(8)])
    page = opened(heads(replace(made.attention(8, layers=1, heads=2), maps=(layer,))), wait=".w-complete")
    strongest = page.locator(".w-thumb canvas").evaluate_all(
        "all => all.map((c) => Math.max(...c.getContext('2d').getImageData(0, 0, c.width, c.height).data"
        ".filter((_, i) => i % 4 === 3)))"
    )
    assert strongest[1] == 255
    assert abs(strongest[0] - 255 * (1 / 8) ** 0.5) <= 1  # the root lifts weak attention; rounded twice
