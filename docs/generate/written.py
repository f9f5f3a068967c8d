"""Pages that people wrote: those of docs/, and a few from the top of the repository."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["ROOT", "assets", "written"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOP = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository's top that are pages of the site."""
SHOWN = {".svg", ".png", ".css", ".txt"}
"""What pages show or link to."""
FENCE = re.compile(r"^ {0,3}(```|~~~)")


def written() -> dict[str, str]:
    """Every page by its place on the site."""
    pages = {file.relative_to(DOCS).as_posix(): file for file in sorted(DOCS.rglob("*.md"))}
    pages |= {name: ROOT / file for file, name in TOP.items()}
    return {name: spaced(linked(file.read_text(encoding="utf-8"))) for name, file in pages.items()}


def assets() -> dict[str, Path]:
    """Figures and other files of docs/, by their place on the site."""
    found = {f.relative_to(DOCS).as_posix(): f for f in sorted(DOCS.rglob("*")) if f.suffix in SHOWN}
    return found | {"mark.svg": ROOT / "src" / "whence" / "web" / "static" / "favicon.svg"}


def linked(text: str) -> str:
    """Links from the top of the repository, to pages that lie elsewhere on the site."""
    text = re.sub(r"\]\(docs/([\w/]+\.(?:md|svg|png))", r"](\1", text)
    for file, name in TOP.items():
        text = re.sub(rf"\]\((?:\.\./)?{re.escape(file)}", f"]({name}", text)
    return text


def spaced(text: str) -> str:
    """A blank line before each table that follows a line of text: Python-Markdown wants one, others do not."""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(FENCE.match(line))
        if not fenced and line.startswith("|") and lines and lines[-1].strip() and not lines[-1].startswith("|"):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
