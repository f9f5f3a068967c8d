"""Squares of a picture and moments of a sound are struck out on the page, with mouse, fingers and keys."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

import whence
from whence.results.explanation_files import to_wire

DIGIT = "#m=digits&k=lrp,gi&i=/examples/digit-3.png"
SOUND = resources.files("whence.web") / "examples" / "rising.wav"


def asked(page) -> list[dict]:
    """What the server is asked to take away, from now on."""
    bodies: list[dict] = []
    page.on("request", lambda r: bodies.append(r.post_data_json) if r.url.endswith("/api/remove") else None)
    return bodies


def square(page, n: int):
    return page.locator(".square").nth(n)


def percent(shown) -> float:
    return float(shown.inner_text().removesuffix("\xa0%"))


def test_squares_are_clicked_and_the_probability_moves_beside_what_was_foretold(opened, server):
    page = opened(server + DIGIT, wait="#agreement")
    bodies = asked(page)
    expect(page.locator(".square")).to_have_count(49)
    expect(square(page, 23)).to_have_attribute("aria-label", "patch 3,2: take away")
    square(page, 23).click()
    expect(page.locator(".moved")).to_contain_text("%")
    square(page, 24).click()
    expect(page.locator(".square.gone")).to_have_count(2)
    table = page.locator("#check").get_by_role("table")
    expect(table).to_contain_text("foretold by Relevance propagation")
    expect(table.locator(".stale")).to_have_count(0)
    expect(page.locator(".said.stale")).to_have_count(0)
    assert bodies[-1]["removed"] == [23, 24]
    assert bodies[-1]["draws"] == 0
    square(page, 24).click()
    expect(page.locator(".square.gone")).to_have_count(1)
    page.get_by_role("button", name="Put all back").click()
    expect(page.locator(".square.gone")).to_have_count(0)
    expect(page.locator(".moved")).to_have_count(0)


def test_what_is_said_of_squares_is_what_the_model_says_of_the_painted_picture(opened, server):
    page = opened(server + DIGIT, wait="#agreement")
    for n in (16, 17, 18, 23, 24, 25):
        square(page, n).click()
    expect(page.locator(".square.gone")).to_have_count(6)
    expect(page.locator(".said.stale")).to_have_count(0)
    with (resources.files("whence.web") / "examples" / "digit-3.png").open("rb") as file:
        pixels = np.array(Image.open(file).convert("L"))
    pixels[8:16, 8:20] = 0
    masked = whence.explain("digits", Image.fromarray(pixels), target="3")
    share = masked.prediction.probabilities[masked.prediction.labels.index("3")]
    assert percent(page.locator(".moved b").last) == pytest.approx(100 * share, abs=0.1)  # shown with one digit


def test_the_mouse_drags_over_squares(opened, server):
    page = opened(server + DIGIT, wait="#agreement")
    square(page, 0).scroll_into_view_if_needed()
    first, last = square(page, 8).bounding_box(), square(page, 12).bounding_box()
    middle = first["height"] / 2
    page.mouse.move(first["x"] + middle, first["y"] + middle)
    page.mouse.down()
    page.mouse.move(last["x"] + middle, last["y"] + middle, steps=1)  # as quick as a mouse can be
    page.mouse.up()
    expect(page.locator(".square.gone")).to_have_count(5)
    page.mouse.move(first["x"] + middle, first["y"] + 3 * middle)  # no longer
    expect(page.locator(".square.gone")).to_have_count(5)
    page.mouse.move(last["x"] + middle, last["y"] + middle)
    page.mouse.down()
    page.mouse.move(last["x"] - middle, last["y"] + middle)  # what is gone comes back
    page.mouse.up()
    expect(page.locator(".square.gone")).to_have_count(3)


def test_keys_alone_are_enough_and_the_focus_stays(opened, server):
    page = opened(server + DIGIT, wait="#agreement")
    assert page.locator('.square[tabindex="0"]').count() == 1
    page.locator('.square[tabindex="0"]').focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
    expect(square(page, 9)).to_be_focused()
    expect(square(page, 9)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".moved")).to_be_visible()
    page.keyboard.press("Enter")
    expect(square(page, 9)).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("End")
    expect(square(page, 48)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Remove the top 5 squares")).to_be_focused()


def test_a_finger_taps(opened, server):
    page = opened(server + DIGIT, wait="#agreement", has_touch=True, viewport={"width": 390, "height": 844})
    square(page, 24).tap()
    expect(square(page, 24)).to_have_attribute("aria-pressed", "true")
    square(page, 24).tap()
    expect(square(page, 24)).to_have_attribute("aria-pressed", "false")


def test_the_next_picture_is_the_one_that_is_asked_about(opened, server):
    page = opened(server + DIGIT, wait="#agreement")
    square(page, 24).click()
    expect(page.locator(".moved")).to_be_visible()
    page.get_by_role("button", name="Example 2").click()
    expect(page.locator(".w-best")).to_contain_text("7")
    expect(page.locator("#agreement")).to_be_visible()
    expect(page.locator(".square.gone")).to_have_count(0)
    bodies = asked(page)
    square(page, 24).click()
    expect(page.locator(".moved")).to_be_visible()
    with (resources.files("whence.web") / "examples" / "digit-7.png").open("rb") as file:
        seven = whence.explain("digits", Image.open(file))
    share = dict(zip(seven.prediction.labels, seven.prediction.probabilities, strict=True))["7"]
    assert percent(page.locator(".moved b").first) == pytest.approx(100 * share, abs=0.1)
    assert bodies[0]["target"] in (None, "7")


def test_moments_of_a_sound_are_clicked(opened, server):
    page = opened(f"{server}#m=tones&k=lrp", wait=".faith polyline")
    bodies = asked(page)
    expect(page.locator("#check .w-axis")).to_contain_text("0.5")
    expect(square(page, 10)).to_have_attribute("aria-label", "0.21–0.23 s: take away")  # 48 pieces of a second
    square(page, 10).click()
    expect(page.locator(".moved")).to_contain_text("%")
    assert bodies[-1]["removed"] == [10]
    expect(page.locator("#check .w-quiet").last).to_contain_text("in points")
    page.get_by_role("button", name="Remove the top 5 moments").click()
    expect(page.locator(".square.gone")).to_have_count(5)
    expect(page.locator(".chance")).to_contain_text("of the 10 draws did")


def test_words_and_squares_of_a_question_about_a_picture(opened, server):
    page = opened(f"{server}#m=shapes&k=lrp", wait="#check .square")
    bodies = asked(page)
    page.locator("#check").get_by_role("button", name="black: strike out").click()
    square(page, 3).click()
    expect(page.locator(".moved")).to_be_visible()
    expect(page.locator(".said.stale")).to_have_count(0)
    exp = whence.explain(
        "shapes",
        {
            "image": Image.open((resources.files("whence.web") / "examples" / "shapes-1.png").open("rb")),
            "text": "which shape is the one in black",
        },
    )
    start = exp.parts[0].shape[0]
    assert bodies[-1]["removed"] == [exp.tokens.index("black"), start + 3]


def test_a_word_is_struck_out_while_methods_come_in(opened, server):
    """What is drawn anew between press and release would take the click away."""
    page = opened(server, wait="#agreement")
    page.evaluate(
        """() => {
          const real = fetch;
          const held = (lines) => (globalThis.come = (line) => lines.enqueue(new TextEncoder().encode(line + "\\n")));
          const answer = () => Promise.resolve(new Response(new ReadableStream({ start: held })));
          globalThis.fetch = (path, options) => (path === "/api/stream" ? answer() : real(path, options));
        }"""
    )
    page.get_by_role("button", name="Explain").click()
    text = page.get_by_label("Text").input_value()
    for method in ("lrp", "gi"):
        made = [to_wire(whence.explain("sentiment", text, method=method))]
        line = json.dumps({"event": "explained", "method": method, "seconds": 0.1, "explanations": made})
        word = page.locator("#check .strike").first
        if method == "gi":
            expect(page.locator(".w-row[data-method]")).to_have_count(1)
            word.hover()
            page.mouse.down()
        page.evaluate("(line) => come(line)", line)
    page.wait_for_timeout(200)
    expect(page.locator(".w-row[data-method]")).to_have_count(1)
    page.mouse.up()
    expect(word).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".w-row[data-method]")).to_have_count(2)


def test_pieces_are_large_enough_for_a_finger(opened, server):
    page = opened(f"{server}#m=tones&k=lrp", wait=".faith polyline", viewport={"width": 390, "height": 844})
    expect(page.locator(".square")).to_have_count(24)  # of 48 moments
    expect(square(page, 1)).to_have_attribute("aria-label", "0.04–0.08 s: take away")
    assert square(page, 1).bounding_box()["width"] > 12


def test_many_small_pieces_are_put_together(opened, server):
    """A sound of 150 pieces has 50 to click on, with three each."""
    page = opened(f"{server}#m=tones&k=lrp", wait=".faith polyline")
    made = whence.explain("tones", str(SOUND), method="lrp")
    wire = to_wire(made)
    wire["scores"] = [0.01] * 150
    wire["parts"] = [{**wire["parts"][0], "shape": [150], "seconds": 0.01}]
    lines = [
        {"event": "explained", "method": "lrp", "seconds": 0.1, "explanations": [wire]},
        {"event": "all_explained", "seconds": 0.1},
    ]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    page.route("**/api/stream", lambda r: r.fulfill(status=200, content_type="application/x-ndjson", body=body))
    nothing = {"score": 0.0, "probability": None, "label": ""}
    answer = {"fill": "mask", "whole": nothing, "without": nothing, "random": []}
    page.route("**/api/remove", lambda r: r.fulfill(status=200, json=answer))
    bodies = asked(page)
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".square")).to_have_count(50)
    expect(square(page, 2)).to_have_attribute("aria-label", "0.06–0.09 s: take away")
    square(page, 2).click()
    expect(page.locator(".said table")).to_be_visible()
    assert bodies[-1]["removed"] == [6, 7, 8]
    page.get_by_role("button", name="Remove the top 15 moments").click()
    expect(page.locator('.square[aria-pressed="true"]')).to_have_count(5)


# -- what is played ------------------------------------------------------------------------------------------------

HELD = """
  const real = fetch;
  globalThis.fetch = (path, options) => path !== "/api/stream" ? real(path, options) : Promise.resolve(new Response(
    new ReadableStream({
      start: (lines) => { globalThis.tell = (line) => lines.enqueue(new TextEncoder().encode(line + "\\n")); },
    })));
"""


def test_the_line_of_a_sound_stays_where_it_is_while_methods_come_in(browser, server):
    context = browser.new_context()
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.add_init_script(HELD)
    page.goto(f"{server}#m=tones&k=lrp,gi")
    page.wait_for_function("() => globalThis.tell")

    def tell(method):
        wire = to_wire(whence.explain("tones", str(SOUND), method=method))
        event = {"event": "explained", "method": method, "seconds": 0.1, "explanations": [wire]}
        page.evaluate("line => tell(line)", json.dumps(event))

    tell("lrp")
    expect(page.locator(".w-row[data-method]")).to_have_count(1)
    page.locator("audio").evaluate("(audio) => { audio.currentTime = 0.5; }")
    places = "lines => lines.filter((l) => !l.hidden).map((l) => l.style.left)"
    expect(page.locator(".w-now:visible")).to_have_count(3)  # the original, a method, and what can be struck out
    tell("gi")
    expect(page.locator(".w-row[data-method]")).to_have_count(2)
    assert page.locator(".w-now").evaluate_all(places) == ["50%"] * 4
    page.get_by_role("switch", name="One scale for all").check()
    assert page.locator(".w-now").evaluate_all(places) == ["50%"] * 4
    page.evaluate("() => { globalThis.tell = null; }")
    page.get_by_role("button", name="trill").first.click()  # another sound
    page.wait_for_function("() => globalThis.tell")
    tell("lrp")
    expect(page.locator(".w-row[data-method]")).to_have_count(1)
    expect(page.locator(".w-now:visible")).to_have_count(0)
    context.close()


def test_a_sound_goes_on_playing_when_the_form_is_drawn_anew(opened, server):
    page = opened(f"{server}#m=tones&k=lrp,gi", wait="#agreement")
    page.locator("audio").evaluate("(audio) => { audio.currentTime = 0.5; audio.mark = 1; }")
    page.get_by_role("checkbox", name="gi").uncheck()
    expect(page.locator(".w-row[data-method]")).to_have_count(1)
    assert page.locator("audio").evaluate("(audio) => [audio.mark, audio.currentTime]") == [1, 0.5]
