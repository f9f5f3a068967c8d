"""The page of citations in a browser: statements light up sentences, and sentences statements."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.viz import made
from whence.viz.citations_page import page as cited

READY = ".w-cited.w-complete"
ORANGE, NOTHING = "rgb(230, 97, 1)", "rgba(0, 0, 0, 0)"


def colour(locator) -> str:
    return locator.evaluate("e => getComputedStyle(e).backgroundColor")


def share(page, key: str):
    return page.locator(f'[data-key="{key}"] .w-value')


def test_answer_documents_and_shares_are_there(opened):
    page = opened(cited(made.citations()), wait=READY)
    expect(page.locator(".w-answered")).to_contain_text("It dates from 1889.1 It is tall & loved.21")
    expect(page.locator(".w-nocite")).to_have_attribute("title", "nothing that the model read speaks for it")
    expect(page.locator(".w-doctext").first).to_have_text("It was <b>built</b> in 1889. It is tall.")
    expect(share(page, "document-0")).to_have_text("50 %")
    expect(page.get_by_role("heading", name="From none of them: 22 %")).to_be_visible()


def test_a_statement_lights_up_its_sentences_and_its_shares(opened):
    page = opened(cited(made.citations()), wait=READY)
    sentences = page.locator(".w-sentence")
    page.locator(".w-statement").nth(1).hover()
    assert colour(sentences.nth(0)) == NOTHING
    assert colour(sentences.nth(2)) != NOTHING
    expect(page.locator(".w-marked")).to_have_text(["It is tall.", "Many visit it."])
    expect(share(page, "document-1")).to_have_text("50 %")
    expect(share(page, "rest-instructions")).to_have_text("20 %")
    expect(page.get_by_role("heading", name="Where statement 2 came from")).to_be_visible()
    page.mouse.move(2, 2)
    expect(page.get_by_role("heading", name="Where the answer came from")).to_be_visible()
    assert colour(sentences.nth(0)) == ORANGE


def test_a_statement_that_nothing_speaks_for_says_so(opened):
    page = opened(cited(made.citations()), wait=READY)
    page.locator(".w-statement").nth(2).hover()
    expect(page.get_by_role("heading", name="Nothing that the model read speaks for it")).to_be_visible()


def test_a_sentence_lights_up_what_it_gave_to(opened):
    page = opened(cited(made.citations()), wait=READY)
    page.locator(".w-sentence").nth(0).hover()
    statements = page.locator(".w-statement")
    assert colour(statements.nth(0)) == ORANGE
    assert colour(statements.nth(1)) == NOTHING
    expect(statements.nth(0)).to_have_attribute("title", "75\xa0% of it is from this sentence")


def test_a_click_or_a_key_keeps_it_and_escape_lets_go(opened):
    page = opened(cited(made.citations()), wait=READY)
    page.locator(".w-statement").nth(1).click()
    page.locator(".w-sentence").nth(0).hover()
    expect(share(page, "document-1")).to_have_text("50 %")
    expect(page.locator(".w-statement").nth(1)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(share(page, "document-1")).to_have_text("28 %")
    page.locator(".w-statement").nth(0).focus()
    page.keyboard.press("Enter")
    expect(share(page, "document-0")).to_have_text("75 %")


def test_without_javascript_everything_can_be_read(opened):
    page = opened(cited(made.citations()), wait=".w-cited", java_script_enabled=False)
    expect(page.locator(".w-statement").nth(1)).to_have_text("It is tall & loved.")
    assert colour(page.locator(".w-sentence").first) == ORANGE
    assert page.locator(".w-part").first.evaluate("e => e.getBoundingClientRect().width") > 10


def test_a_phone_does_not_scroll_sideways(opened):
    page = opened(cited(made.citations()), wait=READY, viewport={"width": 360, "height": 740}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
