"""`whence.cite`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from whence.core.memory import Memory, size_of
from whence.core.recipe import Recipe
from whence.errors import EmptyInputError, InputError, InputTooLongError
from whence.methods.explaining import as_method, renamed
from whence.methods.method import AbstractMethod
from whence.methods.tracing import traced
from whence.models.chat import sides_of
from whence.models.example import Example
from whence.models.generating import LENGTH, Continuation, Generate, checked_generate
from whence.models.loading import load
from whence.models.targets import Weights
from whence.models.tokens import special_in
from whence.models.word_targets import Beyond
from whence.models.writing import CausalLM
from whence.options import check
from whence.progress import showing
from whence.results import Citations, CitedSentence, Statement, Trace
from whence.results.citations import shares_of
from whence.results.units import letters, sentences

__all__ = ["cite"]

TASK = "Answer the question from the documents."
HEADING = "Documents:\n\n"
WRITTEN = "continuation"
"""The side of tokens that the model wrote."""
QUESTION, INSTRUCTIONS, EARLIER, MEMORY = REST = ("question", "instructions", "earlier text", "memory")


def cite(
    model: Any,
    question: str,
    documents: Sequence[Any] | Mapping[str, str],
    *,
    answer: Continuation | None = None,
    generate: Generate = LENGTH,
    method: str | AbstractMethod | Recipe = "lrp",
    task: str = TASK,
    memory: Memory = "auto",
    progress: bool | None = None,
    **options: Any,
) -> Citations:
    """Let a language model answer a question from documents, and say which sentences each statement came from.

        cited = whence.cite(llm, "Who built the tower?", {"guide": "…", "history": "…"})
        cited.answer, cited.documents, cited.elsewhere
        cited.statements[0].cited

    Arguments:
        model: a language model that writes: loaded, a name to load, `(module, tokenizer)`.
        question: what is asked.
        documents: texts, texts by name, or rows with "text" and "title".
        answer: a finished answer, which is then cited in place of one that the model writes: a text, or token ids
            (`cited.trace.ids`).
        generate: tokens that the model writes at most, or options of its `generate`.
        method: a name (`whence methods` lists them), a method with options, or a recipe.
        task: what the model is told to do.
        memory, progress: as in `explain`.
        options: options of the method.
    """
    adapter = load(model)
    if not isinstance(adapter, CausalLM):
        raise InputError(f"cite asks a language model that goes on writing, and this is {adapter.called}")
    if not isinstance(question, str) or not question.strip():
        raise EmptyInputError("there is no question: cite(model, 'Who built the tower?', documents)")
    states = bool(answer.strip()) if isinstance(answer, str) else isinstance(answer, Sequence) and len(answer) > 0
    if answer is not None and not states:
        raise EmptyInputError(f"answer={answer!r} states nothing: pass a text, or leave it out and the model answers")
    check("task", task, str, "cite")
    size_of(memory)
    chosen = as_method(method, **options)
    prompt = Prompt(question.strip(), documents, task)
    with showing(progress):
        example = prompt.encoded(adapter, answer, checked_generate(generate) or LENGTH)
    target = prompt.target(adapter, example)
    trace = traced(adapter, chosen, example, rows="sentence", target=target, memory=memory, progress=progress)
    return prompt.cited(replace(trace, whole=renamed(trace.whole, method)))


class Prompt:
    """Documents and a question as one text, and where in it each of them stands."""

    def __init__(self, question: str, documents: Sequence[Any] | Mapping[str, str], task: str):
        self.question, self.named = question, _named(documents)
        self.places: list[tuple[int, int, str]] = []
        pieces, at = [], 0

        def put(text: str, side: str | None = None) -> None:
            nonlocal at
            if side is not None:
                self.places.append((at, at + len(text), side))
            pieces.append(text)
            at += len(text)

        put(HEADING)
        for n, (name, text) in enumerate(self.named):
            put(f"[{n + 1}] {name}\n" if name else f"[{n + 1}] ")
            put(text, document_side(n))
            put("\n\n")
        put(f"{task}\n\nQuestion: ")
        put(question, QUESTION)
        self.text = "".join(pieces)
        self.bare = f"{HEADING}{task}\n\nQuestion: {question}"
        """The same without the documents."""

    def encoded(self, model: CausalLM, answer: Continuation | None, generate: Generate) -> Example:
        """The prompt for a model, as a message where it has a template, with the answer behind it."""
        item = _item(model, self.text)
        try:
            (prompt,), _ = model.encode(item)
        except InputTooLongError as error:
            raise InputTooLongError(
                f"the documents with the question are too long for this model, which takes at most {model.limit} "
                "tokens: pass fewer or shorter ones"
            ) from error
        prompt = self._with_sides(prompt)
        if answer is not None:
            if isinstance(answer, str) and not model.chats:
                answer = f" {answer.lstrip()}"
            return model.within_limit(model.continued(prompt, answer))
        (example,), _ = model.encode(item, generate=generate)
        ids = list(example.written)
        while len(ids) > 1 and special_in(model.tokenizer, ids[-1:])[0]:  # what ends the answer states nothing
            ids.pop()
        return model.with_written(prompt, ids)

    def target(self, model: CausalLM, example: Example) -> Callable[[int, int], Beyond]:
        """What of an answer is explained: each word against what the model would say there without the documents.

        Against its runner-up, a word that the model would not have written itself is explained by what speaks for
        another word of the same documents.
        """
        (prompt,), _ = model.encode(_item(model, self.bare))
        shares = model.expects(model.behind(prompt, example)).cpu().numpy()
        return partial(Beyond, tuple(map(Weights, shares)))

    def _with_sides(self, example: Example) -> Example:
        part, text = example.parts[0], example.text
        if text is None or not part.offsets:
            raise InputError("the model's tokenizer does not say where its tokens stand: cite needs a fast tokenizer")
        base = text.find(self.text)
        if base < 0:
            raise InputError("the model's chat template changes what it is given, so documents can't be told apart")
        places = [(base + a, base + b, side) for a, b, side in self.places]
        sides = sides_of(text, part.offsets, places, other=INSTRUCTIONS)
        return replace(example, parts=(replace(part, sides=sides), *example.parts[1:]))

    def cited(self, trace: Trace) -> Citations:
        """What each row of a trace of this prompt came from."""
        held = [[(a, b) for a, b in sentences(text) if text[a:b].strip()] for _, text in self.named]
        numbers = self._sentences_of(trace.whole.text or "", trace.whole.offsets, held)
        amounts = [self._amounts(trace, row) for row in range(len(trace))]
        statements = []
        for row, text in enumerate(trace.written):
            shares = shares_of(amounts[row])
            sources: list[CitedSentence] = []
            for n, spans in enumerate(held):
                inside = np.array(trace.whole.sides) == document_side(n)
                own = {place: _sum(trace, row, inside & (numbers[n] == k)) for k, place in enumerate(spans)}
                for (a, b), part in shares_of(own).items():
                    share = shares[document_side(n)] * part
                    sources.append(CitedSentence(n, self.named[n][1][a:b].strip(), (a, b), own[a, b], share))
            statements.append(
                Statement(
                    text=text.strip(),
                    sources=tuple(sorted(sources, key=lambda source: (-source.share, -source.relevance))),
                    relevance=self._by_document(amounts[row]),
                    documents=self._by_document(shares),
                    rest={side: shares[side] for side in REST},
                    target_score=trace.target_scores[row],
                )
            )
        shares = shares_of({side: sum(own[side] for own in amounts) for side in amounts[0]})
        return Citations(
            question=self.question,
            answer=trace.text.strip(),
            names=tuple(name or document_side(n) for n, (name, _) in enumerate(self.named)),
            texts=tuple(text for _, text in self.named),
            statements=tuple(statements),
            documents=self._by_document(shares),
            rest={side: shares[side] for side in REST},
            trace=trace,
        )

    def _amounts(self, trace: Trace, row: int) -> dict[str, float]:
        """The relevance of each side of the prompt, of what was written before, and of the model's constants."""
        sides = np.array(trace.whole.sides)
        named = [*map(document_side, range(len(self.named))), QUESTION, INSTRUCTIONS]
        made = {side: _sum(trace, row, sides == side) for side in named}
        return made | {EARLIER: _sum(trace, row, sides == WRITTEN), MEMORY: _memory(trace, row)}

    def _by_document(self, held: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(held[document_side(n)] for n in range(len(self.named)))

    def _sentences_of(
        self, text: str, offsets: Sequence[tuple[int, int]], held: Sequence[Sequence[tuple[int, int]]]
    ) -> list[np.ndarray]:
        """For each document, of which of its sentences each token is, if it is one of the document's: of one."""
        base, first = text.find(self.text), letters(text, offsets)
        starts = [base + begin for begin, _, side in self.places if side != QUESTION]
        begins = [[start + a for a, _ in spans] for start, spans in zip(starts, held, strict=True)]
        return [np.clip(np.searchsorted(own, first, side="right") - 1, 0, None) for own in begins]


def _sum(trace: Trace, row: int, columns: np.ndarray) -> float:
    return float(trace.scores[row][columns].sum(dtype=np.float64))


def _memory(trace: Trace, row: int) -> float:
    """What of a row ended in constants of the model."""
    if not trace.receipts or not trace.receipts[row].complete:
        return 0.0
    receipt = trace.receipts[row]
    return receipt.total - receipt.inputs


def _item(model: CausalLM, text: str) -> Any:
    """A prompt for a model: a message where it has a template, and else a text that it goes on from."""
    return [{"role": "user", "content": text}] if model.chats else f"{text}\n\nAnswer:"


def document_side(n: int) -> str:
    return f"document {n + 1}"


def _named(documents: Any) -> list[tuple[str, str]]:
    """Names and texts of documents."""
    if isinstance(documents, str) or not isinstance(documents, Iterable):
        raise InputError("documents are several texts: cite(model, question, [text, …])")
    if hasattr(documents, "columns"):  # its names are what it gives one by one
        raise InputError("documents are rows, not a frame: cite(model, question, frame.to_dict('records'))")
    if isinstance(documents, Mapping):
        rows: list[Any] = [{"title": name, "text": text} for name, text in documents.items()]
    else:
        rows = list(documents)
    made = []
    for n, row in enumerate(rows):
        if isinstance(row, Mapping):
            title = next((str(row[key]) for key in ("title", "name", "id") if row.get(key) is not None), "")
            text = row.get("text")
        else:
            title, text = "", row
        if not isinstance(text, str) or not text.strip():
            raise InputError(
                f"document {n + 1} has no text: pass texts, texts by name, or rows with 'text' and 'title'"
            )
        made.append((title.strip(), text.strip()))
    if not made:
        raise EmptyInputError("there are no documents: cite(model, question, [text, …])")
    return made
