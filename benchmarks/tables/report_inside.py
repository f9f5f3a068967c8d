"""Pairs and the inside of models: the tables of other pages, which their own scripts made.

A page marks a table by `<!-- results: title -->` before it and `<!-- end of results -->` behind it.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["inside"]

PAGES = ("similarity.md", "patching.md", "inside.md")
MARKED = re.compile(r"<!-- results: (.+?) -->\n(.+?)<!-- end of results -->", re.DOTALL)


def inside(docs: Path) -> list[str]:
    """A section with all marked tables, each under its title, with the page that says how it was made."""
    lines = [
        "## Pairs and insides",
        "",
        "How each was made, and what it says, stands on its page. Intervals hold 95 %.",
        "",
    ]
    for name in PAGES:
        for title, table in MARKED.findall((docs / name).read_text(encoding="utf-8")):
            plain = re.sub(r"<!--.*?-->\n?", "", table).strip()
            lines += [f"### {title}", "", f"[{name}]({name})", "", plain, ""]
    return lines
