"""Pages that people wrote, as the site takes them."""

from docs.generate.written import linked, spaced


def test_links_from_the_top_lead_to_pages_of_the_site():
    assert linked("[a](docs/vocabulary.md#how) [b](CONTRIBUTING.md)") == "[a](vocabulary.md#how) [b](contributing.md)"


def test_a_table_gets_a_blank_line_before_it_unless_it_is_code():
    assert spaced("text\n| a |\n| b |") == "text\n\n| a |\n| b |"
    assert spaced("```\ntext\n| a |\n```") == "```\ntext\n| a |\n```"
