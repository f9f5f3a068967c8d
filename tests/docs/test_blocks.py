"""The code on guides runs as it stands, offline, with bundled models or tiny ones."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from docs.generate.blocks import blocks, without_comments

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "docs" / "index.md",
    ROOT / "docs" / "quickstart.md",
    ROOT / "SKILL.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    run = [block for block in blocks(page.read_text(encoding="utf-8")) if block.reason is None]
    assert run
    for block in run:
        where = f"{page.name}, line {block.line}"
        linecache.cache[where] = (len(block.code), None, block.code.splitlines(keepends=True), where)
        exec(compile(block.code, where, "exec"), names)


def test_blocks_in_order_hidden_and_left_out():
    page = (
        "```python\na = 1\n```\n<!-- run first: stands in\nb = 2\n-->\ntext\n<!-- not run: hub -->\n```python\nc\n```\n"
    )
    found = blocks(page)
    assert [(b.code, b.line, b.reason) for b in found] == [
        ("a = 1\n", 2, None),
        ("b = 2\n", 5, None),
        ("c\n", 10, "hub"),
    ]
    assert without_comments(page) == "```python\na = 1\n```\ntext\n```python\nc\n```\n"


def test_what_is_not_run_says_why():
    for page in PAGES:
        assert all(b.reason is None or len(b.reason) > 5 for b in blocks(page.read_text(encoding="utf-8")))
