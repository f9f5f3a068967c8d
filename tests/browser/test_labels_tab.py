"""Models that choose among labels, on the page: texts, choices, pictures and sounds."""

from __future__ import annotations

import io
from importlib.resources import files

import pytest
from PIL import Image
from playwright.sync_api import expect

import whence
from tests.browser.conftest import serving
from tests.browser.test_page import drop, picture
from tests.choosers import choosers
from whence.web import Settings

PHONE, DESK = ({"viewport": {"width": width, "height": 844}} for width in (390, 1200))
TRIED = "#m=judge&x=the+film+was+slow&l=good%0Aa+bad+film&k=lrp"
SEEN = "#m=clip&i=/examples/shapes-2.png&l=good%0Aa+bad+film&k=lrp"
HEARD = "#m=clap&s=/examples/rising.wav&l=good%0Aa+bad+film&k=lrp"
VIEWS = {"text": TRIED, "image": SEEN, "sound": HEARD}


@pytest.fixture(scope="module")
def models():
    with serving(Settings(models={**choosers(), "sentiment": "sentiment"})) as address:
        yield address


def labels(page):
    return page.get_by_label("Labels to choose from")


def targets(page):
    """What can be explained."""
    return page.locator("#target option").all_inner_texts()


def copied(page):
    page.get_by_role("button", name="Copy Python").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    return page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("view", list(VIEWS))
def test_the_labels_are_the_classes(opened, models, view, size):
    page = opened(models + VIEWS[view], **size)
    expect(labels(page)).to_have_value("good\na bad film")
    assert sorted(page.locator(".w-class bdi").all_inner_texts()) == ["a bad film", "good"]
    expect(page.locator(".w-verdict")).to_contain_text("The model says")
    text = page.locator('.w-row[data-method="lrp"] .w-text')
    expect(text).to_contain_text("good")
    expect(text).to_contain_text("bad film")
    drawn = page.locator('.w-row[data-method="lrp"] canvas')
    expect(drawn).to_have_count(0 if view == "text" else 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["viewport"]["width"]


@pytest.mark.parametrize("view", list(VIEWS))
def test_labels_are_on_lines_of_their_own(opened, models, view):
    page = opened(models + VIEWS[view], wait="#check .strike")
    for shown in ('.w-row[data-method="lrp"] .w-text', "#check .strikes"):
        assert len(page.locator(shown).inner_text().strip().splitlines()) == 2


def test_tokens_of_a_word_stand_together(opened, models):
    page = opened(f"{models}#m=judge&x=zebra&l=good&k=lrp")
    page.get_by_role("radio", name="Tokens").check()
    expect(page.locator('.w-row[data-method="lrp"] .w-text')).to_contain_text("[CLS] zebra [SEP]")
    assert page.locator('.w-row[data-method="lrp"] .w-t').count() > 8


def test_the_targets_follow_the_labels_that_are_typed(opened, models):
    page = opened(models + TRIED)
    assert targets(page) == ["the prediction", "good", "a bad film"]
    page.locator("#target").select_option("good")
    page.locator("#against").select_option("a bad film")
    expect(page.locator(".w-asked")).to_contain_text("good rather than a bad film")
    labels(page).fill("good\n slow \n\ngood\n")
    assert targets(page) == ["the prediction", "good", "slow"]
    expect(page.locator("#target")).to_have_value("good")
    expect(page.locator("#against")).to_have_value("")  # that label is gone
    expect(page.locator(".count").last).to_have_text("2 labels, one per line")
    expect(page.locator('.w-class[data-label="slow"]')).to_be_visible()  # as somebody types
    page.locator('.w-class[data-label="slow"]').click()
    expect(page.locator(".w-asked")).to_contain_text("slow")


def test_a_line_with_commas_can_be_split(opened, models):
    page = opened(models + TRIED)
    labels(page).fill("good, bad; slow")
    expect(page.locator(".count").last).to_contain_text("1 label, one per line")
    page.get_by_role("button", name="Split at commas").click()
    expect(labels(page)).to_have_value("good\nbad\nslow")
    expect(page.locator(".w-class")).to_have_count(3)


def test_without_labels_the_page_says_so(opened, models):
    page = opened(models + TRIED)
    labels(page).fill("")
    page.get_by_role("button", name="Explain").first.click()
    expect(page.get_by_role("alert")).to_contain_text("There are no labels yet")
    labels(page).fill("\n".join(f"l {n}" for n in range(65)))
    expect(page.locator(".count.over")).to_contain_text("65 labels; the limit is 64")


@pytest.mark.parametrize("view", list(VIEWS))
def test_a_link_holds_the_labels(opened, models, view):
    page = opened(models + VIEWS[view])
    labels(page).fill("slow\nvery, very good\nfilm")
    page.get_by_role("button", name="Explain").first.click()
    expect(page.locator('.w-class[data-label="very, very good"]')).to_be_visible()
    again = opened(page.url)
    expect(labels(again)).to_have_value("slow\nvery, very good\nfilm")
    expect(again.locator(".w-class")).to_have_count(3)


def test_python_of_every_sort(opened, models, tmp_path, monkeypatch):
    """What is copied runs, and explains the same."""
    given = choosers()
    file = io.BytesIO()
    Image.new("RGB", (30, 30), "purple").save(file, "PNG")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "image.png").write_bytes(file.getvalue())
    (tmp_path / "sound.wav").write_bytes((files("whence.web") / "examples" / "rising.wav").read_bytes())
    loaded = {}
    real = whence.load
    monkeypatch.setattr(whence, "load", lambda name, **how: loaded.update({name: how}) or given[name])
    chooses = "#m=chooser&x=the+film&l=good%0Aslow&k=lrp"
    for address, found in ((TRIED, "labels"), (chooses, "choices"), (SEEN, "labels"), (HEARD, "labels")):
        page = opened(models + address + "&t=good", permissions=["clipboard-read", "clipboard-write"])
        code = copied(page)
        assert f"{found} = [" in code
        scope: dict = {}
        exec(code.replace("exp.save", "#"), {}, scope)
        assert scope["exp"].target == "good"
    monkeypatch.setattr(whence, "load", real)
    assert loaded == {"judge": {"task": "zero-shot-classification"}, "chooser": {}, "clip": {}, "clap": {}}


def test_choices_are_called_so(opened, models):
    page = opened(f"{models}#m=chooser")
    expect(page.get_by_label("Choices")).to_have_value("a stone\na bird\na chair")
    page.locator(".examples button").nth(1).click()
    expect(page.get_by_label("Choices")).to_have_value("a cup of tea\nto swim\na new roof")
    expect(page.locator('.w-class[data-label="to swim"]')).to_be_visible()


def test_there_is_no_attention_where_there_is_none(opened, models):
    page = opened(models + TRIED)
    expect(page.get_by_role("tab", name="Attention")).to_be_hidden()
    page.get_by_label("Model").select_option("sentiment")
    expect(page.get_by_role("tab", name="Attention")).to_be_visible()
    page.get_by_role("tab", name="Attention").click()
    page.locator(".w-complete").wait_for()
    page.get_by_label("Model").select_option("judge")
    expect(page.get_by_role("tab", name="Explain")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".w-class").first).to_be_visible()


def test_drafts_stay_when_the_model_is_changed(opened, models):
    page = opened(models + TRIED)
    labels(page).fill("slow\nvery good")
    page.get_by_label("Model").select_option("sentiment")
    expect(labels(page)).to_have_count(0)
    expect(page.locator('.w-class[data-label="positive"]')).to_be_visible()
    assert "l=" not in page.url.split("#")[1].split("&")
    page.get_by_label("Model").select_option("judge")
    expect(labels(page)).to_have_value("slow\nvery good")
    expect(page.get_by_label("Text", exact=True)).to_have_value("the film was slow")
    expect(page.locator('.w-class[data-label="very good"]')).to_be_visible()


def test_a_clip_compares_two_or_chooses_a_label(opened, models):
    page = opened(f"{models}#m=clip", wait=".w-grid")
    way = page.get_by_role("radiogroup", name="What to ask")
    way.get_by_role("radio", name="Choose a label").check()
    expect(labels(page)).to_have_value("a purple triangle\na green circle\na black square")
    expect(page.get_by_alt_text("The image to explain")).to_have_attribute("src", "/examples/shapes-2.png")
    expect(page.locator('.w-class[data-label="a green circle"]')).to_be_visible()
    expect(page.get_by_role("button", name="Explain").first).to_be_visible()
    expect(page.get_by_role("radio", name="Choose a label")).to_be_focused()
    drop(page, "one.png", "image/png", picture())
    expect(page.get_by_alt_text("The image to explain")).not_to_have_attribute("src", "/examples/shapes-2.png")
    expect(page.locator("#status")).to_be_empty()
    again = opened(page.url)  # a small picture is in the address
    expect(labels(again)).to_have_value("a purple triangle\na green circle\na black square")
    again.get_by_role("radio", name="Compare two").check()  # which this page has not shown yet
    expect(again.locator(".w-square")).to_have_count(4)
    expect(again.get_by_label("Second", exact=True)).to_have_value("a purple triangle")
    assert "&l=" not in again.url
    again.get_by_role("radio", name="Choose a label").check()
    expect(labels(again)).to_have_value("a purple triangle\na green circle\na black square")
    expect(again.locator('.w-class[data-label="a green circle"]')).to_be_visible()


def test_attention_of_the_picture_that_labels_are_chosen_for(opened, models):
    page = opened(f"{models}{SEEN}&tab=attention", wait=".w-complete")
    expect(page.get_by_label("The image under the weights")).to_be_visible()
    expect(page.get_by_role("radiogroup", name="Which input")).to_have_count(0)


@pytest.mark.parametrize("view", list(VIEWS))
def test_what_is_struck_out_is_asked_again(opened, models, view):
    page = opened(models + VIEWS[view], wait="#check .strike")
    page.get_by_role("button", name="Remove the top").click()
    expect(page.locator("table.foretold")).to_be_visible()
    expect(page.locator(".chance")).to_contain_text("drawn at random")


def test_files_of_what_is_shown(opened, models, tmp_path):
    page = opened(models + SEEN)
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name=".json").click()
    path = tmp_path / "chosen.json"
    download.value.save_as(path)
    assert set(whence.Explanation.load(path).prediction.labels) == {"good", "a bad film"}


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
@pytest.mark.parametrize("view", list(VIEWS))
def test_axe_finds_nothing_serious(opened, models, view, scheme, width):
    axe = pytest.importorskip("axe_playwright_python", reason="needs axe: pip install 'whence-xai[dev]'")
    page = opened(models + VIEWS[view], wait="#check", color_scheme=scheme, viewport={"width": width, "height": 844})
    page.evaluate((files(axe) / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then((result) => result.violations)")
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["nodes"][0]["html"], v["nodes"][0]["failureSummary"]) for v in serious]
