"""The Python on pages that people wrote, as tests run it: in order, in one namespace for each page.

A comment before a block says what is special about it:

    <!-- not run: why -->           the block below needs what tests have not, such as a cluster
    <!-- run first: why             code that the page does not show: a tiny model in the place of a large one
    code
    -->

`tests/docs/stand_ins.py` has tiny models under the names that pages load, so that few blocks are not run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Block", "blocks", "without_comments"]

PIECE = re.compile(
    r"^<!-- run first: (?P<stands>[^\n]+)\n(?P<hidden>.*?)^-->\n"
    r"|(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^```python\n(?P<shown>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Code with the line it begins at, and why it is not run."""

    code: str
    line: int
    reason: str | None = None


def blocks(text: str) -> list[Block]:
    """All blocks of a page, hidden ones among them."""
    found = []
    for match in PIECE.finditer(text):
        kind = "hidden" if match["hidden"] is not None else "shown"
        found.append(Block(match[kind], text.count("\n", 0, match.start(kind)) + 1, match["reason"]))
    return found


def without_comments(text: str) -> str:
    """The page as readers see it."""
    return COMMENT.sub("", text)
