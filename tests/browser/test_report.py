"""The report in a browser: opens from a file, asks no network, and shows what was computed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser import made
from whence.results import Comparison, Explanation, Part, Prediction
from whence.viz.report import page as report

HOSTILE = ("<script>alert(1)</script>", "</script>", "<img src=x onerror=alert(1)>", "<!--", "&lt;b&gt;", '" onload="x')


def shown(page, method: str = "lrp"):
    return page.locator(f'.w-row[data-method="{method}"] .w-text')


def colour(locator) -> str:
    return locator.evaluate("e => getComputedStyle(e).backgroundColor")


def test_text_reads_as_it_was_and_numbers_show_under_the_pointer(opened):
    page = opened(report(made.explanation()))
    expect(shown(page)).to_have_text("[CLS] a gorgeous, witty film [SEP]")
    shown(page).locator(".w-t", has_text="witty").hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("+1.50")
    expect(tip).to_contain_text("2 of 8")
    expect(tip).to_contain_text("12–17")
    expect(tip).to_contain_text("25.4 %")


def test_strongest_token_has_the_full_colour_and_zero_none(opened):
    page = opened(report(made.explanation()))
    assert colour(shown(page).locator(".w-t").nth(3)) == "rgb(230, 97, 1)"
    assert colour(shown(page).locator(".w-t").nth(0)) == "rgba(0, 0, 0, 0)"


def test_words_have_the_sum_of_their_tokens(opened):
    page = opened(report(made.explanation()))
    page.get_by_role("radio", name="Words").check()
    expect(shown(page).locator(".w-t")).to_have_count(6)
    shown(page).locator(".w-t", has_text="gorgeous").hover()
    expect(page.get_by_role("tooltip")).to_contain_text("+2.75")


def test_a_click_on_a_class_explains_it_instead(opened):
    page = opened(report(made.comparison()))
    assert colour(shown(page).locator(".w-t").nth(3)) == "rgb(230, 97, 1)"
    page.get_by_role("button", name="negative").click()
    expect(page.locator(".w-asked")).to_contain_text("negative = −3.50")
    assert colour(shown(page).locator(".w-t").nth(3)) == "rgb(33, 102, 172)"
    expect(page.get_by_role("button", name="negative")).to_be_focused()


def test_methods_have_a_scale_each_or_one_for_all(opened):
    page = opened(report(made.comparison()))
    weak = shown(page, "gi").locator(".w-t").nth(3)
    assert colour(weak) == "rgb(230, 97, 1)"
    page.get_by_role("switch", name="One scale for all").check()
    assert colour(shown(page, "gi").locator(".w-t").nth(3)) == "rgba(0, 0, 0, 0)"


def test_one_token_is_ringed_in_every_row(opened):
    page = opened(report(made.comparison()))
    shown(page).locator(".w-t", has_text="witty").hover()
    expect(page.locator(".w-lit")).to_have_text(["witty", "witty"])
    expect(page.get_by_role("tooltip")).to_contain_text("+0.0150")


def test_table_sorts_and_filters(opened):
    page = opened(report(made.explanation()))
    table = page.get_by_role("table", name="All features")
    expect(table.locator("tbody tr").first).to_contain_text("geous")
    table.get_by_role("button", name="lrp").click()
    expect(table.locator("tbody tr").first).to_contain_text("[CLS]")  # of no size: film speaks against, but more
    expect(table.locator("th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    page.get_by_label("Filter the features").fill("wit")
    expect(table.locator("tbody tr")).to_have_count(1)


def test_receipt_and_stamp_say_where_it_went_and_came_from(opened):
    page = opened(report(made.explanation()))
    receipt = page.get_by_role("table", name="Receipt")
    for words in ("inputs", "+3.40", "bias", "+0.100", "= positive", "+3.50"):
        expect(receipt).to_contain_text(words)
    for words in ("made up", "abc123", "detach"):
        expect(page.locator(".w-stamp")).to_contain_text(words)


def test_copied_json_loads_again(opened, tmp_path):
    exp = made.explanation(scores=np.random.default_rng(0).normal(size=8))
    page = opened(report(exp), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as JSON").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    (tmp_path / "x.json").write_text(copied, encoding="utf-8")
    again = Explanation.load(tmp_path / "x.json")
    np.testing.assert_array_equal(again.scores, exp.scores)
    assert (again.tokens, again.text, again.conservation) == (exp.tokens, exp.text, exp.conservation)


def test_all_copied_json_is_a_comparison(opened):
    page = opened(report(made.comparison()), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy all as JSON").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    again = Comparison.from_dict(json.loads(page.evaluate("navigator.clipboard.readText()")))
    assert again.targets == ("positive", "negative")
    assert again[3].tokens == made.TOKENS


def test_dark_by_the_system_and_by_the_switch(opened):
    page = opened(report(made.explanation()), color_scheme="dark")
    dark = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    page.get_by_role("button", name="Change to light colours").click()
    light = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    assert dark == "rgb(15, 17, 21)"
    assert light == "rgb(246, 247, 249)"


def test_prints_light_with_its_colours_and_without_controls(opened):
    page = opened(report(made.explanation()), color_scheme="dark")
    page.get_by_role("button", name="Change to light").click()
    page.get_by_role("button", name="Change to dark").click()
    page.emulate_media(media="print")
    strongest = shown(page).locator(".w-t").nth(1)
    assert strongest.evaluate("e => getComputedStyle(e).printColorAdjust") == "exact"
    assert page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    assert colour(strongest) == "rgb(254, 248, 244)"  # 1/24 of orange on white
    expect(page.get_by_role("button", name="Print")).to_be_hidden()


def test_ten_thousand_tokens_have_one_tab_stop_and_a_paged_table(opened):
    page = opened(report(made.long(10_000)))
    assert shown(page).locator(".w-t").count() == 10_000
    assert page.locator('.w-t[tabindex="0"]').count() == 1
    expect(page.locator(".w-count")).to_have_text("1–50 of 10000")
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".w-count")).to_have_text("51–100 of 10000")


@pytest.mark.parametrize("where", ["tokens", "labels", "stamp", "text"])
def test_hostile_text_is_shown_not_run(opened, where):
    count = len(HOSTILE)
    plain = {"tokens": HOSTILE, "scores": np.ones(count), "offsets": (), "word_ids": tuple(range(count)), "special": ()}
    changes = {
        "tokens": plain | {"text": None},
        "labels": {"target": HOSTILE[0], "method": HOSTILE[2], "prediction": Prediction(HOSTILE, (1.0,) * count)},
        "stamp": {"stamp": {HOSTILE[0]: HOSTILE[1]}, "options": {HOSTILE[2]: list(HOSTILE)}},
        "text": plain | {"text": " ".join(HOSTILE)},
    }
    page = opened(report(made.explanation(**changes[where])))
    page.locator(".w-t").nth(2).hover()
    expect(page.get_by_role("tooltip")).to_be_visible()
    assert page.locator("body script:not([type])").count() == 1
    assert page.locator("body img").count() == 0
    if where in ("tokens", "text"):
        expect(page.locator(".w-t").first).to_have_text(HOSTILE[0])


def test_arabic_runs_from_the_right_whatever_the_special_tokens(opened):
    text = "فيلم جميل"
    exp = made.explanation(
        scores=np.array([0, 1, 2, 0]),
        tokens=("[CLS]", "فيلم", "جميل", "[SEP]"),
        text=text,
        offsets=((0, 0), (0, 4), (5, 9), (0, 0)),
        word_ids=(None, 0, 1, None),
        special=(True, False, False, True),
    )
    page = opened(report(exp))
    boxes = [box.bounding_box()["x"] for box in shown(page).locator(".w-t").all()]
    assert boxes == sorted(boxes, reverse=True)


def test_offsets_count_characters_also_beyond_the_basic_plane(opened):
    exp = made.explanation(
        scores=np.array([1.0, 2.0]),
        tokens=("😀", "good"),
        text="😀  good",
        offsets=((0, 1), (3, 7)),
        word_ids=(0, 1),
        special=(False, False),
    )
    page = opened(report(exp))
    assert shown(page).text_content() == "😀  good"


def test_keys_walk_through_the_tokens_and_numbers_are_spoken(opened):
    page = opened(report(made.explanation()))
    shown(page).locator(".w-t").first.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    focused = page.locator(":focus")
    expect(focused).to_have_text("witty")
    expect(focused).to_have_attribute("aria-label", "witty: +1.50, place 2 of 8, 25.4\xa0% of all")
    expect(page.get_by_role("tooltip")).to_contain_text("+1.50")
    page.keyboard.press("Tab")
    expect(page.locator(".w-t:focus")).to_have_count(0)


def test_image_has_original_heat_map_and_numbers(opened):
    image = np.zeros((8, 8, 3), np.uint8)
    scores = np.array([[1.0, 0.0], [0.0, -1.0]])
    exp = Explanation(scores=scores, image=image, target="7", target_score=2.0, method="lrp")
    page = opened(report(exp), wait="canvas.w-heat")
    expect(page.get_by_alt_text("The explained image")).to_be_visible()
    pixel = "(c, [x, y]) => Array.from(c.getContext('2d').getImageData(x * c.width, y * c.height, 1, 1).data)"
    canvas = page.locator("canvas.w-heat")
    page.get_by_label("Heat map opacity").fill("100")
    assert canvas.evaluate(pixel, [0.25, 0.25]) == [230, 97, 1, 255]
    assert canvas.evaluate(pixel, [0.75, 0.75]) == [33, 102, 172, 255]
    assert canvas.evaluate(pixel, [0.75, 0.25])[3] == 0
    page.get_by_label("Heat map opacity").fill("0")
    assert canvas.evaluate(pixel, [0.25, 0.25]) == [0, 0, 0, 255]
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tooltip")).to_contain_text("patch 1,1")
    expect(page.get_by_role("tooltip")).to_contain_text("−1.00")


def test_text_and_picture_of_one_explanation_stand_together(opened):
    both = Comparison((made.together(), made.together(method="gi", scores=np.ones(7))))
    page = opened(report(both), wait="canvas.w-heat")
    expect(page.locator("h1")).to_have_text("which shape ?")
    row = page.locator('.w-row[data-method="lrp"]')
    assert [row.locator(".w-t").nth(n).text_content() for n in range(3)] == ["which", "shape", "?"]
    assert colour(row.locator(".w-t").nth(1)) == "rgb(230, 97, 1)"  # the strongest of the text, on its own scale
    expect(row.locator(".w-head")).to_contain_text("text +0.350")
    expect(row.locator(".w-head")).to_contain_text("picture +1.00")
    page.get_by_role("switch", name="One scale for all").check()
    assert colour(row.locator(".w-t").nth(1)) != "rgb(230, 97, 1)"
    row.locator(".w-t").nth(1).hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("+0.500")
    expect(tip).to_contain_text("3 of 7")
    expect(tip).to_contain_text("gi+1.00")
    expect(page.locator(".w-lit")).to_have_text(["shape", "shape"])
    page.get_by_label("Heat map opacity").fill("100")
    pixel = "(c, [x, y]) => Array.from(c.getContext('2d').getImageData(x * c.width, y * c.height, 1, 1).data)"
    assert row.locator("canvas").evaluate(pixel, [0.25, 0.25]) == [230, 97, 1, 255]
    row.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("patch 1,1")
    expect(tip).to_contain_text("−1.00")
    table = page.get_by_role("table", name="All features")
    expect(table.locator("tbody tr").first).to_contain_text("patch 0,0")
    expect(table.locator("tbody tr")).to_have_count(7)


def test_copied_json_of_text_and_picture_loads_again(opened, tmp_path):
    exp = made.together()
    page = opened(report(exp), wait="canvas.w-heat", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as JSON").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    again = Explanation.from_dict(json.loads(page.evaluate("navigator.clipboard.readText()")))
    np.testing.assert_array_equal(again.part("pixel_values"), exp.part("pixel_values"))
    assert again.parts == exp.parts


def test_several_pictures_beside_a_text_stand_side_by_side(opened):
    parts = (Part("input_ids", "token", shape=(1,)), Part("pixel_values", "patch", shape=(2, 1, 2)))
    scores = np.array([1.0, 1, 2, 3, 4])
    exp = made.together(
        scores=scores, parts=parts, tokens=tuple("abcde"), sides=("text",) + ("picture",) * 4,
        image=np.zeros((4, 16, 3), np.uint8),
    )  # fmt: skip
    page = opened(report(exp), wait="canvas.w-heat")
    shown = "whence.apart(JSON.parse(document.getElementById('whence-data').textContent).explanations[0])[1].scores"
    assert page.evaluate(shown) == exp.only("pixel_values").scores.tolist()


def test_a_wave_stands_over_its_seconds(opened):
    part = Part("input_values", "frame", shape=(4,), seconds=0.5)
    exp = made.explanation(
        scores=np.array([0.0, 1.0, -1.0, 0.0]), parts=(part,), tokens=("a", "b", "c", "d"),
        image=np.zeros((9, 40, 3), np.uint8), text=None, offsets=(), word_ids=(), special=(),
    )  # fmt: skip
    page = opened(report(exp), wait="canvas.w-heat")
    expect(page.locator(".w-axis").first).to_have_text("00.20.40.60.811.21.41.61.82 s")
    ticks = "[0.04, 1, 7, 30].map((end) => whence.ticks(end).at(-1))"
    assert page.evaluate(ticks) == [0.04, 1, 7, 30]
    page.locator("canvas.w-heat").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tooltip")).to_contain_text("0.50–1.00 s")
    expect(page.get_by_role("tooltip")).to_contain_text("+1.00")


def test_without_javascript_text_and_numbers_of_the_picture_are_there(opened):
    page = opened(report(made.together()), wait=".w-text", java_script_enabled=False)
    expect(page.locator(".w-text")).to_have_text("which shape ?")
    expect(page.locator(".w-table td")).to_have_text(["+2", "+0", "+0", "-1"])
    expect(page.locator(".w-card")).to_contain_text("picture: +1.0000")


def test_without_javascript_the_tokens_are_there(opened):
    page = opened(report(made.explanation()), wait=".w-text", java_script_enabled=False)
    expect(page.locator(".w-text")).to_have_text("[CLS] a gorgeous, witty film [SEP]")
    expect(page.locator(".w-card h2")).to_have_text(made.explanation().verdict)
    expect(page.locator(".w-card")).to_contain_text("prediction: positive")


def test_phone_has_no_sideways_scroll(opened):
    page = opened(report(made.comparison()), viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_scores_that_are_not_finite_are_dashes(opened):
    page = opened(report(made.explanation(scores=np.array([np.nan, np.inf, 1, 2, 3, 4, 5, 6]))))
    shown(page).locator(".w-t").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("score–")


def test_text_is_readable_on_every_shade_in_light_and_dark(opened):
    ramp = np.concatenate([np.linspace(-1, 1, 49)])
    tokens = tuple(f"t{i}" for i in range(49))
    exp = made.explanation(scores=ramp, tokens=tokens, text=None, offsets=(), word_ids=(), special=())
    page = opened(report(exp))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        worst = page.evaluate(
            """() => {
              const rgb = (c) => c.match(/[\\d.]+/g).map(Number);
              const card = rgb(getComputedStyle(document.querySelector(".w-rows")).backgroundColor);
              const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
              const light = (c) => c.slice(0, 3).map((v) => linear(v / 255))
                .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
              return Math.min(...[...document.querySelectorAll(".w-t")].map((t) => {
                const style = getComputedStyle(t);
                const back = rgb(style.backgroundColor);
                const [a, b] = [light(rgb(style.color)), light(back[3] === 0 ? card : back)].sort((x, y) => x - y);
                return (b + 0.05) / (a + 0.05);
              }));
            }"""
        )
        assert worst >= 4.5, scheme  # WCAG AA


def test_rows_of_a_long_text_scroll_together(opened):
    one = made.long(3000)
    page = opened(report(Comparison((one, made.explanation(**{**vars(one), "method": "gi"})))))
    shown(page).evaluate("e => (e.scrollTop = 500)")
    expect(shown(page, "gi")).to_have_js_property("scrollTop", 500)
