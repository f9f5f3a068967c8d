"""Language models and embedders on the page, with tiny ones."""

from __future__ import annotations

from importlib.resources import files

import pytest
from playwright.sync_api import expect

import whence
from tests import small
from tests.browser.conftest import serving
from whence.web import Settings


@pytest.fixture(scope="module")
def models():
    writer = whence.load((small.long_llama(), small.bytelevel(limit=512)))
    embedder = whence.load((small.encoder(), small.wordpiece()), task="sentence-embedding")
    with serving(Settings(models={"writer": writer, "embedder": embedder})) as address:
        yield address


def test_what_is_written_shows_where_it_came_from(opened, models):
    page = opened(f"{models}#m=writer&x=abc&tab=write", wait=".w-own")
    expect(page.get_by_label("Tokens to write")).to_have_value("12")
    page.get_by_label("Tokens to write").fill("3")
    page.get_by_role("button", name="Write").click()
    expect(page.locator("#written option")).to_have_count(3)
    own = page.locator(".w-own .w-t").first
    own.hover()
    assert page.locator(".w-prompt .w-t[class*='w-p'], .w-prompt .w-t[class*='w-n']").count() > 0


def test_why_this_rather_than_that(opened, models):
    page = opened(f"{models}#m=writer&x=abc&tab=write", wait=".rather")
    page.get_by_label("rather than").fill("x")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator(".w-asked")).to_contain_text("rather than")


def test_an_answer_from_documents_cites_them(opened, models):
    page = opened(f"{models}#m=writer&x=abc&tab=write", wait=".rather")
    page.get_by_label("Documents to answer from").fill("First text.\n\nSecond text.")
    page.get_by_role("button", name="Write").click()
    expect(page.locator(".w-cited.w-complete .w-document")).to_have_count(2)
    page.evaluate("addEventListener('hashchange', () => (globalThis.changed = true))")
    page.locator("a.w-cite").last.click()
    expect(page.locator(".w-document").last).to_be_in_viewport()
    page.evaluate("new Promise((done) => setTimeout(done))")  # an event of the click would have come by then
    assert not page.evaluate("globalThis.changed"), "the address holds what the page shows: the model would run again"


def test_the_chosen_method_is_asked_for_and_what_is_shown_is_marked_as_old(opened, models):
    page = opened(f"{models}#m=writer&x=abc&k=lrp,gi&tab=write", wait=".rather")
    expect(page.locator(".w-verdict")).to_contain_text("came")
    asked = []
    page.on(
        "request", lambda r: asked.append((r.url.rpartition("/")[2], r.post_data_json)) if "/api/" in r.url else None
    )
    expect(page.get_by_label("Method")).to_have_value("lrp")
    page.get_by_label("Method").select_option("ah")
    expect(page.locator("#status")).to_contain_text("The input has changed")
    assert not asked, "to write takes long: nobody has asked for it yet"
    page.get_by_role("button", name="Write").click()
    expect(page.locator("#status")).to_be_empty()
    page.get_by_label("Documents to answer from").fill("First text.\n\nSecond text.")
    expect(page.locator("#status")).to_contain_text("The input has changed")
    page.get_by_role("button", name="Write").click()
    expect(page.locator(".w-cited.w-complete .w-document")).to_have_count(2)
    expect(page.locator(".w-verdict")).to_contain_text("document")
    methods = [(name, body["method"]) for name, body in asked if name in ("write", "cite")]
    assert methods == [("write", "ah"), ("cite", "ah")]


def test_what_was_written_is_still_there_when_one_comes_back(opened, models):
    page = opened(f"{models}#m=writer&x=abc&n=3&tab=write", wait=".rather")
    expect(page.get_by_label("Tokens to write")).to_have_value("3")
    asked = []
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/api/write") else None)
    page.get_by_role("tab", name="Explain").click()
    expect(page.locator("#check")).to_be_visible()
    page.get_by_role("tab", name="Write").click()
    expect(page.locator("#written option")).to_have_count(3)
    assert not asked
    page.get_by_role("textbox", name="Prompt").fill("abcd")
    expect(page.locator("#status")).to_contain_text("The input has changed")
    page.get_by_role("tab", name="Explain").click()
    expect(page.locator(".w-text").first).to_contain_text("abcd")  # not the answer to the prompt before


def test_link_and_python_of_what_was_written(opened, models):
    page = opened(
        f"{models}#m=writer&x=abc&n=3&tab=write", wait=".rather", permissions=["clipboard-read", "clipboard-write"]
    )
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert "n=3" in link
    assert "tab=write" in link
    page.get_by_role("button", name="Copy Python").click()
    expect(page.get_by_role("button", name="Copied")).to_have_count(1)
    code = page.evaluate("navigator.clipboard.readText()")
    scope: dict = {"MODEL": (small.long_llama(), small.bytelevel(limit=512))}
    exec(code.replace('"writer"', "MODEL").replace("trace.save", "#"), scope)
    assert len(scope["trace"]) == 3
    documents = opened(f"{link}&d=First+text.%0A%0ASecond+text.", wait=".w-cited.w-complete")
    expect(documents.get_by_label("Documents to answer from")).to_have_value("First text.\n\nSecond text.")


def test_two_texts_are_compared_and_only_models_that_write_have_the_tab(opened, models):
    page = opened(f"{models}#m=embedder", wait=".w-grid")
    assert page.locator(".w-arc").count() > 0
    expect(page.get_by_role("tab", name="Write")).to_be_hidden()
    page.get_by_label("Model").select_option("writer")
    expect(page.get_by_role("tab", name="Write")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
@pytest.mark.parametrize(("view", "wait"), [("#m=writer&x=abc&tab=write", ".rather"), ("#m=embedder", ".w-grid")])
def test_axe_finds_nothing_serious(opened, models, view, wait, scheme, width):
    axe = pytest.importorskip("axe_playwright_python", reason="needs axe: pip install 'whence-xai[dev]'")
    page = opened(models + view, wait=wait, color_scheme=scheme, viewport={"width": width, "height": 844})
    page.evaluate((files(axe) / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then((result) => result.violations)")
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["nodes"][0]["html"], v["nodes"][0]["failureSummary"]) for v in serious]
