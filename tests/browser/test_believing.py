"""The page says what it shows, lets it be checked, and stays with the input that it is of."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from playwright.sync_api import expect

import whence
from tests.browser.test_page import ROWS, drop, picture
from whence.results.explanation_files import to_wire

TEXT = "It is not a good film: the plot is dull and the jokes are stale, but the cast is superb"
ADDRESS = f"#m=sentiment&x={TEXT.replace(' ', '+')}&k=lrp,gi,gae"
PHONE = {"viewport": {"width": 390, "height": 844}}
DESK = {"viewport": {"width": 1200, "height": 900}}


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_sentence_says_what_speaks_for_it_and_what_against(opened, server, size):
    page = opened(f"{server}{ADDRESS}", wait="#agreement", **size)
    said = page.locator(".w-verdict")
    expect(said).to_contain_text("The model says positive")
    expect(said.locator(".w-because")).to_have_text(["superb"])
    expect(said.locator(".w-despite")).to_have_text(["dull", "stale"])
    expect(page.locator(".w-legend").first).to_contain_text("speaks for positive")
    page.locator(f'{ROWS[:-1]}="gi"] .w-method').click()
    expect(said).to_contain_text("by Gradient × Input")


def test_methods_have_plain_names_and_say_what_they_are(opened, server):
    page = opened(f"{server}{ADDRESS}", wait="#agreement")
    row = page.locator(f'{ROWS[:-1]}="gi"]')
    expect(row.locator(".w-method")).to_have_text("Gradient × Input gi")
    row.get_by_role("button", name="About Gradient × Input").click()
    about = page.get_by_role("dialog", name="Gradient × Input")
    for word in ("Cost", "1 forward, 1 backward", "Beware", "Saturated"):
        expect(about).to_contain_text(word)
    page.keyboard.press("Escape")
    expect(about).to_be_hidden()


def test_what_is_read_about_a_method_stays_open_when_the_next_answer_comes(opened, server):
    page = opened(f"{server}{ADDRESS}", wait="#agreement")
    row = page.locator(f'{ROWS[:-1]}="lrp"]')
    row.get_by_role("button", name="About").click()
    about = row.locator(".w-pop")
    expect(about).to_be_visible()
    typed = "(e) => { e.value = 'so dull and tired'; e.dispatchEvent(new Event('input', { bubbles: true })) }"
    page.get_by_label("Text").evaluate(typed)  # no click, which would close it
    expect(page.locator(".w-best")).to_contain_text("negative")
    expect(page.locator("#agreement")).to_be_visible()
    expect(about).to_be_visible()
    page.keyboard.press("Escape")
    expect(about).to_be_hidden()


def test_the_token_that_has_the_focus_keeps_it_when_the_next_answer_comes(opened, server):
    page = opened(f"{server}{ADDRESS}", wait="#agreement")
    tokens = page.locator(f'{ROWS[:-1]}="lrp"] .w-t')
    tokens.first.focus()
    page.keyboard.press("End")
    expect(tokens.last).to_be_focused()
    typed = "(e) => { e.value = 'so dull and tired'; e.dispatchEvent(new Event('input', { bubbles: true })) }"
    page.get_by_label("Text").evaluate(typed)
    expect(page.locator(".w-best")).to_contain_text("negative")
    expect(page.locator("#agreement")).to_be_visible()
    expect(tokens.last).to_be_focused()
    expect(page.get_by_role("tooltip")).to_contain_text("[SEP]")


def test_the_most_faithful_method_stands_first_and_agreement_is_shown(opened, server):
    page = opened(f"{server}{ADDRESS}", wait="#agreement")
    chips = page.locator(".faith")
    expect(chips).to_have_count(3)
    areas = [float(re.search(r"[+−][\d.]+", t)[0].replace("−", "-")) for t in chips.all_inner_texts()]
    assert areas == sorted(areas, reverse=True)
    expect(chips.first).to_contain_text("most faithful")
    assert chips.first.locator("polyline").count() == 2
    expect(page.locator("#agreement tbody tr")).to_have_count(3)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_words_are_struck_out_and_what_happens_stands_beside_what_was_foretold(opened, server, size):
    page = opened(f"{server}{ADDRESS}", wait="#agreement", **size)
    check = page.locator("#check")
    check.get_by_role("button", name="superb").click()
    expect(check.locator(".moved")).to_contain_text("the model now says negative")
    table = check.get_by_role("table")
    expect(table).to_contain_text("what happened")
    expect(table).to_contain_text("foretold by Relevance propagation")
    expect(table).not_to_contain_text("Gradient-weighted attention")  # has no unit, so it foretells no amount
    expect(check.get_by_role("button", name="superb")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Enter")  # it still has the focus
    expect(check.locator(".moved")).to_have_count(0)


def test_the_top_three_against_three_at_random(opened, server):
    page = opened(f"{server}{ADDRESS}", wait="#agreement")
    page.get_by_role("button", name="Remove the top 3 words").click()
    expect(page.locator(".chance")).to_contain_text("mean of 10 draws")
    expect(page.locator(".strike.gone")).to_have_count(3)
    page.get_by_role("button", name="Put all back").click()
    expect(page.locator(".strike.gone")).to_have_count(0)


def test_patches_are_taken_away_too(opened, server):
    page = opened(f"{server}#m=digits&k=lrp", wait="#check")
    page.get_by_role("button", name="Remove the top 5 squares").click()
    expect(page.locator(".chance")).to_contain_text("of the 10 draws did")


def test_what_is_typed_is_explained_and_the_old_answer_is_dimmed_meanwhile(opened, server):
    page = opened(server, wait="#agreement")
    page.route("**/api/stream", lambda route: None)  # the answer does not come yet
    page.get_by_label("Text").fill("so dull and tired")
    expect(page.locator("#view")).to_have_class(re.compile("stale"))
    expect(page.locator("#status")).to_contain_text("The input has changed")
    page.unroute("**/api/stream")
    page.get_by_label("Text").press_sequentially(" a film")
    expect(page.locator(".w-best")).to_contain_text("negative")
    expect(page.locator("#view")).not_to_have_class(re.compile("stale"))


def test_typing_is_not_explained_where_nobody_wants_it(opened, server):
    page = opened(server, wait="#agreement")
    page.get_by_role("switch", name="As I type").uncheck()
    asked = []
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/api/stream") else None)
    page.get_by_label("Text").fill("so dull")
    expect(page.locator(".count")).to_have_text("4 of 256 tokens")
    assert not asked


def test_methods_come_in_one_by_one_with_their_progress(opened, server):
    """Lines of a server that has got as far as half of a slow method."""
    page = opened(server, wait="#agreement")
    made = whence.explain("sentiment", "so dull", method="lrp")
    lines = [
        {"event": "explained", "method": "lrp", "seconds": 0.1, "explanations": [to_wire(made)]},
        {"event": "progress", "method": "gi", "done": 30, "total": 60, "left": 12.0},
    ]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    page.route("**/api/stream", lambda r: r.fulfill(status=200, content_type="application/x-ndjson", body=body))
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator('[data-waiting="gi"]')).to_contain_text("30 of 60 steps, about 12 s left")


def test_an_answer_to_the_question_before_does_not_take_a_refusal_away(opened, server):
    page = opened(server, wait="#agreement")
    made = whence.explain("sentiment", "so dull", method="lrp")
    lines = [
        {"event": "explained", "method": "lrp", "seconds": 0.1, "explanations": [to_wire(made)]},
        {"event": "all_explained", "seconds": 0.1},
    ]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    held = []
    page.route("**/api/stream", lambda route: held.append(route))
    page.get_by_role("button", name="Explain").click()
    page.get_by_label("Text").fill("   ")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_contain_text("There is no text yet")
    held[0].fulfill(status=200, content_type="application/x-ndjson", body=body)
    expect(page.locator(".w-best")).to_contain_text("negative")
    expect(page.get_by_role("alert")).to_contain_text("There is no text yet")


def test_slow_methods_are_stopped_and_what_is_there_stays(opened, server):
    page = opened(server, wait="#agreement")
    made = whence.explain("sentiment", "so dull", method="lrp")
    first = json.dumps({"event": "explained", "method": "lrp", "seconds": 0.1, "explanations": [to_wire(made)]})
    page.evaluate(
        """(line) => {
          const real = fetch;
          const one = (lines) => lines.enqueue(new TextEncoder().encode(line + "\\n"));
          const held = () => Promise.resolve(new Response(new ReadableStream({ start: one })));
          globalThis.fetch = (path, options) => (path === "/api/stream" ? held() : real(path, options));
        }""",
        first,
    )
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("[data-waiting]")).to_have_count(3)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("[data-waiting]")).to_have_count(0)
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator(".topline")).to_contain_text("sentiment · stopped")
    expect(page.get_by_text("checking …")).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_the_receipt_is_a_waterfall_that_ends_at_the_score(opened, server):
    page = opened(f"{server}{ADDRESS}", wait="#agreement")
    rows = page.get_by_role("table", name="Receipt").locator("tr")
    names = rows.locator("th").all_inner_texts()
    assert names[:3] == ["bias", "position", "constant"]
    assert "superb" in names
    assert names[-1] == "= positive"
    ends = rows.locator(".w-step").evaluate_all(
        "steps => steps.map((s) => { const b = s.getBoundingClientRect(); return [b.left, b.right]; })"
    )
    falls = [t.startswith("−") for t in rows.locator("td.w-right").all_inner_texts()]
    for n in range(1, len(ends) - 2):  # each begins where the one before it ended; bars are at least 2 pixels wide
        before = ends[n - 1][0] if falls[n - 1] else ends[n - 1][1]
        begins = ends[n][1] if falls[n] else ends[n][0]
        assert abs(before - begins) <= 2.5


def test_python_that_makes_the_same_is_copied(opened, server):
    page = opened(f"{server}{ADDRESS}", wait="#agreement", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="negative").click()
    expect(page.locator(".w-asked")).to_contain_text("negative")
    page.get_by_role("button", name="Copy Python").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    code = page.evaluate("navigator.clipboard.readText()")
    scope: dict = {}
    exec(code.replace("found.save", "#"), scope)
    assert set(scope["found"].methods) == {"lrp", "gi", "gae"}
    assert scope["found"].targets == ("negative",)
    assert scope["found"][0].text == TEXT


def test_the_figure_is_copied_as_a_picture(opened, server):
    page = opened(f"{server}{ADDRESS}", wait="#agreement", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy figure").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    kinds = page.evaluate("async () => (await navigator.clipboard.read()).flatMap((item) => item.types)")
    assert kinds == ["image/png"]


# -- what belongs to which input -----------------------------------------------------------------------------------


def test_a_clicked_class_does_not_stick_to_the_next_input(opened, server):
    page = opened(server, wait="#agreement")
    page.get_by_role("button", name="negative").click()
    expect(page.get_by_role("combobox", name="Explain")).to_have_value("negative")
    page.get_by_role("button", name="I expected to hate it").click()
    expect(page.locator(".w-asked")).to_contain_text("positive")
    expect(page.get_by_role("combobox", name="Explain")).to_have_value("")


def test_a_class_that_was_selected_holds_for_the_next_input(opened, server):
    page = opened(server, wait="#agreement")
    page.get_by_role("combobox", name="Explain").select_option("negative")
    expect(page.locator(".w-asked")).to_contain_text("negative")
    page.get_by_role("button", name="I expected to hate it").click()
    expect(page.locator(".w-text").first).to_contain_text("expected")
    expect(page.locator(".w-asked")).to_contain_text("negative")


def test_the_link_of_an_image_that_does_not_fit_opens_no_other(opened, server):
    page = opened(f"{server}#m=digits&cut=1", wait="#composer", allowed=())
    expect(page.get_by_role("alert")).to_contain_text("There is no image yet")
    assert page.locator("#composer .picture img").count() == 0


def test_a_dropped_image_that_fits_is_in_the_link(opened, server):
    page = opened(server)
    drop(page, "one.png", "image/png", picture())
    expect(page.locator(".w-best")).to_contain_text("1")
    again = opened(page.url, wait="canvas.w-heat")
    expect(again.locator(".w-best")).to_contain_text("1")


def test_link_and_download_are_of_what_is_shown(opened, server):
    page = opened(f"{server}{ADDRESS}", wait="#agreement", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("switch", name="As I type").uncheck()
    page.get_by_label("Text").fill("something else")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "superb" in page.evaluate("navigator.clipboard.readText()")
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name=".csv").click()
    with open(download.value.path(), encoding="utf-8") as file:
        assert "superb" in file.read()


def test_files_of_the_page_are_read_by_the_library(opened, server, tmp_path):
    page = opened(f"{server}{ADDRESS}", wait="#agreement")
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name=".json").click()
    path = tmp_path / "page.json"
    download.value.save_as(path)
    assert set(whence.Comparison.load(path).methods) == {"lrp", "gi", "gae"}
    with page.expect_download() as download:
        page.get_by_role("button", name="Download JSON").click()
    download.value.save_as(path)
    assert whence.Explanation.load(path).text == TEXT


def test_without_special_tokens_the_others_have_the_full_colour(opened, server):
    page = opened(f"{server}{ADDRESS.replace('lrp,gi,gae', 'gae')}", wait=".faith")
    assert page.locator(".w-rows .w-p24").all_inner_texts() == ["[CLS]"]
    page.get_by_role("switch", name="Special tokens").uncheck()
    assert page.locator(".w-rows .w-p24:visible").count() == 1
    assert page.locator(".w-rows .w-p24:visible").inner_text() != "[CLS]"


def test_features_are_sorted_by_size(opened, server):
    page = opened(f"{server}{ADDRESS.replace('lrp,gi,gae', 'lrp')}", wait=".faith")
    scores = page.get_by_role("table", name="All features").locator(".w-chip").all_inner_texts()
    sizes = [abs(float(s.replace("−", "-").replace("–", "-"))) for s in scores]
    assert sizes == sorted(sizes, reverse=True)


def test_a_text_that_is_too_long_is_cut_at_a_word(opened, server):
    page = opened(server, wait="#agreement", allowed=("413",))
    page.get_by_role("switch", name="As I type").uncheck()
    page.get_by_label("Text").fill("good " * 300)
    page.get_by_role("button", name="Use the first 256").click()
    expect(page.locator(".w-text").first).to_contain_text("good")
    assert page.get_by_label("Text").input_value().split() == ["good"] * 254  # and two special tokens


def test_the_menu_of_downloads_hears_keys(opened, server):
    page = opened(server, wait="#agreement")
    page.get_by_text("Download", exact=True).focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("button", name=".html")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("button", name=".npz")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name=".html")).to_be_hidden()
    expect(page.get_by_text("Download", exact=True)).to_be_focused()


def test_a_phone_goes_to_the_answer_and_shows_every_method(opened, server):
    page = opened(f"{server}#m=sentiment&x=a+gem&k=lrp,gi,gae,rollout", wait="#agreement", **PHONE)
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#results")).to_be_in_viewport(ratio=0.1)
    page.wait_for_function("document.getElementById('results').getBoundingClientRect().top < 200")
    region = page.get_by_role("region", name="All features")
    assert region.evaluate("box => box.scrollWidth - box.clientWidth") <= 1


def test_unknown_characters_read_as_they_were_typed(opened, server):
    page = opened(f"{server}#m=sentiment&x=a+🦄+gem&k=lrp", wait=".faith")
    expect(page.locator(".w-text").first).to_contain_text("🦄")
    expect(page.locator("#view")).not_to_contain_text("[UNK]")


def test_forced_colours_keep_the_heat(opened, server):
    page = opened(server, wait="#agreement", forced_colors="active")
    shades = page.locator(".w-rows .w-p24").evaluate_all("all => all.map((s) => getComputedStyle(s).backgroundColor)")
    assert shades
    assert set(shades) == {"rgb(230, 97, 1)"}


def test_skipping_to_the_results_asks_nothing_again(opened, server):
    page = opened(server, wait="#agreement")
    page.evaluate("addEventListener('hashchange', () => (globalThis.changed = true))")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#results")).to_be_focused()
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert not page.evaluate("globalThis.changed")


def test_the_page_has_a_heading_and_landmarks(opened, server):
    page = opened(server, wait="#agreement")
    expect(page.get_by_role("heading", level=1)).to_have_text("whence")
    for role in ("banner", "main", "form", "tabpanel"):
        assert page.get_by_role(role).count() == 1, role
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map((h) => Number(h.tagName[1]))")
    assert all(b - a <= 1 for a, b in pairwise(levels)), levels
