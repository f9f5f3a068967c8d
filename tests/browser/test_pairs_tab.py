"""Two inputs compared on the page: texts, and pictures where a model matches these with texts."""

from __future__ import annotations

from importlib.resources import files

import pytest
from playwright.sync_api import expect

import whence
from tests import small
from tests.browser.conftest import serving
from tests.browser.test_page import drop, picture
from whence.web import Settings

PHONE, DESK = ({"viewport": {"width": width, "height": 844}} for width in (390, 1200))
SEEN = "#m=clip&p=image,text&i=/examples/shapes-2.png&y=a+good+movie"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A CLIP from a folder, as `whence serve FOLDER` takes it, and an embedder of texts."""
    folder = tmp_path_factory.mktemp("models") / "clip"
    for part in small.clip():
        part.save_pretrained(folder)
    embedder = whence.load((small.encoder(), small.wordpiece()), task="sentence-embedding")
    clip = whence.load(str(folder))
    with serving(Settings(models={"clip": clip, "embedder": embedder, "digits": "digits"})) as address:
        yield address


def choose(page, side: str, what: str) -> None:
    page.get_by_role("radiogroup", name=f"{side} input").get_by_role("radio", name=what).check()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_picture_and_its_caption_with_a_sentence_on_what_came_out(opened, models, size):
    page = opened(models, wait=".w-grid", **size)  # the first example
    expect(page.locator(".w-verdict")).to_contain_text("Their cosine similarity is")
    expect(page.locator(".w-verdict")).to_contain_text("of the picture")
    expect(page.locator(".w-square")).to_have_count(4)
    assert page.locator(".w-arc").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= size["viewport"]["width"]
    page.locator(".w-square").nth(1).hover()
    expect(page.locator(".w-tip")).to_contain_text("patch 0,1, in all")


def test_a_side_is_turned_into_a_picture_and_a_file_is_chosen_for_it(opened, models, tmp_path):
    page = opened(models + SEEN, wait=".w-grid")
    choose(page, "Second", "Image")
    expect(page.locator("#view")).to_have_class("stale")  # what is shown is of another question
    expect(page.locator("#status")).to_contain_text("The input has changed")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("alert")).to_contain_text("There is no second image yet")
    file = tmp_path / "one.png"
    file.write_bytes(picture())
    page.locator('[data-side="1"] input[type="file"]').set_input_files(file)
    expect(page.locator('[data-side="right"] .w-square')).to_have_count(4)
    expect(page.get_by_alt_text("The second image")).to_be_visible()
    expect(page.locator(".w-verdict")).to_contain_text("no two parts of them go together")
    again = opened(page.url, wait=".w-grid")  # the address holds both
    expect(again.locator(".w-square")).to_have_count(8)


def test_a_dropped_picture_goes_where_it_is_dropped(opened, models):
    page = opened(models + SEEN, wait=".w-grid")
    page.evaluate("""() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(["x"], "x.png", { type: "image/png" }));
      document.body.dispatchEvent(new DragEvent("dragenter", { dataTransfer: transfer, bubbles: true }));
    }""")
    expect(page.locator("#drop p")).to_have_text(["Drop the first here", "Drop the second here"])
    drop(page, "one.png", "image/png", picture(), "#drop [data-side='1']")
    expect(page.locator("#drop")).to_be_hidden()
    expect(page.locator('[data-side="right"] .w-square')).to_have_count(4)
    expect(page.get_by_alt_text("The first image")).to_have_attribute("src", "/examples/shapes-2.png")
    drop(page, "one.png", "image/png", picture())  # anywhere else: the first that is a picture
    expect(page.get_by_alt_text("The first image")).not_to_have_attribute("src", "/examples/shapes-2.png")
    drop(page, "two.txt", "text/plain", b"a good movie", "[data-side='0']")
    expect(page.get_by_label("First", exact=True)).to_have_value("a good movie")
    expect(page.locator('[data-side="left"]')).to_contain_text("good")


def test_two_images_that_are_too_large_together_are_not_sent(opened, models):
    page = opened(f"{models}#m=clip&p=image,image&i=/examples/digit-3.png&j=/examples/digit-8.png", wait=".w-grid")
    asked = []
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/api/similarity") else None)
    for side in (0, 1):
        large = picture() + b"\0" * 6_000_000  # what comes behind a picture is no part of it
        page.locator(f'[data-side="{side}"] input[type="file"]').set_input_files(
            {"name": "large.png", "mimeType": "image/png", "buffer": large}
        )
        if side == 0:
            expect(page.locator("#status")).to_be_empty()
    expect(page.get_by_role("alert")).to_contain_text("the limit is 10,000,000 together")
    assert len(asked) == 1


def test_a_side_that_is_a_text_now_is_no_picture_in_the_link(opened, models):
    page = opened(models + SEEN, wait=".w-grid")
    choose(page, "First", "Text")
    page.get_by_label("First", exact=True).fill("the bad one")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator('[data-side="left"]')).to_contain_text("bad")
    assert "shapes" not in page.url
    again = opened(page.url, wait=".w-grid")
    expect(again.get_by_label("First", exact=True)).to_have_value("the bad one")
    expect(again.locator(".w-square")).to_have_count(0)


def test_an_address_cannot_make_the_page_ask_elsewhere(opened, models):
    page = opened(f"{models}#m=clip&p=image,image&i=https://example.invalid/x.png&j=https://example.invalid/y.png",
                  wait="#composer .picture")  # fmt: skip
    assert page.locator("#composer img[src^='https']").count() == 0


def test_edited_texts_mark_the_old_answer(opened, models):
    page = opened(f"{models}#m=embedder", wait=".w-grid")
    page.get_by_label("Other text").fill("something else")
    expect(page.locator("#status")).to_contain_text("The input has changed")
    page.keyboard.press("Control+Enter")
    expect(page.locator('[data-side="right"]')).to_contain_text("something else")
    expect(page.locator("#status")).to_be_empty()


def test_measures_and_methods_are_chosen(opened, models):
    page = opened(f"{models}#m=embedder", wait=".w-grid")
    page.get_by_label("Compared by").select_option("maxsim")
    expect(page.locator(".w-verdict")).to_contain_text("maxsim similarity")
    page.get_by_label("Method").select_option("gi")
    expect(page.locator("#whence-pair h2").first).to_contain_text("by gi")
    again = opened(page.url, wait=".w-grid")
    expect(again.get_by_label("Compared by")).to_have_value("maxsim")
    expect(again.get_by_label("Method")).to_have_value("gi")
    page.get_by_label("Model").select_option("clip")
    expect(page.locator(".w-square")).to_have_count(4)
    assert page.get_by_label("Compared by").locator("option").all_inner_texts() == ["cosine", "dot product"]


def test_the_arrow_keys_go_over_patches_and_words(opened, models):
    page = opened(models + SEEN, wait=".w-grid")
    assert page.locator('.w-two [tabindex="0"]').count() == 2  # one tab stop for each side
    page.locator(".w-square").first.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".w-tip")).to_contain_text("patch 1,0, in all")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".w-tip")).to_contain_text("patch 1,1, in all")
    page.keyboard.press("Enter")
    expect(page.locator(".w-square").nth(3)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    expect(page.locator(".w-tip")).to_contain_text("[SEP], in all")
    page.keyboard.press("Escape")
    expect(page.locator('.w-square[aria-selected="true"]')).to_have_count(0)


def test_python_link_figure_and_files_of_a_pair(opened, models, tmp_path):
    page = opened(f"{models}#m=embedder", wait=".w-grid", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy Python").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    code = page.evaluate("navigator.clipboard.readText()")
    made = {}
    made["embedder"] = (small.encoder(), small.wordpiece())
    scope: dict = {}
    exec(code.replace('"embedder"', "MODEL").replace("pair.save", "#"), {"MODEL": made["embedder"]}, scope)
    assert scope["pair"].left.text == "A cat sleeps on the sofa."
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name=".json").click()
    path = tmp_path / "pair.json"
    download.value.save_as(path)
    assert whence.Pair.load(path).right.text == "The kitten is napping on the couch."
    page.get_by_role("button", name="Copy figure").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()


def test_attention_of_either_side(opened, models):
    page = opened(f"{models}{SEEN}&tab=attention", wait=".w-complete")
    expect(page.get_by_label("The image under the weights")).to_be_visible()
    page.get_by_role("radiogroup", name="Which input").get_by_role("radio", name="Second").check()
    expect(page.locator(".w-looks")).to_contain_text("good")


def test_the_answer_to_another_model_is_not_shown(opened, models):
    page = opened(models + SEEN, wait=".w-grid")
    page.get_by_role("tab", name="Attention").click()
    expect(page.locator(".w-looks")).to_contain_text("patch 0,0")
    page.get_by_label("Model").select_option("embedder")
    expect(page.locator(".w-looks")).to_contain_text("s o f a")
    page.get_by_role("tab", name="Explain").click()
    expect(page.locator('[data-side="left"]')).to_contain_text("sofa")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_axe_finds_nothing_serious(opened, models, scheme, width):
    axe = pytest.importorskip("axe_playwright_python", reason="needs axe: pip install 'whence-xai[dev]'")
    page = opened(models + SEEN, wait=".w-grid", color_scheme=scheme, viewport={"width": width, "height": 844})
    page.evaluate((files(axe) / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then((result) => result.violations)")
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["nodes"][0]["html"], v["nodes"][0]["failureSummary"]) for v in serious]
