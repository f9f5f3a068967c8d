"""Language models and embedders on the page, with tiny ones."""

from __future__ import annotations

import copy
from importlib.resources import files

import pytest
from playwright.sync_api import expect

import whence
from tests import small
from tests.browser.conftest import serving
from whence.web import Settings

PHONE, DESK = ({"viewport": {"width": width, "height": 844}} for width in (390, 1200))
COPYING = ["clipboard-read", "clipboard-write"]
CHAT = "#m=chatter&x=hi+there&n=3&tab=write"
MADE = {"user": {"role": "user", "content": "hi there"}, "system": {"role": "system", "content": "terse"}}


def silent():
    """A tokenizer without a chat template."""
    tokenizer = copy.deepcopy(small.bytelevel(limit=512))
    tokenizer.chat_template = None
    return tokenizer


def heard(page) -> list:
    """What the page asks the model for, as (end of the address, body), from now on."""
    asked: list = []

    def hear(request):
        name = request.url.partition("/api/")[2]
        if request.post_data and name != "tokens":  # these are counted while one types
            asked.append((name, request.post_data_json))

    page.on("request", hear)
    return asked


def only(asked: list, *names: str) -> list:
    return [body for name, body in asked if name in names]


@pytest.fixture(scope="module")
def models():
    writer = whence.load((small.long_llama(), silent()))
    chatter = whence.load((small.long_llama(), small.bytelevel(limit=512)))
    embedder = whence.load((small.encoder(), small.wordpiece()), task="sentence-embedding")
    with serving(Settings(models={"writer": writer, "chatter": chatter, "embedder": embedder})) as address:
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
    asked = heard(page)
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
    assert [(name, body["method"]) for name, body in asked] == [("write", "ah"), ("cite", "ah")]


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
    expect(page.get_by_role("button", name="Copied")).to_have_count(0)
    page.get_by_role("button", name="Copy Python").click()
    expect(page.get_by_role("button", name="Copied")).to_have_count(1)
    code = page.evaluate("navigator.clipboard.readText()")
    scope: dict = {"MODEL": (small.long_llama(), small.bytelevel(limit=512))}
    exec(code.replace('"writer"', "MODEL").replace("trace.save", "#"), scope)
    assert len(scope["trace"]) == 3
    documents = opened(f"{link}&d=First+text.%0A%0ASecond+text.", wait=".w-cited.w-complete")
    expect(documents.get_by_label("Documents to answer from")).to_have_value("First text.\n\nSecond text.")


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_model_with_a_chat_template_is_asked_as_a_chat(opened, models, size):
    page = opened(f"{models}{CHAT}", wait=".rather", **size)
    expect(page.get_by_role("switch", name="As a chat")).to_be_checked()
    expect(page.get_by_label("System prompt")).to_be_hidden()
    expect(page.locator(".w-passage > .w-who")).to_have_text(["template", "user", "template", "written"])
    expect(page.locator('.w-passage[data-name="user"] .w-text')).to_have_text("hi there")
    asked = heard(page)
    page.get_by_text("System prompt", exact=True).first.click()
    page.get_by_label("System prompt").fill("terse")
    expect(page.locator("#status")).to_contain_text("The input has changed")
    page.get_by_role("button", name="Write").click()
    expect(page.locator('.w-passage[data-name="system"] .w-text')).to_have_text("terse")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["viewport"]["width"]
    page.get_by_role("switch", name="As a chat").uncheck()
    expect(page.get_by_label("System prompt")).to_be_hidden()
    page.get_by_role("button", name="Write").click()
    expect(page.locator(".w-passage > .w-who")).to_have_text(["prompt", "written"])
    chat, bare = only(asked, "write")
    assert (chat["messages"], "text" in chat) == ([MADE["system"], MADE["user"]], False)
    assert (bare["text"], "messages" in bare) == ("hi there", False)


def test_a_model_without_one_goes_on_with_the_text(opened, models):
    page = opened(f"{models}#m=writer&x=abc&n=3&tab=write", wait=".rather")
    expect(page.get_by_role("switch", name="As a chat")).to_have_count(0)
    expect(page.locator(".w-passage > .w-who")).to_have_text(["prompt", "written"])
    page.get_by_label("Model").select_option("chatter")
    expect(page.get_by_role("switch", name="As a chat")).to_be_checked()
    expect(page.locator('.w-passage[data-name="user"]')).to_have_count(1)


def test_message_and_answer_stand_apart_while_it_is_written(opened, models):
    page = opened(f"{models}{CHAT}&sys=terse", wait=".rather")
    told = '{"event": "token", "text": "Hel"}\n{"event": "token", "text": "lo"}\n'
    page.route("**/api/write", lambda route: route.fulfill(body=told, content_type="application/x-ndjson"))
    page.get_by_role("textbox", name="Prompt", exact=True).fill("<b>you</b>")
    page.get_by_role("button", name="Write").click()
    expect(page.locator("#view .w-passage .w-who")).to_have_text(["system", "user", "written"])
    expect(page.locator("#view .w-passage .w-text")).to_have_text(["terse", "<b>you</b>", "Hello"])


def test_the_address_keeps_the_switch_and_the_system_prompt(opened, models):
    page = opened(f"{models}{CHAT}", wait=".rather")
    page.get_by_text("System prompt", exact=True).first.click()
    page.get_by_label("System prompt").fill("be brief & kind")
    page.get_by_role("button", name="Write").click()
    expect(page.locator('.w-passage[data-name="system"]')).to_have_count(1)
    again = opened(page.url, wait=".rather")
    expect(again.get_by_label("System prompt")).to_have_value("be brief & kind")
    expect(again.locator('.w-passage[data-name="system"] .w-text')).to_have_text("be brief & kind")
    page.get_by_role("switch", name="As a chat").uncheck()
    page.get_by_role("button", name="Write").click()
    expect(page.locator(".w-passage > .w-who")).to_have_text(["prompt", "written"])
    bare = opened(page.url, wait=".rather")
    expect(bare.get_by_role("switch", name="As a chat")).not_to_be_checked()
    expect(bare.locator(".w-passage > .w-who")).to_have_text(["prompt", "written"])


def test_a_system_prompt_alone_is_no_message(opened, models):
    page = opened(f"{models}{CHAT}&sys=terse", wait=".rather")
    page.get_by_role("textbox", name="Prompt", exact=True).fill(" ")
    page.get_by_role("button", name="Write").click()
    expect(page.get_by_role("alert")).to_contain_text("There is no text yet")


def test_python_of_a_chat(opened, models):
    page = opened(
        f"{models}#m=chatter&x=hi+%22you%22%0A%F0%9F%90%9D&sys=terse&n=3&tab=write", wait=".rather", permissions=COPYING
    )
    page.get_by_role("button", name="Copy Python").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    code = page.evaluate("navigator.clipboard.readText()")
    scope: dict = {"MODEL": (small.long_llama(), small.bytelevel(limit=512))}
    exec(code.replace('"chatter"', "MODEL").replace("trace.save", "#"), scope)
    assert scope["messages"] == [MADE["system"], {"role": "user", "content": 'hi "you"\n\N{HONEYBEE}'}]
    assert len(scope["trace"]) == 3


@pytest.mark.parametrize("model", ["writer", "chatter"])
def test_the_very_tokens_that_were_written_are_asked_about(opened, models, model):
    page = opened(f"{models}#m={model}&x=hi+there&n=3&tab=write", wait=".rather")
    asked = heard(page)
    page.get_by_role("button", name="Write").click()
    expect(page.locator("#status")).to_be_empty()
    page.get_by_label("Why did it write").select_option("2")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator(".w-asked")).to_contain_text("rather than")
    page.get_by_role("textbox", name="rather than").fill("x")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator(".w-asked")).to_contain_text("rather than x")
    first, second = only(asked, "explain")
    assert len(first["continuation"]) == 3
    assert first["targets"] == [{"written": 2}]
    assert second["targets"][0]["than"].strip() == "x"
    assert first.get("messages") == ([MADE["user"]] if model == "chatter" else None)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_what_is_shown_is_taken_away_without_writing_again(opened, models, size, tmp_path):
    page = opened(f"{models}{CHAT}", wait=".rather", **size)
    asked = heard(page)
    page.get_by_text("Download", exact=True).click()
    menu = page.get_by_role("group", name="Formats")
    box = menu.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size["viewport"]["width"]
    formats = menu.locator("code").all_inner_texts()
    assert formats == [".html", ".svg", ".png", ".pdf", ".tex", ".txt", ".json", ".npz"]
    with page.expect_download() as taken:
        menu.get_by_role("button", name=".json").click()
    taken.value.save_as(tmp_path / "trace.json")
    trace = whence.Trace.load(tmp_path / "trace.json")
    shown = page.locator(".w-own .w-t").all_inner_texts()
    assert len(trace) == len(shown) == 3
    assert [name for name, _ in asked] == ["write/figure"]
    assert list(trace.ids) == asked[0][1]["continuation"]
    page.get_by_role("button", name="Copy figure").click()
    expect(
        page.get_by_role("button", name="Copied").or_(page.get_by_role("button", name="Saved as a file"))
    ).to_be_visible()


def test_citations_are_taken_away_too(opened, models, tmp_path):
    page = opened(f"{models}{CHAT}&d=First+text.%0A%0ASecond+text.", wait=".w-cited.w-complete")
    expect(page.get_by_role("switch", name="As a chat")).to_be_hidden()  # documents have a form of their own
    asked = heard(page)
    page.get_by_text("Download", exact=True).click()
    menu = page.get_by_role("group", name="Formats")
    assert menu.locator("code").all_inner_texts() == [".html", ".svg", ".png", ".pdf", ".tex", ".txt", ".json"]
    with page.expect_download() as taken:
        menu.get_by_role("button", name=".json").click()
    taken.value.save_as(tmp_path / "cited.json")
    cited = whence.Citations.load(tmp_path / "cited.json")
    assert [name for name, _ in asked] == ["cite/figure"]
    assert list(cited.trace.ids) == asked[0][1]["answer"]
    assert cited.texts == ("First text.", "Second text.")
    page.get_by_label("Documents to answer from").fill("")
    expect(page.get_by_role("switch", name="As a chat")).to_be_visible()


def test_two_texts_are_compared_and_only_models_that_write_have_the_tab(opened, models):
    page = opened(f"{models}#m=embedder", wait=".w-grid")
    assert page.locator(".w-arc").count() > 0
    expect(page.get_by_role("tab", name="Write")).to_be_hidden()
    page.get_by_label("Model").select_option("writer")
    expect(page.get_by_role("tab", name="Write")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
@pytest.mark.parametrize(("view", "wait"), [
    ("#m=writer&x=abc&tab=write", ".rather"), ("#m=embedder", ".w-grid"), (f"{CHAT}&sys=terse", ".rather"),
    (f"{CHAT}&d=One.%0A%0ATwo.", ".w-cited.w-complete"),
])  # fmt: skip
def test_axe_finds_nothing_serious(opened, models, view, wait, scheme, width):
    axe = pytest.importorskip("axe_playwright_python", reason="needs axe: pip install 'whence-xai[dev]'")
    page = opened(models + view, wait=wait, color_scheme=scheme, viewport={"width": width, "height": 844})
    page.evaluate((files(axe) / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then((result) => result.violations)")
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["nodes"][0]["html"], v["nodes"][0]["failureSummary"]) for v in serious]
