"""What somebody meets who opens the page for the first time: nothing is cut off, unmarked, lost or unexplained."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

import whence
from tests import small
from tests.browser.conftest import serving
from whence.web import Settings

PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def writer():
    with serving(Settings(models={"writer": whence.load((small.long_llama(), small.bytelevel(limit=512)))})) as address:
        yield address


def test_an_address_without_a_text_shows_the_example(opened, server):
    page = opened(f"{server}#m=sentiment", wait="#agreement")
    expect(page.get_by_label("Text")).to_have_value("a gorgeous, witty, seductive movie")


@pytest.mark.parametrize("size", [PHONE, {"viewport": {"width": 1200, "height": 900}}], ids=["phone", "desk"])
def test_the_menu_of_downloads_lies_within_the_page(opened, server, size):
    page = opened(server, wait="#agreement", **size)
    page.get_by_text("Download", exact=True).click()
    menu = page.get_by_role("group", name="Formats").bounding_box()
    assert menu["x"] >= 0
    assert menu["x"] + menu["width"] <= size["viewport"]["width"]


def test_curves_and_numbers_are_explained_without_pointing_at_them(opened, server):
    page = opened(server, wait="#agreement", **PHONE)
    expect(page.locator(".gloss")).to_contain_text("the mean gap between them, in points")


def test_the_focus_stays_in_the_form(opened, server):
    page = opened(server, wait="#agreement")
    page.get_by_role("button", name="I expected to hate it").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".w-text").first).to_contain_text("expected")
    expect(page.get_by_role("button", name="I expected to hate it")).to_be_focused()
    page.get_by_label("Model").focus()
    page.get_by_label("Model").select_option("digits")
    expect(page.locator("canvas.w-heat")).to_have_count(4)
    expect(page.get_by_label("Model")).to_be_focused()


def test_the_focus_stays_where_all_is_put_back(opened, server):
    page = opened(server, wait="#agreement")
    page.get_by_role("button", name="Remove the top 3 words").click()
    page.get_by_role("button", name="Put all back").focus()
    page.keyboard.press("Enter")  # and it can't be pressed any more
    expect(page.get_by_role("button", name="Remove the top 3 words")).to_be_focused()


def test_a_word_that_comes_back_at_once_asks_nothing(opened, server):
    page = opened(server, wait="#agreement")
    asked = []
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/api/remove") else None)
    page.clock.install()
    page.evaluate("() => { for (let n = 0; n < 2; n++) document.querySelectorAll('.strike')[1].click(); }")
    page.clock.run_for(1000)
    assert not asked
    page.locator(".strike").nth(2).click()
    page.clock.run_for(1000)
    expect(page.locator(".moved")).to_be_visible()


def test_forced_colours_show_what_is_chosen(opened, server):
    """Computed colours are those of the style: what is kept of them is what the system is told to leave alone."""
    page = opened(server, wait="#agreement", forced_colors="active")
    page.get_by_text("more methods").click()
    kept = "all => all.map((e) => getComputedStyle(e).forcedColorAdjust)"
    assert set(page.locator(".chips input:checked + span").evaluate_all(kept)) == {"none"}
    assert set(page.locator(".chips input:not(:checked) + span").evaluate_all(kept)) == {"auto"}
    assert page.get_by_role("tab").evaluate_all(kept)[:2] == ["none", "auto"]
    assert page.locator(".w-class").evaluate_all(kept) == ["none", "auto"]
    borders = page.locator(".primary, .examples button").evaluate_all(
        "all => all.map((e) => getComputedStyle(e).borderStyle)"
    )
    assert set(borders) == {"solid"}


def test_weights_of_a_head_have_bars(opened, server):
    page = opened(f"{server}#m=sentiment&x=a+gorgeous+film&tab=attention", wait=".w-complete")
    widths = page.locator(".w-side .w-bars .w-for").evaluate_all(
        "bars => bars.map((b) => b.getBoundingClientRect().width)"
    )
    assert max(widths) > 20


def test_attention_of_another_text_is_marked(opened, server):
    page = opened(f"{server}#m=sentiment&x=a+gem&tab=attention", wait=".w-complete")
    page.get_by_label("Text").fill("something else")
    expect(page.locator("#status")).to_contain_text("The input has changed")
    page.get_by_role("button", name="Look").click()
    expect(page.locator(".w-looks")).to_contain_text("else")
    expect(page.locator("#status")).to_be_empty()
    page.get_by_role("tab", name="Explain").click()
    expect(page.locator(".w-text").first).to_contain_text("something else")


def test_attention_of_a_model_that_goes_on_writing_begins_with_the_token_that_predicts(opened, writer):
    page = opened(f"{writer}#m=writer&x=abc&tab=attention", wait=".w-complete")
    expect(page.locator(".w-side")).to_contain_text("c looks at")


def test_marks_stand_with_their_letters(opened, server):
    page = opened(f"{server}#m=sentiment&k=lrp&x=هذا الفيلم رائعٌ لكنَّ القصة مملةٌ", wait=".faith polyline")
    words = page.locator(".w-rows .w-t").all_inner_texts()
    assert words == ["[CLS]", "هذا", "الفيلم", "رائعٌ", "لكنَّ", "القصة", "مملةٌ", "[SEP]"]
    page.get_by_role("radio", name="Tokens").check()
    assert page.locator(".w-rows .w-t").all_inner_texts() == words


def test_pictures_of_methods_stand_in_line(opened, server):
    page = opened(f"{server}#m=digits", wait="#agreement")
    tops = page.locator(".w-panels .w-row").evaluate_all(
        "rows => rows.map((r) => [r, r.querySelector('canvas, img')].map((e) => e.getBoundingClientRect().top))"
    )
    for row in {row for row, _ in tops}:
        assert len({round(picture) for own, picture in tops if own == row}) == 1


def test_a_run_says_what_its_colours_and_words_mean(opened, tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra data: pip install 'whence-xai[data]'")
    data = tmp_path / "films.jsonl"
    rows = [("a gorgeous, witty movie", "negative"), ("so dull", "negative")]
    data.write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in rows), encoding="utf-8")
    whence.run(data, model="sentiment", out=tmp_path / "told", target_column="label", progress=False)
    whence.run(data, model="sentiment", out=tmp_path / "plain", progress=False)
    with serving(Settings(models=("sentiment",), runs=(tmp_path / "told", tmp_path / "plain"))) as address:
        page = opened(f"{address}#m=sentiment&tab=runs", wait="#summary .words", **PHONE)
        card = page.locator(".w-card", has=page.locator(".rowlist"))
        expect(card).to_contain_text("Orange words speak for the true label, blue ones against it.")
        expect(page.locator("tr.wrong td").nth(2)).to_contain_text("positive wrong")  # in a column that a phone shows
        expect(page.locator("#summary")).to_contain_text("Words by their mean score, in points")
        page.get_by_role("button", name="plain").click()
        expect(card).to_contain_text("Orange words speak for what is explained")
        expect(page.locator(".rowlist th").last).to_have_text("explained")


def test_the_last_that_was_asked_is_answered_however_long_files_take(opened, server):
    page = opened(f"{server}#m=digits&k=lrp", wait=".faith polyline")
    held, asked = [], []
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/api/stream") else None)
    page.route("**/examples/digit-7.png", lambda route: held.append(route))
    page.get_by_role("button", name="Example 2").click()
    page.get_by_role("button", name="Example 3").click()
    expect(page.locator(".w-best")).to_contain_text("8")
    assert held
    for route in held:
        route.continue_()
    page.unroute("**/examples/digit-7.png")
    for _ in range(3):  # whatever was to be asked has been asked by then
        page.evaluate("() => fetch('/examples/digit-7.png').then((answer) => answer.blob())")
    assert len(asked) == 1


def test_what_comes_late_is_not_drawn_over_another_tab(opened, server):
    page = opened(f"{server}#m=digits&k=lrp", wait=".faith polyline")
    held = []
    page.route("**/examples/digit-7.png", lambda route: held.append(route))
    page.get_by_role("button", name="Example 2").click()
    page.get_by_role("tab", name="Runs").click()
    expect(page.locator("#summary .words")).not_to_have_count(0)
    asked = []
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/api/stream") else None)
    for route in held:
        route.continue_()
    page.get_by_label("Search the rows").fill("17")
    page.keyboard.press("Enter")
    expect(page.locator(".w-count")).to_have_text("1–1 of 1")
    assert held
    assert not asked
