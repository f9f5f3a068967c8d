"""Runs in the browser: coloured rows, filters, words that find their rows, a drawer with keys, an address per row."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

import whence
from tests.browser.conftest import serving
from whence.web import Settings

ROWS = [
    ("a warm and funny film", "positive"),
    ("so dull and tired", "negative"),
    ("a gorgeous, witty, seductive movie", "negative"),  # the model is sure of the opposite
    ("it is a bad and stupid bore", "positive"),  # here too
    ("clever and moving", "positive"),
]
READY = "#summary .words"


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    pytest.importorskip("pyarrow", reason="needs the extra data: pip install 'whence-xai[data]'")
    folder = tmp_path_factory.mktemp("labelled")
    data = folder / "films.jsonl"
    data.write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in ROWS), encoding="utf-8")
    whence.run(data, model="sentiment", out=folder / "films", target_column="label", progress=False)
    with serving(Settings(models=("sentiment",), runs=(folder / "films",))) as address:
        yield address


@pytest.mark.parametrize("width", [1200, 390])
def test_rows_are_coloured_and_say_how_sure_the_model_is(opened, films, width):
    page = opened(f"{films}#m=sentiment&tab=runs", wait=READY, viewport={"width": width, "height": 844})
    first = page.locator(".rowlist tbody tr").first
    assert first.locator(".w-t[class*='w-p']").count() > 0
    expect(first.locator(".sure")).to_contain_text("%")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_wrong_and_confident_rows_are_found_surest_first(opened, films):
    page = opened(f"{films}#m=sentiment&tab=runs", wait=READY)
    expect(page.locator(".w-count").first).to_have_text("1–5 of 5")
    page.get_by_role("switch", name="Wrong and confident").check()
    expect(page.locator(".w-count").first).to_have_text("1–2 of 2")
    expect(page.locator("tr.wrong")).to_have_count(2)
    shares = [float(t.split()[0]) for t in page.locator(".sure").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    page.get_by_role("switch", name="Wrong and confident").uncheck()
    expect(page.locator(".w-count").first).to_have_text("1–5 of 5")


def test_rows_of_a_label(opened, films):
    page = opened(f"{films}#m=sentiment&tab=runs", wait=READY)
    page.get_by_label("Predicted label").select_option("negative")
    expect(page.locator(".w-count").first).to_have_text("1–2 of 2")


def test_a_word_of_the_summary_finds_its_rows(opened, films):
    page = opened(f"{films}#m=sentiment&tab=runs", wait=READY)
    page.locator("#summary").get_by_role("button", name="dull").first.click()
    expect(page.locator(".w-count").first).to_have_text("1–1 of 1")
    expect(page.get_by_label("Search the rows")).to_have_value("dull")


@pytest.mark.parametrize("width", [1200, 390])
def test_a_row_has_a_drawer_keys_and_an_address(opened, films, width):
    page = opened(f"{films}#m=sentiment&tab=runs", wait=READY, viewport={"width": width, "height": 844})
    page.get_by_role("button", name="so dull").click()
    drawer = page.get_by_role("dialog", name="A row of the run")
    expect(drawer.locator(".w-verdict")).to_contain_text("The model says negative")
    assert page.url.endswith("row=films%3A1")
    page.keyboard.press("j")
    expect(drawer.get_by_role("status").first).to_have_text("row 2")
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(drawer.get_by_role("status").first).to_have_text("row 0")
    again = opened(page.url, wait=".drawer .w-verdict")
    expect(again.locator(".drawer .w-text").first).to_contain_text("warm")
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    assert "row=" not in page.url
