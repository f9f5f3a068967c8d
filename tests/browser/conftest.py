"""One Chromium and one server for all browser tests. Debian's Chromium is installed where it is missing and may be."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'whence-xai[dev]'")
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process of several runs them all: starting Chromium and a server takes longer than most tests."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


def _found() -> str | None:
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def _installed() -> str | None:
    """Chromium, from the distribution if it is not there; None where that can't be."""
    if _found() is None and shutil.which("apt-get") and os.geteuid() == 0:
        with (Path(tempfile.gettempdir()) / "whence-chromium.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # apt refuses to run twice: another process may be at it
            if _found() is None:
                _install()
    return _found()


def _install() -> None:
    install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
    for command in (install, ["apt-get", "update"], install):
        try:
            done = subprocess.run(command, capture_output=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return
        if command is install and done.returncode == 0:
            return


@pytest.fixture(scope="session")
def browser() -> Iterator:
    path = _installed()
    if path is None:
        pytest.skip("no Chromium: apt-get install chromium, or set CHROMIUM to its path")
    playwright.expect.set_options(timeout=20_000)  # a busy machine is no failure
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """What a page did that it should not: requests beyond its own origin, errors on the console, dialogs."""

    def __init__(self, page, own: tuple[str, ...]) -> None:
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        page.on("dialog", lambda dialog: (self.errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("console", lambda m: self.errors.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("request", lambda r: self.errors.append(f"request: {r.url}") if not r.url.startswith(own) else None)


@pytest.fixture
def opened(browser, request, tmp_path) -> Iterator:
    """`opened(url or html text, **context)` opens a page; whatever it does wrong fails the test when it ends."""
    contexts, watched = [], []

    def open_page(what: str, *, wait: str = ".w-row", allowed: tuple[str, ...] = (), **options):
        options = {"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce"} | options
        context = browser.new_context(**options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        if what.startswith("<!doctype"):
            path = Path(tmp_path) / "page.html"
            path.write_text(what, encoding="utf-8")
            what = path.as_uri()
        origin = what.split("#")[0] if what.startswith("file:") else what.split("#")[0].rstrip("/")
        watched.append((Watched(page, (origin, "data:", "blob:")), allowed))
        page.goto(what)
        page.locator(wait).first.wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    faults = [e for w, allowed in watched for e in w.errors if not any(a in e for a in allowed)]
    assert not faults, faults


@contextmanager
def serving(settings) -> Iterator[str]:
    """A server of this process on a free port of this machine; its address."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs the extra web: pip install 'whence-xai[web]'")
    from whence.web.app import create_app

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # who comes before the server has started waits
        started = uvicorn.Server(uvicorn.Config(create_app(settings), log_level="warning"))
        thread = threading.Thread(target=started.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        started.should_exit = True
        thread.join(timeout=20)


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[str]:
    """The real server with the bundled models and a small run, on a free port of this machine; its address."""
    pytest.importorskip("fastapi", reason="needs the extra web: pip install 'whence-xai[web]'")
    pytest.importorskip("pyarrow", reason="needs the extra data: pip install 'whence-xai[data]'")
    import whence
    from whence.web import Settings

    folder = tmp_path_factory.mktemp("runs")
    rows = folder / "rows.txt"
    rows.write_text("".join(f"a warm and funny film, number {i}\n" for i in range(30)), encoding="utf-8")
    whence.run(rows, model="sentiment", out=folder / "films")
    with serving(Settings(runs=(folder / "films",))) as address:
        yield address
