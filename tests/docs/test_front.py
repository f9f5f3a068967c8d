"""Numbers on the front page are read, not typed."""

import re

from docs.generate.front import figures
from docs.generate.written import DOCS


def test_coverage_and_results_are_those_of_their_pages():
    table = figures()
    passed, built = re.search(r"\*\*(\d+) of (\d+)\*\*", table).groups()
    assert f"**{passed} of the {built} that are built pass" in (DOCS / "coverage.md").read_text(encoding="utf-8")
    assert len(table.splitlines()) == 8
    assert "<!-- figures of merit -->" in (DOCS / "index.md").read_text(encoding="utf-8")
