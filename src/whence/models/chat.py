"""Conversations: messages with roles, the tools a model may call, and which of them each token of a prompt is of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from whence.errors import InputError
from whence.results.units import letters

__all__ = ["Chat", "is_chat", "sides_of"]

TEMPLATE = "template"
"""The side of what stands in no message: what the model's template puts between and before them."""
TOOLS = "tools"
MARK = "@whence-{}@"


class Chat(NamedTuple):
    """Messages, and the tools that go with them."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any] | None = None

    @classmethod
    def of(cls, item: Any) -> Chat:
        if not isinstance(item, Mapping):
            return cls(item)
        unknown = sorted(set(item) - {"messages", "tools"})
        if unknown:
            raise InputError(f"a conversation has 'messages' and may have 'tools', not {', '.join(map(repr, unknown))}")
        return cls(item["messages"], item.get("tools"))

    def in_words(self) -> Chat:
        """For a model that reads text alone: the parts of a message as one text, which every template can place."""
        return self._replace(messages=[_in_words(message) for message in self.messages])

    def rendered(self, tokenizer: Any) -> str:
        """As the model reads it, open for its answer. A processor has a template as a tokenizer has."""
        if getattr(tokenizer, "chat_template", None) is None:
            raise InputError("this model's tokenizer has no chat template: pass the prompt as one text")
        more = {"tools": list(self.tools)} if self.tools else {}
        try:
            text = str(
                tokenizer.apply_chat_template(list(self.messages), tokenize=False, add_generation_prompt=True, **more)
            )
        except Exception as error:  # whatever a template raises, it is about what it was given
            raise InputError(
                f"the model's chat template refuses this conversation: {error}. "
                "A message is {'role': 'user', 'content': '…'}; some know no system prompt, or want turns to alternate"
            ) from error
        if more and text == self._replace(tools=None).rendered(tokenizer):
            raise InputError(
                "this model's chat template has no place for tools: leave them out, or name them in a text"
            )
        return text

    def places(self, text: str, tokenizer: Any) -> list[tuple[int, int, str]]:
        """Where in the rendered text each message's own words stand, and whose they are."""
        found = []
        if self.tools:
            found.append((*_inserted(text, self._replace(tools=None).rendered(tokenizer)), TOOLS))
        said = [(words, str(message["role"])) for message in self.messages for words in _spoken(message)]
        return found + (self._by_marks(text, said, tokenizer) or _by_reading(text, said))

    def _by_marks(
        self, text: str, said: Sequence[tuple[str, str]], tokenizer: Any
    ) -> list[tuple[int, int, str]] | None:
        """What was said stands where a mark stands that is put in its place: words as short as "user" stand in the
        template as well. None where the template does not put in what it is given."""
        number = count()
        try:
            marked = self._replace(messages=[_marked(m, number) for m in self.messages]).rendered(tokenizer)
        except Exception:  # of a template that reads what is said
            return None
        found, made = [], ""
        for k, piece in enumerate(re.split(MARK.format(r"(\d+)"), marked)):
            words, role = said[int(piece)] if k % 2 else (piece, "")
            if k % 2:
                found.append((len(made), len(made) + len(words), role))
            made += words
        return found if made == text else None


def _in_words(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return message
    for part in content:
        kind = part.get("type", "text") if isinstance(part, Mapping) else type(part).__name__
        if kind != "text" or not isinstance(part.get("text"), str):
            raise InputError(
                f"this model reads text alone, and a message holds a part of type {kind!r}: "
                "pass {'role': 'user', 'content': '…'}"
            )
    return {**message, "content": "".join(part["text"] for part in content)}


def _by_reading(text: str, said: Sequence[tuple[str, str]]) -> list[tuple[int, int, str]]:
    """What was said, searched for in its order."""
    found, at = [], 0
    for words, role in said:
        begin = text.find(words, at)
        if begin >= 0:  # a template may change what was said, or leave it out
            at = begin + len(words)
            found.append((begin, at, role))
    return found


def _spoken(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    pieces = content if isinstance(content, (list, tuple)) else [content]
    texts = [piece.get("text") if isinstance(piece, Mapping) else piece for piece in pieces]
    return [text.strip() for text in texts if isinstance(text, str) and text.strip()]


def _marked(message: Mapping[str, Any], number: Iterator[int]) -> dict[str, Any]:
    """The same message with a mark in the place of each of its texts."""

    def mark(piece: Any) -> Any:
        if isinstance(piece, Mapping):
            return {**piece, "text": mark(piece["text"])} if "text" in piece else piece
        if not isinstance(piece, str) or not piece.strip():
            return piece
        return piece.replace(piece.strip(), MARK.format(next(number)), 1)

    if "content" not in message:
        return dict(message)
    content = message["content"]
    return {**message, "content": [*map(mark, content)] if isinstance(content, (list, tuple)) else mark(content)}


def _inserted(longer: str, shorter: str) -> tuple[int, int]:
    """Where `longer` has what `shorter` has not."""
    most = min(len(longer), len(shorter))
    begin = next((n for n in range(most) if longer[n] != shorter[n]), most)
    alike = next((n for n in range(most - begin) if longer[-1 - n] != shorter[-1 - n]), most - begin)
    return begin, len(longer) - alike


def is_chat(item: Any) -> bool:
    if isinstance(item, Mapping):
        return "messages" in item and is_chat(item["messages"])
    return isinstance(item, list) and bool(item) and all(isinstance(m, Mapping) and "role" in m for m in item)


def sides_of(
    text: str, offsets: Sequence[tuple[int, int]], places: Sequence[tuple[int, int, str]], other: str = TEMPLATE
) -> tuple[str, ...]:
    """On which side each token of a text is: where its first letter stands."""
    return tuple(
        next((side for first, end, side in reversed(places) if first <= begin < end), other)
        for begin in letters(text, offsets)
    )
