"""The page of a trace in a browser: pointing, choosing, the reverse, and the numbers beside it."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.viz import made
from tests.viz.test_traces import seen
from whence.results import Explanation, Trace
from whence.viz.trace_page import page as traced

ORANGE, NOTHING, BLUE = "rgb(230, 97, 1)", "rgba(0, 0, 0, 0)", "rgb(33, 102, 172)"
READY = ".w-trace.w-complete"


def written(page):
    return page.locator(".w-own .w-t")


def asked(page):
    return page.locator('.w-passage[data-name="user"] .w-t')


def colours(cells) -> list[str]:
    return cells.evaluate_all("all => all.map((e) => getComputedStyle(e).backgroundColor)")


def away(page) -> None:
    page.mouse.move(2, 2)


def drag(page, start, end) -> None:
    start.hover()
    page.mouse.down()
    end.hover()
    page.mouse.up()
    away(page)


def panel(page):
    return page.get_by_role("complementary", name="What is explained")


def test_it_opens_with_the_whole_and_whose_words_are_whose(opened):
    page = opened(traced(made.trace()), wait=READY)
    expect(page.locator(".w-passage > .w-who")).to_have_text(["template", "user", "template", "written"])
    expect(page.locator('.w-passage[data-name="user"] .w-text')).to_have_text("Name a <b> city.")
    expect(panel(page)).to_contain_text("+7.00")
    assert colours(written(page))[0] == ORANGE
    expect(page.get_by_role("button", name="Whole")).to_have_attribute("aria-pressed", "true")


def test_pointing_at_a_written_token_colours_what_stood_before_it(opened):
    page = opened(traced(made.trace()), wait=READY)
    written(page).nth(0).hover()
    assert colours(asked(page))[3] == ORANGE  # city, the strongest of Rome
    assert colours(written(page))[1:] == [NOTHING] * 3
    expect(panel(page)).to_contain_text("+3.00")
    expect(panel(page).get_by_role("list").last.locator("li").first).to_contain_text("city")
    written(page).nth(2).hover()
    assert colours(written(page))[0] == ORANGE
    expect(written(page).nth(3)).to_have_class("w-t w-s w-z w-later")
    away(page)
    expect(panel(page)).to_contain_text("All that was written")


def test_a_span_that_is_dragged_over_is_summed_and_stays(opened):
    page = opened(traced(made.trace()), wait=READY)
    drag(page, written(page).nth(1), written(page).nth(2))
    expect(panel(page).locator(".w-quote")).to_have_text("is nice")
    expect(panel(page).locator(".w-score")).to_contain_text("+2.00")
    expect(panel(page).get_by_role("table", name="Receipt")).to_contain_text("+2.00")
    expect(page.locator(".w-picked")).to_have_text(["is", "nice"])
    best = panel(page).get_by_role("list").last.locator("li").first
    expect(best).to_contain_text("Rome")
    expect(best).to_contain_text("+2.50")
    written(page).nth(0).hover()
    expect(panel(page).locator(".w-quote")).to_have_text("is nice")
    written(page).nth(0).click()
    expect(panel(page).get_by_role("button", name="Show all")).to_be_visible()
    written(page).nth(2).click(modifiers=["Shift"])
    expect(panel(page).locator(".w-quote")).to_have_text("Rome is nice")
    page.keyboard.press("Escape")
    away(page)
    expect(panel(page)).to_contain_text("All that was written")


def test_keys_choose_tokens_and_spans(opened):
    page = opened(traced(made.trace()), wait=READY)
    page.get_by_role("button", name="By token").click()
    expect(written(page).nth(0)).to_be_focused()
    expect(panel(page).locator(".w-quote")).to_have_text("Rome")
    page.keyboard.press("ArrowRight")
    expect(panel(page).locator(".w-quote")).to_have_text("is")
    page.keyboard.press("Shift+ArrowRight")
    expect(panel(page).locator(".w-quote")).to_have_text("is nice")
    expect(page.locator('[aria-selected="true"]')).to_have_text(["is", "nice"])
    expect(page.get_by_role("status")).to_contain_text("is nice +2.00, from Rome +2.50")
    page.keyboard.press("ArrowLeft")
    expect(panel(page).locator(".w-quote")).to_have_text("is")
    page.get_by_role("button", name="Whole").click()
    expect(page.locator(".w-picked")).to_have_count(0)
    written(page).nth(1).focus()
    expect(panel(page).locator(".w-quote")).to_have_text("is")
    page.keyboard.press("Shift+ArrowRight")
    expect(panel(page).locator(".w-quote")).to_have_text("is nice")
    assert page.locator('.w-own .w-t[tabindex="0"]').count() == 1


def test_a_word_of_the_prompt_shows_what_it_served(opened):
    page = opened(traced(made.trace()), wait=READY)
    asked(page).nth(3).click()
    expect(panel(page)).to_contain_text("What it served · user")
    assert colours(written(page)) == [ORANGE, NOTHING, "rgb(144, 178, 214)", NOTHING]  # +2, 0, −1, 0
    best = panel(page).get_by_role("list").locator("li").first
    expect(best).to_contain_text("Rome")
    expect(best).to_contain_text("+2.00")
    asked(page).nth(3).click()
    away(page)
    expect(panel(page)).to_contain_text("All that was written")


@pytest.mark.parametrize("seed", [0, 1])
def test_its_own_text_followed_back_is_what_python_computes(opened, seed):
    rng = np.random.default_rng(seed)
    scores = np.abs(rng.normal(size=(4, 10))) * (made.trace().scores != 0)
    totals = scores.sum(1)
    trace = made.trace(scores=scores, target_scores=tuple(totals.tolist()), receipts=())
    wanted = trace.span(2, 3, hops="all")
    page = opened(traced(trace), wait=READY)
    written(page).nth(2).click()
    page.get_by_role("switch", name="Follow its own text back").check()
    rows = panel(page).get_by_role("list").last.locator("li")
    found = {
        row.locator(".w-name").inner_text(): float(row.locator(".w-value").inner_text().replace("−", "-"))
        for row in rows.all()
    }
    for name, score in zip(trace.tokens, wanted.scores.tolist(), strict=True):
        assert found.get(name.strip(), 0.0) == pytest.approx(score, rel=6e-3, abs=2e-3), name  # three digits are shown


def test_a_receipt_of_a_chain_adds_up(opened):
    page = opened(traced(made.trace()), wait=READY)
    written(page).nth(2).click()
    page.get_by_role("switch", name="Follow its own text back").check()
    receipt = panel(page).get_by_role("table", name="Receipt")
    expect(receipt.locator("tr").first).to_contain_text("+1.00")
    expect(receipt.locator("tr").last).to_contain_text("+1.00")


def test_a_picture_is_coloured_for_what_is_chosen(opened):
    page = opened(traced(seen()), wait=READY)
    canvas = page.get_by_label("The picture, coloured")
    expect(canvas).to_be_visible()
    pixel = "c => Array.from(c.getContext('2d').getImageData(c.width * 3 / 4, c.height * 3 / 4, 1, 1).data)"
    expect(panel(page)).to_contain_text("picture")
    page.wait_for_function("document.querySelector('canvas.w-heat').height > 0")
    assert canvas.evaluate(pixel)[:3] == [230, 97, 1]


def large() -> Trace:
    count, width = 500, 2000
    tokens = tuple(f" t{n}" for n in range(width))
    whole = Explanation(np.zeros(width), tokens=tokens, method="lrp", target_score=0.0)
    places = tuple((width - count + 1 + n, width - count + 2 + n) for n in range(count - 1)) + ((width, width),)
    scores = np.zeros((count, width))
    scores[499, 7] = 1.0
    scores[:, 3] = 0.1
    return Trace(scores, whole, tuple(f" w{n}" for n in range(count)), places, target_scores=tuple(scores.sum(1)))


def test_a_large_trace_is_all_there_and_answers(opened):
    page = opened(traced(large()), wait=READY)
    assert page.locator(".w-t").count() == 2001
    written(page).last.click()
    assert colours(page.locator(".w-prompt .w-t").nth(7))[0] == ORANGE
    panel(page).get_by_role("list").last.locator("li").first.hover()
    expect(page.locator(".w-lit")).to_have_text("t7")
    expect(page.locator(".w-lit")).to_be_in_viewport()
    page.locator(".w-prompt .w-t").nth(3).click()
    expect(panel(page).locator(".w-score")).to_contain_text("+50.0")


def test_hostile_text_is_shown_not_run(opened):
    bad = ("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</script>", '" onload="x')
    page = opened(traced(made.trace(written=bad)), wait=READY)
    expect(written(page).first).to_have_text(bad[0])
    written(page).nth(1).click()
    expect(panel(page).locator(".w-quote")).to_have_text(bad[1])
    assert page.locator("body img").count() == 0
    assert page.locator("body script:not([type])").count() == 1


def test_scores_that_are_not_finite_are_no_colour(opened):
    scores = np.array(made.trace().scores)
    scores[0, 4] = np.nan
    page = opened(traced(made.trace(scores=scores)), wait=READY)
    written(page).nth(0).hover()
    assert colours(asked(page))[3] == NOTHING
    assert colours(asked(page))[0] == ORANGE


def test_without_javascript_the_whole_is_there(opened):
    page = opened(traced(made.trace()), wait=".w-text", java_script_enabled=False)
    expect(page.locator(".w-text")).to_have_text(["<s>", "Name a <b> city.", "</s>", "Rome is nice</s>"])
    expect(page.locator("noscript .w-card h2")).to_contain_text("+7.0000")


def test_a_phone_does_not_scroll_sideways(opened):
    page = opened(traced(made.trace()), wait=READY, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_every_control_has_a_name(opened):
    page = opened(traced(made.trace()), wait=READY)
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    roles = "button checkbox radio switch listbox table complementary".split()
    controls = [n for n in nodes if not n["ignored"] and n["role"]["value"] in roles]
    assert len(controls) > 8
    assert not [n["role"]["value"] for n in controls if not n.get("name", {}).get("value", "").strip()]


def test_rows_that_share_a_column_are_not_followed(opened):
    """A sentence is one column for its tokens: nobody knows what each of them passes on."""
    page = opened(traced(made.trace().by("sentence")), wait=READY)
    expect(page.get_by_role("switch", name="Follow its own text back")).to_have_count(0)
