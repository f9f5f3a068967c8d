"""What a language model goes on from: a text, or messages that its chat template makes one of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from whence.errors import WhenceError
from whence.models import AbstractAdapter
from whence.web.inputs import check_characters, check_text, check_tokens
from whence.web.refusals import ApiError, of_library
from whence.web.requests import MessageBody
from whence.web.settings import Limits

__all__ = ["chat_of", "prompt_of", "tokens_of"]


class Prompted(Protocol):
    """A request with a prompt."""

    text: str | None
    messages: list[MessageBody] | None


def prompt_of(adapter: AbstractAdapter, request: Prompted, limits: Limits, more: int) -> Any:
    """The prompt of a request, behind which `more` tokens are to fit."""
    if (request.text is None) == (request.messages is None):
        how = "missing" if request.text is None else "there twice"
        raise ApiError(422, "wrong_input", f"The prompt is {how}.", "Send text, or messages.")
    if request.messages is not None:
        return chat_of(adapter, request.messages, limits, more)
    text = request.text or ""
    check_text(adapter, text, None, limits)
    check_tokens(adapter, text, None, limits.tokens, more)
    return text


def chat_of(
    adapter: AbstractAdapter, messages: Sequence[MessageBody], limits: Limits, more: int
) -> list[dict[str, str]]:
    """Messages as the library takes them, behind which `more` tokens are to fit."""
    if not adapter.chats:
        raise ApiError(422, "wrong_input", "This model has no chat template.", "Send text in place of messages.")
    said = [{"role": message.role, "content": message.content} for message in messages]
    whole = "".join(message.content for message in messages)
    check_characters(whole, limits)
    if not whole.strip():
        raise ApiError(422, "empty", "The messages are empty: nobody says anything.", "Send some text.")
    try:
        (prompt,), _ = adapter.encode(said)
    except WhenceError as error:
        raise of_library(error) from None
    count, limit = prompt.count + more, min(adapter.limit or limits.tokens, limits.tokens)
    if count > limit:
        message = f"The conversation has {count:,} tokens; the limit is {limit:,}."
        raise ApiError(413, "too_long", message, "Shorten the messages.")
    return said


def tokens_of(adapter: AbstractAdapter, written: str | Sequence[int]) -> int:
    """How many tokens were written."""
    return adapter.tokens_in(written) or 0 if isinstance(written, str) else len(written)
