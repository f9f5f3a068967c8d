"""Citations as text, in a terminal and in a notebook: the answer with its numbers, and the documents they stand for."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from whence.results import Citations, Statement
from whence.results.percents import percent
from whence.results.showing import draws
from whence.viz.colour import blend, contrast_text
from whence.viz.html import CARD
from whence.viz.terminal import printable

__all__ = [
    "PLAINLY",
    "Said",
    "Sentence",
    "elsewhere",
    "fragment",
    "from_none",
    "numbers",
    "plain",
    "render",
    "said",
    "sentences",
]

PLAINLY = {
    "question": "the question",
    "instructions": "instructions and layout",
    "earlier text": "its own earlier words",
    "memory": "constants of the model",
}
"""What is no document, in plain words."""
BAR = 20
"""Characters of a full bar."""


class Said(NamedTuple):
    """A statement as it stands in the answer."""

    gap: str
    statement: Statement
    numbers: tuple[int, ...]
    """Documents that it cites, counted from 1, the strongest first."""


class Sentence(NamedTuple):
    """A sentence of a document, and how much of each statement came from it."""

    document: int
    place: tuple[int, int]
    shares: tuple[float, ...]

    @property
    def most(self) -> float:
        """Its share of the statement that it gave most to."""
        return max(self.shares, default=0.0)


def numbers(statement: Statement) -> tuple[int, ...]:
    return tuple(dict.fromkeys(source.document + 1 for source in statement.cited))


def said(result: Citations) -> Iterator[Said]:
    """The statements in their order, with the white space of the answer between them."""
    at = 0
    for n, statement in enumerate(result.statements):
        begin = result.answer.find(statement.text, at)
        gap = result.answer[at:begin] if begin >= 0 else " "
        at = begin + len(statement.text) if begin >= 0 else at
        yield Said(gap if n else "", statement, numbers(statement))


def sentences(result: Citations) -> list[list[Sentence]]:
    """Of each document, its sentences in their order."""
    shares: dict[tuple[int, tuple[int, int]], dict[int, float]] = {}
    for n, statement in enumerate(result.statements):
        for source in statement.sources:
            shares.setdefault((source.document, source.place), {})[n] = source.share
    made: list[list[Sentence]] = [[] for _ in result.texts]
    for (document, place), own in sorted(shares.items()):
        every = tuple(own.get(n, 0.0) for n in range(len(result.statements)))
        made[document].append(Sentence(document, place, every))
    return made


def elsewhere(rest: dict[str, float]) -> str:
    """What came from no document, in words, the largest first."""
    parts = sorted(((share, name) for name, share in rest.items() if share >= 0.005), reverse=True)
    return ", ".join(f"{PLAINLY.get(name, name)} {percent(share, 0)}" for share, name in parts)


def from_none(one: Citations | Statement) -> str:
    """How much came from no document. Where nothing speaks for a statement, there is nothing to have a share of."""
    if not any(one.documents) and not any(one.rest.values()):
        return "nothing that the model read speaks for it"
    words = elsewhere(one.rest)
    return f"from none of them: {percent(one.elsewhere, 0)}" + (f" ({words})" if words else "")


@draws(Citations, "txt")
def plain(result: Citations) -> str:
    """Question and answer, each statement with what it came from, then the documents with their shares."""
    lines = [f"question: {result.question}", f"answer: {_marked(result)}", ""]
    for one in said(result):
        lines.append(one.statement.text)
        for source in one.statement.cited:
            lines.append(f"  {percent(source.share, 0):>5}  [{source.document + 1}] {' '.join(source.text.split())}")
        lines.append(f"  {from_none(one.statement)}")
    lines.append("")
    pairs = zip(result.names, result.documents, strict=True)
    lines += [f"{percent(share, 0):>5}  [{n}] {name}" for n, (name, share) in enumerate(pairs, 1)]
    lines.append(from_none(result))
    return "\n".join(printable(line, keep="\n") for line in lines)


def _marked(result: Citations) -> str:
    return "".join(one.gap + one.statement.text + _chips(one) for one in said(result))


def _chips(one: Said) -> str:
    return "".join(f"[{n}]" for n in one.numbers) or " [no document]"


@draws(Citations, "terminal")
def render(result: Citations) -> Group:
    """The answer with its numbers, shares as bars, and the documents with what was cited in colour."""
    answer = Text()
    for one in said(result):
        answer.append(printable(one.gap + one.statement.text, keep="\n"))
        answer.append(_chips(one), style="bold cyan" if one.numbers else "dim")
    shares = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for n, (name, share) in enumerate(zip(result.names, result.documents, strict=True), 1):
        shares.add_row(f"[{n}]".replace("[", r"\["), Text(printable(name)), _bar(share), percent(share, 0))
    shares.add_row("", Text("none of them", style="dim"), _bar(result.elsewhere), percent(result.elsewhere, 0))
    parts: list[Any] = [Text(printable(result.question), style="bold"), Text(""), answer, Text(""), shares]
    words = elsewhere(result.rest)
    parts += [Text(f"none of them: {words}", style="dim")] if words else []
    for n, own in enumerate(sentences(result)):
        parts += [Text(""), Text(printable(f"[{n + 1}] {result.names[n]}"), style="bold")]
        parts.append(_lit(result.texts[n], own))
    return Group(*parts)


def _bar(share: float) -> Text:
    return Text("█" * round(BAR * share), style="rgb(230,97,1)")


def _lit(text: str, own: list[Sentence]) -> Text:
    made, at = Text(), 0
    for sentence in own:
        begin, end = sentence.place
        read = text[begin:end]
        made.append(printable(text[at:begin], keep="\n"))
        red, green, blue = ground = blend(sentence.most, 1.0)
        style = f"{contrast_text(ground)} on rgb({red},{green},{blue})" if sentence.most >= 0.01 else ""
        made.append(printable(read.rstrip(), keep="\n"), style=style)
        at = begin + len(read.rstrip())
    made.append(printable(text[at:], keep="\n"))
    return made


@draws(Citations, "notebook")
def fragment(result: Citations) -> str:
    """The same as HTML; each statement says what it came from when the pointer rests on it."""
    answer = "".join(_statement(one, result) for one in said(result))
    documents = []
    for n, own in enumerate(sentences(result)):
        name = f"[{n + 1}] {result.names[n]}"
        share = f'<span style="opacity:.7">{percent(result.documents[n], 0)}</span>'
        text = _document(result.texts[n], own)
        documents.append(
            f'<div style="margin-top:.5em"><b>{_safe(name)}</b> {share}'
            f'<div dir="auto" style="white-space:pre-wrap;line-height:1.7">{text}</div></div>'
        )
    rest = from_none(result)
    return (
        f'<div style="{CARD}"><div><b>{_safe(result.question)}</b></div>'
        f'<div dir="auto" style="white-space:pre-wrap">{answer}</div>{"".join(documents)}'
        f'<div style="opacity:.7;font-size:.85em;margin-top:.5em">{_safe(rest)}</div></div>'
    )


def _safe(text: str) -> str:
    return html.escape(printable(text, keep="\n"))


def _statement(one: Said, result: Citations) -> str:
    tip = [f"{percent(share, 0)} {name}" for name, share in zip(result.names, one.statement.documents, strict=True)]
    tip.append(from_none(one.statement))
    chips = f'<sup style="color:#2b5fb8">{_safe(_chips(one))}</sup>'
    return f'{_safe(one.gap)}<span title="{_safe("; ".join(tip))}">{_safe(one.statement.text)}{chips}</span>'


def _document(text: str, own: list[Sentence]) -> str:
    made, at = [], 0
    for sentence in own:
        begin, end = sentence.place
        read = text[begin:end].rstrip()
        ground = blend(sentence.most, 1.0)
        dress = f' style="background:rgb{ground};color:{contrast_text(ground)};border-radius:2px"'.replace(", ", ",")
        kind = dress if sentence.most >= 0.01 else ""
        made.append(f'{_safe(text[at:begin])}<span title="{percent(sentence.most, 0)}"{kind}>{_safe(read)}</span>')
        at = begin + len(read)
    return "".join([*made, _safe(text[at:])])
