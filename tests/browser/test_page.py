"""The web page in a browser, against the real server with the bundled models."""

from __future__ import annotations

import base64
import io
import json
import re
from importlib import resources

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.conftest import serving
from whence.web import Settings

ROWS = ".w-row[data-method]"


def methods(page) -> set[str]:
    """Those that are shown; their order is that of how faithful they are."""
    expect(page.locator(".w-waiting")).to_have_count(0)  # they come in one by one
    return set(page.locator(ROWS).evaluate_all("rows => rows.map((row) => row.dataset.method)"))


def drop(page, name: str, kind: str, content: bytes, on: str = "body") -> None:
    """Drop a file on the page."""
    page.evaluate(
        """async ([name, type, data, on]) => {
          const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
          const transfer = new DataTransfer();
          transfer.items.add(new File([bytes], name, { type }));
          const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
          document.querySelector(on).dispatchEvent(new DragEvent("drop", options));
        }""",
        [name, kind, base64.b64encode(content).decode(), on],
    )


def picture() -> bytes:
    """Something like a 1."""
    pixels = np.zeros((28, 28), np.uint8)
    pixels[4:24, 13:16] = 255
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_first_view_is_an_example_explained_by_several_methods(opened, server):
    page = opened(server)
    expect(page.locator(".w-best")).to_contain_text("positive")
    assert methods(page) == {"lrp", "gi", "gae", "rollout"}
    page.locator(".w-t", has_text="gorgeous").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("score")


def test_typed_text_is_explained_by_a_key(opened, server):
    page = opened(server)
    page.get_by_label("Text").fill("a dull and tired film")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".w-best")).to_contain_text("negative")
    expect(page.locator(".w-text").first).to_contain_text("dull and tired")


def test_a_click_on_a_class_explains_it_instead_and_back_asks_nothing(opened, server):
    page = opened(server)
    asked = []
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/api/stream") else None)
    page.get_by_role("button", name="negative").click()
    expect(page.locator(".w-asked")).to_contain_text("negative")
    page.get_by_role("button", name="positive 99").click()
    expect(page.locator(".w-asked")).to_contain_text("positive")
    assert len(asked) == 1
    expect(page.get_by_role("combobox", name="Explain")).to_have_value("positive")


def test_methods_are_added_and_taken_away(opened, server):
    page = opened(server)
    page.get_by_role("checkbox", name="rollout").uncheck()
    page.get_by_text("more methods").click()
    page.get_by_role("checkbox", name="attn_lrp").check()
    expect(page.locator(f'{ROWS[:-1]}="attn_lrp"]')).to_be_visible()
    assert methods(page) == {"lrp", "gi", "gae", "attn_lrp"}


def test_one_class_rather_than_another(opened, server):
    page = opened(server)
    page.get_by_role("combobox", name="Explain").select_option("negative")
    expect(page.locator(".w-asked")).to_contain_text("negative")
    page.get_by_label("rather than").select_option("positive")
    expect(page.locator(".w-asked")).to_contain_text("positive")


def test_a_dropped_image_goes_to_a_model_that_reads_images(opened, server):
    page = opened(server)
    drop(page, "one.png", "image/png", picture())
    expect(page.locator("canvas.w-heat")).to_have_count(4)
    expect(page.get_by_label("Model")).to_have_value("digits")
    expect(page.locator(".w-best")).to_contain_text("1")
    page.get_by_role("button", name="7", exact=False).first.click()
    expect(page.locator(".w-asked")).to_contain_text("7")


def test_a_sound_is_chosen_played_and_explained_over_time(opened, server):
    page = opened(server)
    page.get_by_label("Model").select_option("tones")
    expect(page.locator(".w-best")).to_contain_text("rising")
    expect(page.locator("canvas.w-heat")).to_have_count(4)
    expect(page.locator(".w-axis").first).to_have_text("00.10.20.30.40.50.60.70.80.91 s")
    expect(page.locator("#agreement")).to_be_visible()  # all methods are there, and in their order
    page.locator("canvas.w-heat").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tooltip")).to_contain_text("0.02–0.04 s")
    expect(page.locator("#agreement")).to_be_visible()  # all methods are judged: nothing is drawn anew
    page.locator("audio").evaluate("(audio) => { audio.currentTime = 0.5; }")
    expect(page.locator(".w-now").first).to_have_css("left", re.compile(r"[1-9]"))  # where it is at, in each drawing
    assert page.locator(".w-now").first.evaluate("(line) => line.style.left") == "50%"
    page.get_by_role("button", name="trill").first.click()
    expect(page.locator(".w-best")).to_contain_text("trill")


def test_a_dropped_sound_goes_to_a_model_that_hears(opened, server):
    page = opened(server)
    sound = (resources.files("whence.web") / "examples" / "falling.wav").read_bytes()
    drop(page, "call.wav", "", sound)  # some browsers do not know its type
    expect(page.get_by_label("Model")).to_have_value("tones")
    expect(page.locator(".w-best")).to_contain_text("falling")
    assert page.locator("audio").evaluate("(audio) => audio.src").startswith("data:audio/wav;base64,")


def test_a_file_that_is_no_sound_is_refused_with_a_hint(opened, server):
    page = opened(server, allowed=("422",))
    drop(page, "broken.flac", "audio/flac", b"not a sound")
    expect(page.get_by_role("alert")).to_contain_text("Send WAV, FLAC, OGG or MP3")


def test_a_picture_with_a_question_is_explained_together(opened, server):
    page = opened(server)
    page.get_by_label("Model").select_option("shapes")
    expect(page.get_by_label("Question")).to_have_value("which shape is the one in black")
    expect(page.locator("canvas.w-heat")).to_have_count(2)
    assert methods(page) == {"lrp", "gi"}
    expect(page.locator("#composer")).to_contain_text("9 methods that read attention do not fit here")
    row = page.locator(f"{ROWS} >> nth=0")
    expect(row).to_contain_text("which shape is the one in black")
    row.locator(".w-t", has_text="black").hover()
    expect(page.get_by_role("tooltip")).to_contain_text("of 71")  # among tokens and patches
    page.mouse.move(1, 1)  # else the page scrolls under the mouse, which then leaves the word
    row.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tooltip")).to_contain_text("patch 0,1")
    page.get_by_label("Question").fill("which side is the one in red")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".w-text").first).to_contain_text("red")
    drop(page, "one.png", "image/png", picture())  # stays with the question
    expect(page.get_by_label("Model")).to_have_value("shapes")
    expect(page.get_by_label("Question")).to_have_value("which side is the one in red")


def test_what_was_asked_of_a_model_is_there_when_it_comes_back(opened, server):
    page = opened(server)
    page.get_by_label("Text").fill("so dull")
    page.get_by_role("checkbox", name="rollout").uncheck()
    page.get_by_label("Model").select_option("shapes")
    expect(page.locator(".w-both").first).to_be_visible()
    page.get_by_label("Model").select_option("sentiment")
    expect(page.get_by_label("Text")).to_have_value("so dull")
    expect(page.locator(".w-best")).to_contain_text("negative")
    assert methods(page) == {"lrp", "gi", "gae"}


def test_attention_of_a_model_with_a_part_that_sees(opened, server):
    page = opened(f"{server}#m=shapes&tab=attention", wait=".w-thumb.w-ready")
    expect(page.locator(".w-side")).to_contain_text("[CLS] looks at")
    page.get_by_role("radio", name="Layer 7, head 0").click()
    expect(page.locator(".w-looks")).to_contain_text("black")


def test_a_dropped_text_fills_the_box(opened, server):
    page = opened(server)
    drop(page, "review.txt", "text/plain", b"what a waste of time")
    expect(page.get_by_label("Text")).to_have_value("what a waste of time")
    expect(page.locator(".w-best")).to_contain_text("negative")


def test_a_file_that_is_no_image_is_refused_with_a_hint(opened, server):
    page = opened(server, allowed=("422", "400", "413", "415"))
    drop(page, "broken.png", "image/png", b"not a picture")
    expect(page.get_by_role("alert")).to_be_visible()


def test_empty_and_too_long_texts_say_what_to_do(opened, server):
    page = opened(server, allowed=("413", "422"))
    page.get_by_label("Text").fill("   ")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_contain_text("There is no text yet")
    page.get_by_label("Text").fill("good " * 3000)
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_contain_text("Shorten")
    page.get_by_label("Text").fill("good")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_hostile_text_is_shown_not_run(opened, server):
    hostile = "<script>alert(1)</script> <img src=x onerror=alert(1)>"
    page = opened(server)
    page.get_by_label("Text").fill(hostile)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".w-text").first).to_contain_text(hostile)
    assert page.locator("#view img").count() == 0


def test_attention_heads_of_every_layer(opened, server):
    page = opened(server)
    page.get_by_role("tab", name="Attention").click()
    expect(page.locator(".w-thumb.w-ready")).to_have_count(24)
    page.get_by_role("radio", name="Layer 2, head 3").click()
    expect(page.get_by_role("heading", name="Layer 2, head 3")).to_be_visible()
    page.locator(".w-looks .w-t", has_text="witty").click()
    expect(page.locator(".w-side")).to_contain_text("witty looks at")


def test_attention_of_patches_lies_over_the_image(opened, server):
    page = opened(f"{server}#m=digits&tab=attention", wait=".w-complete")
    page.get_by_label("The image under the weights").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".w-side")).to_contain_text("patch 0,1 looks at")


def test_rows_of_a_run_are_paged_searched_and_opened(opened, server):
    page = opened(server)
    page.get_by_role("tab", name="Runs").click()
    expect(page.locator(".w-count")).to_have_text("1–25 of 30")
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".w-count")).to_have_text("26–30 of 30")
    page.get_by_label("Search the rows").fill("number 17")
    page.keyboard.press("Enter")
    expect(page.locator(".w-count")).to_have_text("1–1 of 1")
    page.get_by_role("button", name="number 17").click()
    expect(page.locator("#row .w-text")).to_contain_text("funny film, number 17")
    expect(page.get_by_text("Strongest for positive")).to_be_visible()


def test_a_shared_address_asks_the_same_again(opened, server):
    page = opened(server)
    page.get_by_label("Text").fill("so dull")
    page.get_by_role("checkbox", name="rollout").uncheck()
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".w-asked")).to_contain_text("negative")  # the answer to the new text, not the one on load
    page.get_by_role("button", name="positive").click()
    expect(page.locator(".w-asked")).to_contain_text("positive")
    address = page.url
    assert "dull" in address.partition("#")[2]
    again = opened(address)
    expect(again.get_by_label("Text")).to_have_value("so dull")
    expect(again.locator(".w-asked")).to_contain_text("positive")
    assert methods(again) == {"lrp", "gi", "gae"}


def test_an_address_cannot_make_the_page_ask_elsewhere(opened, server):
    page = opened(f"{server}#m=digits&i=https://example.invalid/x.png&k=lrp", wait="canvas.w-heat")
    assert page.get_by_alt_text("The image to explain").get_attribute("src").startswith("/examples/")
    page = opened(f"{server}#m=tones&s=https://example.invalid/x.wav&k=lrp", wait="canvas.w-heat")
    assert "s=%2Fexamples%2Frising.wav" in page.url


def test_a_full_queue_offers_to_try_again(opened, server):
    page = opened(server, allowed=("429",))
    error = {"error": {"code": "busy", "message": "The queue is full.", "hint": "Wait a little."}}
    page.route("**/api/stream", lambda r: r.fulfill(status=429, headers={"Retry-After": "3"}, body=json.dumps(error)))
    page.get_by_label("Text").fill("so dull")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_contain_text("Wait a little. Try again in 3 s.")
    page.unroute("**/api/stream")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".w-best")).to_contain_text("negative")


def test_what_is_under_way_can_be_cancelled_and_a_new_one_ends_the_old(opened, server):
    page = opened(server, wait="#agreement")
    held, ended = [], []
    page.on("requestfailed", lambda request: ended.append(request))
    page.route("**/api/stream", lambda route: held.append(route))
    page.get_by_role("button", name="Explain").click()
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    with page.expect_request("**/api/stream"):
        page.get_by_role("button", name="Explain").click()
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name="Explain").click()
    assert len(ended) == 2


@pytest.mark.parametrize(("format", "start"), [("html", b"<!doctype"), ("svg", b"<"), ("json", b"{"), ("csv", b"")])
def test_downloads(opened, server, format, start):
    page = opened(server)
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name=f".{format}").click()
    assert download.value.suggested_filename.endswith(f".{format}")
    with open(download.value.path(), "rb") as file:
        assert file.read(len(start)) == start


def test_keys_alone_are_enough(opened, server):
    page = opened(server)
    page.get_by_label("Text").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("so dull")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".w-best")).to_contain_text("negative")
    stops = []
    for _ in range(60):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.className"))
        if "w-t " in stops[-1]:
            break
    assert "w-t " in stops[-1], stops
    page.keyboard.press("End")
    expect(page.get_by_role("tooltip")).to_contain_text("[SEP]")


@pytest.mark.parametrize("model", ["tones", "shapes"])
def test_sounds_and_pictures_with_text_fit_on_a_phone(opened, server, model):
    page = opened(f"{server}#m={model}", wait="canvas.w-heat", viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("tab", ["explain", "attention", "runs"])
def test_a_phone_does_not_scroll_sideways(opened, server, tab):
    ready = {"explain": ".w-row", "attention": ".w-complete", "runs": "#summary .words"}[tab]
    page = opened(
        f"{server}#m=sentiment&x=a+gorgeous,+witty+film&tab={tab}", wait=ready, viewport={"width": 360, "height": 740}
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("tab", ["explain", "attention", "runs"])
def test_every_control_has_a_name(opened, server, tab):
    ready = {"explain": ".w-row", "attention": ".w-complete", "runs": "#summary .words"}[tab]
    page = opened(f"{server}#m=sentiment&x=a+gem&tab={tab}", wait=ready)
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    roles = "button checkbox radio switch textbox searchbox combobox slider tab link listbox tabpanel table".split()
    controls = [n for n in nodes if not n["ignored"] and n["role"]["value"] in roles]
    nameless = [n for n in controls if not n.get("name", {}).get("value", "").strip()]
    assert len(controls) > 10
    assert not nameless, [(n["role"]["value"], n.get("properties")) for n in nameless]


def test_a_token_in_the_address_becomes_a_cookie(browser):
    """The address is then without it: what is shared or photographed lets nobody in. Scripts do not see the cookie."""
    with serving(Settings(models=("sentiment",), token="correct-horse-battery-staple")) as address:
        context = browser.new_context()
        page = context.new_page()
        assert page.goto(address).status == 401
        page.goto(f"{address}?token=correct-horse-battery-staple")
        expect(page.locator(".w-best")).to_contain_text("positive")
        assert "token" not in page.url
        assert page.evaluate("document.cookie") == ""
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.goto(address).status == 200
        context.close()
