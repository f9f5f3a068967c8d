"""axe finds nothing serious on any view of the page, light and dark, on desk and phone."""

from __future__ import annotations

from importlib.resources import files

import pytest

pytest.importorskip("axe_playwright_python", reason="needs axe: pip install 'whence-xai[dev]'")
VIEWS = {
    "explain": ("#m=sentiment&x=a+gorgeous,+witty+film", "#agreement"),
    "image": ("#m=digits&k=lrp", "#check"),
    "attention": ("#m=sentiment&x=a+gem&tab=attention", ".w-complete"),
    "runs": ("#m=sentiment&tab=runs", "#summary .words"),
    "row": ("#m=sentiment&tab=runs&row=films:3", ".drawer .w-verdict"),
    "api": ("api/docs", "h1"),
}


@pytest.fixture(scope="module")
def axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
@pytest.mark.parametrize("view", list(VIEWS))
def test_nothing_serious(opened, server, axe, view, scheme, width):
    address, wait = VIEWS[view]
    allowed = ("favicon",) if view == "api" else ()  # a page of its own, whose icon is not under its address
    page = opened(
        server + address, wait=wait, allowed=allowed, color_scheme=scheme, viewport={"width": width, "height": 844}
    )
    page.evaluate(axe)
    found = page.evaluate("axe.run().then((result) => result.violations)")
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["nodes"][0]["html"], v["nodes"][0]["failureSummary"]) for v in serious]
