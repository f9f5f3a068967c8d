"""Citations as one HTML file: the answer, the documents, and which sentence speaks for which statement."""

from __future__ import annotations

import html
from typing import Any

from whence.results import Citations
from whence.results.citations import NOTABLE
from whence.results.percents import percent
from whence.results.showing import draws
from whence.viz.cards import Card, cards, copies
from whence.viz.citing import PLAINLY, Said, Sentence, from_none, said, sentences
from whence.viz.report import document, shade
from whence.viz.tabular import Grid, latex
from whence.viz.verdicts import verdict

__all__ = ["body_of", "data_of", "page", "table_of", "tex"]

FULL = 0.6
"""The share that gets the full colour: few sentences have more."""


@draws(Citations, "html")
def page(result: Citations) -> str:
    """Everything is in the text of the page; its script only lights up what belongs together."""
    title = " ".join(result.question.split())
    parts = [Card("Shares in numbers", (table_of(result),))]
    return document(
        title=title if len(title) <= 160 else title[:159] + "…",
        verdict=verdict(result),
        body=body_of(result) + cards(parts),
        data={**data_of(result), "copies": copies(parts)},
        scripts=("base.js", "cited.js", "sorting.js"),
        styles=("cited.css",),
    )


def body_of(result: Citations) -> str:
    """Answer, shares and documents, escaped: what the script is given to light up."""
    documents = "".join(_document(result, n, own) for n, own in enumerate(sentences(result)))
    return (
        f'<div id="whence-cited" class="w-cited"><div class="w-left">{_answer(result, list(said(result)))}'
        f"{_shares(result)}</div>"
        f'<section class="w-documents" aria-label="Documents">{documents}{_stamp(result)}</section></div>'
    )


def data_of(result: Citations) -> dict[str, Any]:
    """Shares by statement: of sentences, of documents, of the rest."""
    every = sentences(result)
    return {
        "full": FULL,
        "notable": NOTABLE,
        "sentences": [[[round(share, 4) for share in one.shares] for one in own] for own in every],
        "statements": [
            {
                "documents": [round(share, 4) for share in one.documents],
                "says": _headline(from_none(one)),
                "rest": {name: round(share, 4) for name, share in one.rest.items()},
            }
            for one in result.statements
        ],
        "documents": [round(share, 4) for share in result.documents],
        "rest": {name: round(share, 4) for name, share in result.rest.items()},
        "says": _headline(from_none(result)),
    }


def _answer(result: Citations, statements: list[Said]) -> str:
    spans = []
    for n, one in enumerate(statements):
        chips = "".join(
            f'<a class="w-cite" href="#document-{k}" title="{_safe(result.names[k - 1])}: '
            f'{percent(one.statement.documents[k - 1], 0)} of this statement">{k}</a>'
            for k in one.numbers
        )
        none = f'<span class="w-cite w-nocite" title="{_safe(from_none(one.statement))}">none</span>'
        blank = "" if one.statement.text.strip() else ' aria-label="white space"'
        spans.append(
            f'{_safe(one.gap)}<span class="w-statement" data-statement="{n}" tabindex="0" role="button"{blank} '
            f'aria-pressed="false">{_safe(one.statement.text)}</span><span class="w-cites">{chips or none}</span>'
        )
    hint = "Point at a statement to see what it came from, or at a sentence to see what it gave. A click keeps it."
    return (
        f'<section class="w-card"><h2>Answer</h2><p class="w-answered" dir="auto">{"".join(spans)}</p>'
        f'<p class="w-quiet w-noprint">{hint}</p></section>'
    )


def _shares(result: Citations) -> str:
    rows = [
        _row(f'<a class="w-cite" href="#document-{n}">{n}</a>', name, share, f"document-{n - 1}")
        for n, (name, share) in enumerate(zip(result.names, result.documents, strict=True), 1)
    ]
    rest = [
        _row("", _first_upper(PLAINLY.get(name, name)), share, f"rest-{name}") for name, share in result.rest.items()
    ]
    return (
        f'<section class="w-card"><h2><span data-role="shares">Where the answer came from</span></h2>'
        f'<div class="w-columns"><div><h3>Documents</h3><div class="w-sharelist">{"".join(rows)}</div></div>'
        f'<div><h3 data-share="elsewhere">{_safe(_headline(from_none(result)))}</h3>'
        f'<div class="w-sharelist w-restlist">{"".join(rest)}</div></div></div></section>'
    )


def _row(chip: str, name: str, share: float, key: str) -> str:
    """A name, its bar and its share. The bar is a drawing: the policy of the page allows no styles in elements."""
    bar = (
        f'<svg class="w-sharebar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="100" height="8"/><rect class="w-part" width="{100 * share:.2f}" height="8"/></svg>'
    )
    shown = f'<span class="w-sharename">{chip}<span>{_safe(name)}</span></span>'
    value = f'<span class="w-value">{percent(share, 0)}</span>'
    return f'<div class="w-share" data-key="{_safe(key)}">{shown}{bar}{value}</div>'


def _document(result: Citations, n: int, own: list[Sentence]) -> str:
    text, made, at = result.texts[n], [], 0
    for k, sentence in enumerate(own):
        begin, end = sentence.place
        read = text[begin:end].rstrip()
        made.append(_safe(text[at:begin]))
        mark = " w-marked" if sentence.most >= NOTABLE else ""
        made.append(
            f'<span class="w-sentence{mark} {shade(sentence.most, FULL)}" data-document="{n}" data-sentence="{k}" '
            f'tabindex="-1" role="button" aria-pressed="false" '
            f'title="{percent(sentence.most, 0)} of a statement">{_safe(read)}</span>'
        )
        at = begin + len(read)
    made.append(_safe(text[at:]))
    return (
        f'<article class="w-card w-document" id="document-{n + 1}"><h2><span class="w-cite">{n + 1}</span>'
        f'<span class="w-docname">{_safe(result.names[n])}</span>'
        f'<span class="w-value" data-share="{n}">{percent(result.documents[n], 0)}</span></h2>'
        f'<div class="w-doctext" dir="auto">{"".join(made)}</div></article>'
    )


def _stamp(result: Citations) -> str:
    if result.trace is None:
        return ""
    whole = result.trace.whole
    facts = {"method": whole.method, **whole.stamp}
    rows = "".join(f"<dt>{_safe(str(k))}</dt><dd>{_safe(str(v))}</dd>" for k, v in facts.items() if v is not None)
    return f'<section class="w-card"><h2>Stamp</h2><dl class="w-facts">{rows}</dl></section>'


def _headline(says: str) -> str:
    """A sentence without what stands in brackets: the rows below it say that."""
    return _first_upper(says.split(" (")[0])


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _safe(text: str) -> str:
    return html.escape(text)


def table_of(result: Citations) -> Grid:
    """A row for each statement and one for the answer, a column for each document and for what is none."""
    heads = ("statement", *(f"[{n}] {name}" for n, name in enumerate(result.names, 1)), *result.rest)
    rows = [(" ".join(one.text.split()), (*one.documents, *one.rest.values())) for one in result.statements]
    rows.append(("the answer", (*result.documents, *result.rest.values())))
    cells = [(words, *(percent(share, 0) for share in shares)) for words, shares in rows]
    last = len(rows) - 1
    strong = {(last, c) for c in range(len(heads))}
    note = "Shares of what speaks for a statement: documents, and what is no document."
    return Grid.of("Shares in numbers", heads, cells, strong=frozenset(strong), notes=(note,))


@draws(Citations, "tex")
def tex(result: Citations) -> str:
    return latex(table_of(result), wide=True)
