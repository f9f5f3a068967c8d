"""Pages that people wrote, as the site takes them."""

import tomllib

from docs.generate.written import ROOT, assets, dressed, linked


def test_links_from_the_top_lead_to_pages_of_the_site():
    assert linked("[a](docs/vocabulary.md#how) [b](CONTRIBUTING.md)") == "[a](vocabulary.md#how) [b](contributing.md)"


def test_a_table_gets_a_blank_line_before_it_unless_it_is_code():
    assert dressed("text\n| a |\n| b |") == "text\n\n| a |\n| b |"
    assert dressed("```\ntext\n| a |\n```") == "```\ntext\n| a |\n```"


def test_bars_in_the_code_of_a_table_need_no_escape():
    assert dressed(r"| `str \| None` | \|R\| |") == r"| `str | None` | \|R\| |"
    assert dressed(r"`str \| None`") == r"`str \| None`"


def test_search_needs_no_server_and_no_other_host():
    """The plugin adds a script from elsewhere, unless one of this name is there."""
    settings = tomllib.loads((ROOT / "docs" / "site.toml").read_text(encoding="utf-8"))["project"]
    assert "offline" in settings["plugins"]
    (polyfill,) = settings["extra"]["polyfills"]
    assert "iframe-worker" in polyfill
    assert polyfill in assets()
