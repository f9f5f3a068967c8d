"""Every report: fits a phone, is dark in the dark, keeps its colours at high contrast; axe finds nothing serious."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.viz import made
from whence.results.showing import draw, formats

REPORTS = {name: result for name, result in made.every().items() if ".html" in formats(result)}
OVERFLOW = """() => [...document.querySelectorAll("body *")]
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(SCROLLS))
  .map((e) => `${e.tagName}.${e.className}`)"""
SCROLLS = ".w-scroll, .w-heads, .w-arcbox, .w-heattable, .w-figure, .w-canvas, .w-receipt, .w-unseen, svg"
"""What may be wider than the page, in a box of its own."""


@pytest.fixture(scope="module", params=list(REPORTS))
def page_of(request) -> str:
    return draw(REPORTS[request.param], "html")


def test_nothing_is_wider_than_a_phone(opened, page_of):
    page = opened(page_of, wait="main", viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(OVERFLOW.replace("SCROLLS", repr(SCROLLS))) == []


def test_it_is_dark_in_the_dark(opened, page_of):
    page = opened(page_of, wait="main", color_scheme="dark")
    for place in ("body", ".w-card, .w-rows, .w-panels .w-row"):
        colour = page.locator(place).first.evaluate("e => getComputedStyle(e).backgroundColor")
        assert max(int(v) for v in colour.strip("rgba()").split(",")[:3]) < 60, (place, colour)
    bright = page.evaluate(
        """() => [...document.querySelectorAll(".w-figure svg")]
             .map((e) => getComputedStyle(e.querySelector("rect")).fill)
             .filter((fill) => fill === "rgb(255, 255, 255)")"""
    )
    assert not bright, "figures take the colours of the page"


def test_axe_finds_nothing_serious(opened, page_of):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    for scheme in ("light", "dark"):
        page = opened(page_of, wait="main", color_scheme=scheme)
        found = axe.Axe().run(page).response["violations"]
        bad = [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")]
        assert not bad, (scheme, bad)


@pytest.mark.parametrize("scripts", [True, False])
def test_headings_begin_with_one_and_leave_out_no_level(opened, page_of, scripts):
    page = opened(page_of, wait="main", java_script_enabled=scripts)
    assert page.locator("h1").count() == page.locator("main").count() == 1
    levels = [int(re.sub("[^0-9]", "", one)) for one in re.findall(r"<h[1-6]\b", page.locator("main").inner_html())]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels)), levels


def test_a_table_is_sorted_and_copied(opened):
    page = opened(draw(made.evaluation(), "html"), wait="main")
    table = page.locator("table.w-sortable").first
    head = table.get_by_role("button", name="auac")
    head.click()
    assert table.locator("th").nth(1).get_attribute("aria-sort") == "descending"
    first = table.locator("tbody tr").first.inner_text()
    head.click()
    assert table.locator("tbody tr").last.inner_text() == first
    page.evaluate(
        "() => { document.execCommand = () => true; navigator.clipboard.writeText = (t) => { globalThis.got = t } }"
    )
    page.get_by_role("button", name="Copy as LaTeX").first.click()
    assert "\\toprule" in page.evaluate("globalThis.got")
    page.get_by_role("button", name="Copy as Markdown").first.click()
    assert page.evaluate("globalThis.got").startswith("| method")


def test_colours_that_mean_something_stay_at_high_contrast(opened):
    for name in ("patching", "several"):
        page = opened(draw(REPORTS[name], "html"), wait="main", forced_colors="active")
        strong = page.locator(".w-p24, .w-n24").first
        assert strong.evaluate("e => getComputedStyle(e).backgroundColor") in ("rgb(230, 97, 1)", "rgb(33, 102, 172)")
