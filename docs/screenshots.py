"""Pictures of the real thing for README and docs: `python docs/screenshots.py [FOLDER] [--llm FOLDER]`.

Starts `whence serve` on a free port, drives it with Chromium, and prints the terminal's view as SVG. `--llm` is a
folder of SmolLM2-135M-Instruct; then only the pages of language models are drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from rich.console import Console

import whence

TEXT = "It is not a good film: the plot is dull and the jokes are stale, but the cast is superb"
METHODS = ["lrp", "gi", "gae", "rollout"]


STORY = "Anna keeps bees in Graz. Her brother Tom sells the honey in Vienna."
CHAT = [
    {"role": "system", "content": "You answer in one sentence."},
    {
        "role": "user",
        "content": "Anna keeps bees in Graz. Her brother Tom sells the honey in Vienna. Where does Anna live?",
    },
]
NOTES = {
    "bees": "Anna keeps bees near Graz. She has forty hives. In spring she moves them to the hills.",
    "honey": "Tom sells honey in Vienna. His stall stands at the Naschmarkt. A jar costs nine euros.",
    "wax": "Candles made of wax burn slowly. The monks of Melk made them for centuries.",
}
QUESTION, ANSWER = "What does a jar of honey cost?", "A jar of honey costs nine euros. Tom sells it in Vienna."


GIVEN = "When Mary and John got a plum at the bar, {} decided to give it to"
NAMES = "When Mary and John went to the store, John gave a drink to"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "figures")
    parser.add_argument("--llm", help="draw the pages of this language model")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        written(browser, given.llm, given.folder) if given.llm else bundled(browser, given.folder)
        browser.close()


def written(browser: Browser, llm: str, folder: Path) -> None:
    """A trace, an answer with citations, a graph, edges that carry a difference, and the page that writes."""
    model = whence.load(llm)
    trace = whence.explain(model, CHAT, generate=30).save(folder / "trace.html")
    cited = whence.cite(model, QUESTION, NOTES, answer=ANSWER).save(folder / "cited.html")
    shot(browser, trace.resolve().as_uri(), folder / "trace.png", 1000, 640)
    shot(browser, cited.resolve().as_uri(), folder / "cited.png", 1000, 660)
    trace.unlink(), cited.unlink()
    whence.graph(model, NAMES, share=0.7).save(folder / "graph.png")
    goal = whence.contrast(" Mary", " John")
    whence.patch(model, GIVEN.format("John"), GIVEN.format("Anne"), target=goal, at="edges", truth=20).save(
        folder / "edges.png"
    )
    with serving(llm) as address:
        asked = urllib.request.quote("What is the capital of France?")
        page = f"{address}/#m={Path(llm).name}&x={asked}&k=lrp&tab=write"
        shot(browser, page, folder / "web-write.png", 1200, 860)


def bundled(browser: Browser, folder: Path) -> None:
    """Terminal, reports and the web page, with the bundled models."""
    terminal(folder / "terminal.svg")
    report = whence.compare("sentiment", TEXT, METHODS, target="all").save(folder / "report.html")
    heads = whence.attention("sentiment", TEXT).save(folder / "heads.html")
    with serving() as address:
        web(browser, address, folder)
        shot(browser, report.resolve().as_uri(), folder / "report.png", 1200, 820, dark=True)
        shot(browser, heads.resolve().as_uri(), folder / "heads.png", 1200, 820)
    report.unlink(), heads.unlink()


def web(browser: Browser, address: str, folder: Path) -> None:
    """The page of `whence serve`."""
    page = f"{address}/#m=sentiment&x={urllib.request.quote(TEXT)}&k={','.join(METHODS)}"
    shot(browser, page, folder / "web.png", 1200, 860)
    shot(browser, page, folder / "web-phone.png", 390, 844, dark=True, at="#view .w-top")
    shot(browser, page, folder / "web-check.png", 1200, 480, at="#check", click="Remove the top 3 words")
    digits = f"{address}/#m=digits&k=lrp,gi"
    shot(browser, digits, folder / "web-squares.png", 1200, 560, at="#check", click="Remove the top 5 squares")
    shot(browser, f"{page}&tab=attention", folder / "web-attention.png", 1200, 860)
    shot(browser, f"{address}/#m=tones&k=lrp,gi,rollout", folder / "web-sound.png", 1200, 860)
    shot(browser, f"{address}/#m=shapes&k=lrp,attn_lrp,gi", folder / "web-shapes.png", 1200, 860)


def terminal(path: Path) -> None:
    """What `whence explain` and `whence compare` print."""
    console = Console(record=True, width=100, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115
    console.print("[dim]$[/] whence compare 'not a good movie, but a superb cast' --methods lrp,gi,gae,rollout,shap")
    methods = ["lrp", "gi", "gae", "rollout", "shap"]
    console.print(whence.compare("sentiment", "not a good movie, but a superb cast", methods))
    console.print("\n[dim]$[/] whence explain 'a gorgeous, witty, seductive movie'")
    console.print(whence.explain("sentiment", "a gorgeous, witty, seductive movie"))
    console.save_svg(str(path), title="whence")


@contextlib.contextmanager
def serving(*models: str) -> Iterator[str]:
    """The address of a server of our own, with the bundled models or others."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "whence", "serve", *models, "--port", str(port), "--no-open"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/api/info").read()
                break
            time.sleep(0.25)
        yield address
    finally:
        server.terminate()
        server.wait()


def shot(
    browser: Browser,
    url: str,
    path: Path,
    width: int,
    height: int,
    *,
    dark: bool = False,
    at: str = "",
    click: str = "",
) -> None:
    """A page as a browser of this size shows it, at one and a half times the pixels.

    A button is clicked first, or an element scrolled to the top, where asked for.
    """
    scheme = "dark" if dark else "light"
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1.5)
    page.goto(url)
    page.wait_for_load_state("networkidle")
    if click:
        page.get_by_role("button", name=click).click()
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(1000)
    if at:
        page.locator(at).first.evaluate("element => { element.scrollIntoView(); scrollBy(0, -110); }")
        page.mouse.move(0, 0)
    page.screenshot(path=path)
    page.close()
    # 128 colours are enough for a page, and a third of the size
    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
