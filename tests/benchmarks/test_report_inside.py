"""The tables of pairs and insides in docs/results.md are those of their own pages."""

from __future__ import annotations

from pathlib import Path

from benchmarks.tables.report_inside import inside

DOCS = Path(__file__).parents[2] / "docs"


def test_marked_tables_are_collected_with_their_page(tmp_path):
    for name in ("similarity.md", "patching.md", "inside.md"):
        (tmp_path / name).write_text(
            "text\n<!-- results: A table -->\n<!-- inner -->\n| a |\n<!-- end of results -->\nmore"
        )
    lines = inside(tmp_path)
    assert lines.count("### A table") == 3
    assert lines.count("| a |") == 3
    assert "[patching.md](patching.md)" in lines
    assert not any("inner" in line or "text" in line for line in lines[4:])


def test_the_page_of_results_holds_what_the_pages_say():
    """`python -m benchmarks.tables --report` writes it."""
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    assert "\n".join(inside(DOCS)).strip() in page
