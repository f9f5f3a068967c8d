"""Files that other programs read: citation, list for agents, templates of issues."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import whence
from docs.generate.navigation import NAVIGATION, files

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]


def test_the_citation_has_the_version_of_the_package():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == whence.__version__
    assert cited["license"] == "Apache-2.0"
    assert cited["title"]
    assert cited["authors"]


def test_the_list_for_agents_names_pages_that_exist():
    text = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# whence\n\n> ")
    linked = re.findall(r"\]\(([^)]+)\)", text)
    assert len(linked) > 20
    assert set(linked) <= set(files(NAVIGATION))


@pytest.mark.parametrize("file", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda f: f.stem)
def test_templates_have_what_a_form_needs(file):
    form = yaml.safe_load(file.read_text(encoding="utf-8"))
    if file.stem != "config":
        assert {"name", "description", "body"} <= set(form)
        assert len({part["id"] for part in form["body"]}) == len(form["body"])


def test_the_skill_says_what_it_is_for():
    head = (ROOT / "SKILL.md").read_text(encoding="utf-8").split("---\n")[1]
    assert yaml.safe_load(head)["name"] == "whence"
    assert len(yaml.safe_load(head)["description"]) < 1024
