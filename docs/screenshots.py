"""Pictures of the real thing for README and docs: `python docs/screenshots.py [FOLDER]`.

Starts `whence serve` on a free port, drives it with Chromium, and prints the terminal's view as SVG.
"""

from __future__ import annotations

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


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "figures")
    folder.mkdir(parents=True, exist_ok=True)
    terminal(folder / "terminal.svg")
    report = whence.compare("sentiment", TEXT, METHODS, target="all").save(folder / "report.html")
    heads = whence.attention("sentiment", TEXT).save(folder / "heads.html")
    with serving() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = f"{address}/#m=sentiment&x={urllib.request.quote(TEXT)}&k={','.join(METHODS)}"
        shot(browser, page, folder / "web.png", 1200, 860)
        shot(browser, page, folder / "web-phone.png", 390, 844, dark=True)
        shot(browser, report.resolve().as_uri(), folder / "report.png", 1200, 820, dark=True)
        shot(browser, heads.resolve().as_uri(), folder / "heads.png", 1200, 820)
        browser.close()
    report.unlink(), heads.unlink()


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
def serving() -> Iterator[str]:
    """The address of a server of our own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "whence", "serve", "--port", str(port), "--no-open"]
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


def shot(browser: Browser, url: str, path: Path, width: int, height: int, *, dark: bool = False) -> None:
    """A page as a browser of this size shows it, at one and a half times the pixels."""
    scheme = "dark" if dark else "light"
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1.5)
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path)
    page.close()
    # 128 colours are enough for a page, and a third of the size
    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
