"""Citations as text, fragments and pages; tests/browser opens the pages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

from tests.viz import made
from whence.results.showing import draw
from whence.viz.citing import from_none, said, sentences


def test_numbers_are_of_the_cited_documents_strongest_first():
    assert [one.numbers for one in said(made.citations())] == [(1,), (2, 1), ()]


def test_statements_stand_in_the_answer_as_they_were_written():
    result = made.citations()
    assert "".join(one.gap + one.statement.text for one in said(result)) == result.answer
    other = replace(result, answer="Something else.")
    assert [one.gap for one in said(other)] == ["", " ", " "], "what can't be found follows a space"


def test_sentences_have_a_share_of_every_statement():
    (first, second), (third,) = sentences(made.citations())
    assert first.shares == (0.75, 0.0, 0.0)
    assert second.most == 0.25
    assert third.shares == (0.05, 0.5, 0.0)


def test_text_says_what_came_from_where():
    text = draw(made.citations(), "txt")
    assert "answer: It dates from 1889.[1] It is tall & loved.[2][1]\nIt is green. [no document]" in text
    assert "   75\xa0%  [1] It was <b>built</b> in 1889." in text
    assert "from none of them: 25\xa0% (instructions and layout 20\xa0%, the question 5\xa0%)" in text
    assert " 50\xa0%  [1] guide <b>" in text


def test_a_statement_that_nothing_speaks_for_says_so():
    *_, last = made.citations().statements
    assert from_none(last) == "nothing that the model read speaks for it"
    assert "It is green.\n  nothing that the model read speaks for it" in draw(made.citations(), "txt")


def test_fragments_and_pages_are_escaped():
    fragment = draw(made.citations(), "notebook")
    assert "It was <b>built</b> in 1889." in "".join(ElementTree.fromstring(fragment).itertext())
    page = draw(made.citations(), "html")
    for html in (fragment, page):
        assert "<b>built" not in html
        assert "<i>" not in html
    assert page.count("</script>") == 2


def test_the_page_has_everything_without_its_script():
    page = draw(made.citations(), "html")
    assert 'id="document-2"' in page
    assert re.search(r'href="#document-1" title="guide &lt;b&gt;: 75\xa0% of this statement">1<', page)
    assert 'class="w-sentence w-marked w-p24" data-document="0" data-sentence="0"' in page
    assert ' style="' not in page, "the policy of the page would refuse it"
    found = json.loads(re.search(r'id="whence-data">(.*?)</script>', page, re.DOTALL)[1])
    assert found["sentences"] == [[[0.75, 0.0, 0.0], [0.0, 0.25, 0.0]], [[0.05, 0.5, 0.0]]]
