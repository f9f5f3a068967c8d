"""Pages that people wrote: those of docs/, and a few from the top of the repository."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from docs.generate.blocks import without_comments

__all__ = ["DOCS", "ROOT", "assets", "dressed", "written"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOP = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "reporting.md",
    "SKILL.md": "skill.md",
}
"""Files of the repository's top that are pages of the site."""
SHOWN = {".svg", ".png", ".css", ".js", ".txt"}
"""What pages show, load or link to."""
CODE = re.compile(r"(`+).+?\1")
FENCE = re.compile(r"^ {0,3}(```|~~~)")


def written(filled: Mapping[str, str] | None = None) -> dict[str, str]:
    """Every page by its place on the site; `<!-- NAME -->` is filled with what has that name."""
    pages = {file.relative_to(DOCS).as_posix(): file for file in sorted(DOCS.rglob("*.md"))}
    pages |= {name: ROOT / file for file, name in TOP.items()}
    return {name: _shown(file.read_text(encoding="utf-8"), filled or {}) for name, file in pages.items()}


def _shown(text: str, filled: Mapping[str, str]) -> str:
    for name, what in filled.items():
        text = text.replace(f"<!-- {name} -->\n", f"{what}\n")
    return linked(without_comments(text))


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


def dressed(text: str) -> str:
    """Tables as Python-Markdown wants them: a blank line before, and bars in code as they are.

    Others take `\\|` in code of a table for a bar, and need no blank line.
    """
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(FENCE.match(line))
        if not fenced and line.startswith("|"):
            if lines and lines[-1].strip() and not lines[-1].startswith("|"):
                lines.append("")
            line = CODE.sub(lambda found: found[0].replace("\\|", "|"), line)
        lines.append(line)
    return "\n".join(lines)
