"""The code on pages runs as it stands, offline, with bundled models or tiny ones (`stand_ins.py`)."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from docs.generate.blocks import blocks, without_comments

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"CONTRIBUTING.md"}
"""Run by tests/architecture/test_contributing.py: its blocks are files of the package."""
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if page.name not in ELSEWHERE and "```py" in page.read_text(encoding="utf-8")
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


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_no_block_of_a_page_is_overlooked(page):
    """What is fenced or marked in another way would be shown, and not run."""
    text = page.read_text(encoding="utf-8")
    found = blocks(text)
    assert len(found) == text.count("```py") + text.count("<!-- run first")
    assert len([b for b in found if b.reason]) == text.count("<!-- not run")
    assert all(b.reason is None or len(b.reason) > 5 for b in found)
    assert "<!-- run first" not in without_comments(text)


def test_pages_of_all_kinds_are_found():
    assert {"README", "SKILL", "index", "inputs", "citations"} <= {page.stem for page in PAGES}
