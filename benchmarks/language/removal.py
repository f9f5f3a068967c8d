"""A prompt of documents with the answer behind it; how likely that answer is when sources are cut out of the prompt;
and scores of the sources, by that or by an explanation.

Sources are stretches of the prompt's text: documents, or sentences. Cut out means that the text is written without
them, put through the model's chat template and tokenized anew. Documents that stay keep their numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch

from benchmarks.language.asking import METHODS as TOKEN_METHODS
from benchmarks.language.asking import TOGETHER, TOKENS, Reader
from benchmarks.language.contextcite import subsets, surrogate
from whence.models.chat import Chat
from whence.models.example import Example
from whence.models.word_targets import span
from whence.models.writing import CausalLM
from whence.results.units import sentences
from whence.verbs.cite import Prompt, document_side

__all__ = [
    "ANSWER",
    "METHODS",
    "QUICK_METHODS",
    "Case",
    "answered",
    "cut",
    "document_blocks",
    "likely",
    "sentence_spans",
]

METHODS = (*TOKEN_METHODS, "cite", "nearest", "leave_one_out", "contextcite 32", "contextcite 256")
QUICK_METHODS = ("random", "nearest", "exact", "cite", "attn_lrp", "gae", "leave_one_out", "contextcite 8")
Span = tuple[int, int]
T = TypeVar("T")
ANSWER = 32
"""Tokens that the model may write."""
NARROW = 0.75
"""The shortest of a batch over its longest, at least: padding is computed, too."""
CPU_TOKENS = 4096
"""In a batch, where larger ones are no faster."""


# -- places in the prompt -----------------------------------------------------------------------------------------


def document_places(prompt: Prompt) -> list[Span]:
    """Where each document's own words stand in the text of the prompt."""
    places = {side: (a, b) for a, b, side in prompt.places}
    return [places[document_side(n)] for n in range(len(prompt.named))]


def document_blocks(prompt: Prompt) -> list[Span]:
    """Where each document stands with its number and the empty line behind it: together they are all documents."""
    ends = [end + len("\n\n") for _, end in document_places(prompt)]
    return list(zip([prompt.text.index("[1] "), *ends[:-1]], ends, strict=True))


def sentence_spans(prompt: Prompt) -> list[tuple[int, Span]]:
    """Every sentence as `whence.cite` parts them: of which document, and where in the text of the prompt."""
    made = []
    for n, (begin, _) in enumerate(document_places(prompt)):
        text = prompt.named[n][1]
        made += [(n, (begin + a, begin + b)) for a, b in sentences(text) if text[a:b].strip()]
    return made


def cut(text: str, pieces: Sequence[Span], kept: np.ndarray) -> str:
    """The text without the pieces that are not kept."""
    made, at = [], 0
    for (begin, end), stays in zip(pieces, kept, strict=True):
        made.append(text[at : end if stays else begin])
        at = end
    return "".join([*made, text[at:]])


def owners(prompt: Prompt, example: Example, pieces: Sequence[Span]) -> np.ndarray:
    """Which piece each token is of, −1 for none: the piece where its first letter stands, inside a document."""
    part, text = example.parts[0], example.text or ""
    base = text.index(prompt.text)
    first = [a + len(text[a:b]) - len(text[a:b].lstrip() or text[a:b]) for a, b in part.offsets]
    number = np.searchsorted([base + begin for begin, _ in pieces], first, side="right") - 1
    documents = {document_side(n) for n in range(len(prompt.named))}
    return np.where([side in documents for side in part.sides], number, -1)


# -- how likely an answer is --------------------------------------------------------------------------------------


def prompt_ids(model: CausalLM, text: str) -> list[int]:
    """The tokens of a prompt as `Prompt.encoded` makes them, without all that an explanation needs besides."""
    chats = getattr(model.tokenizer, "chat_template", None) is not None
    whole = Chat([{"role": "user", "content": text}]).rendered(model.tokenizer) if chats else f"{text}\n\nAnswer:"
    return list(model.tokenizer(whole, add_special_tokens=not chats, verbose=False)["input_ids"])


def answered(
    reader: Reader, asked: Iterable[T], text: Callable[[T], str], wanted: Callable[[T, str], bool]
) -> Iterator[tuple[T, bool]]:
    """Everything asked, and whether the model seems to answer what is wanted: answers are written many at a time.

    Padding may turn a close choice, so whoever goes on looks again. On a CPU many at a time are no faster, and
    everything goes on.
    """
    asked = iter(asked)
    many = 1 if reader.model.device.type == "cpu" else TOGETHER
    while group := list(islice(asked, many)):
        if many == 1:
            yield group[0], True
        else:
            written = reader.answers([prompt_ids(reader.model, text(one)) for one in group], ANSWER)
            yield from ((one, wanted(one, answer)) for one, answer in zip(group, written, strict=True))


@contextmanager
def head_at(module: Any, places: torch.Tensor) -> Iterator[None]:
    """The model's head sees only these places, of each row its own: (row, place). Logits are as many."""

    def pick(_: Any, args: tuple[Any, ...]) -> Any:
        states = args[0]
        rows = torch.arange(len(places), device=states.device)[:, None]
        return (states[rows, places.to(states.device)], *args[1:])

    handle = module.get_output_embeddings().register_forward_pre_hook(pick)
    try:
        yield
    finally:
        handle.remove()


def likely(
    model: CausalLM, prompts: Sequence[Sequence[int]], written: Sequence[int], budget: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """log p of each token of one answer behind each prompt (prompt, token); and seconds, a batch's shared by length.

    Prompts of about one length go together, padded at the right, at most `budget` tokens in a batch. The softmax is in
    float32 whatever the model computes in.
    """
    budget = budget or (CPU_TOKENS if model.device.type == "cpu" else TOKENS)
    found, seconds = np.zeros((len(prompts), len(written))), np.zeros(len(prompts))
    for batch in _batches([len(ids) + len(written) - 1 for ids in prompts], budget):
        begin = time.perf_counter()
        found[batch] = _likely(model, [prompts[n] for n in batch], written)
        lengths = np.array([len(prompts[n]) for n in batch])
        seconds[batch] = (time.perf_counter() - begin) * lengths / lengths.sum()
    return found, seconds


def _batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Numbers of the longest first, in groups whose padded size is within the budget."""
    made: list[list[int]] = []
    for n in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        longest = lengths[made[-1][0]] if made else 0
        if made and longest * (len(made[-1]) + 1) <= budget and lengths[n] >= NARROW * longest:
            made[-1].append(n)
        else:
            made.append([n])
    return made


def _likely(model: CausalLM, prompts: Sequence[Sequence[int]], written: Sequence[int]) -> np.ndarray:
    behind = list(written[:-1])
    rows = [torch.tensor([*ids, *behind]) for ids in prompts]
    fill = int(model.tokenizer.eos_token_id)
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fill).to(model.device)
    lengths = torch.tensor([len(row) for row in rows], device=model.device)
    mask = (torch.arange(padded.shape[1], device=model.device) < lengths[:, None]).long()
    places = lengths[:, None] - len(written) + torch.arange(len(written), device=model.device)
    with torch.inference_mode(), head_at(model.module, places):
        logits = model.module(input_ids=padded, attention_mask=mask, use_cache=False).logits
        shares = logits.float().log_softmax(-1)
        chosen = torch.tensor(list(written), device=shares.device).expand(len(rows), -1)
        return shares.gather(-1, chosen[..., None])[..., 0].double().cpu().numpy()


# -- a case -------------------------------------------------------------------------------------------------------


class Case:
    """An answer, and its sources: what its log-probability is on some of them, computed once for each choice.

    `of` are tokens of the answer, where not all of it is asked about.
    """

    def __init__(self, reader: Reader, prompt: Prompt, example: Example, pieces: Sequence[Span], seed: int):
        self.reader, self.prompt, self.example, self.pieces = reader, prompt, example, list(pieces)
        self.seed = seed
        self.everything = np.ones(len(self.pieces), dtype=bool)
        self._known: dict[bytes, tuple[np.ndarray, float]] = {}
        ids = prompt_ids(reader.model, prompt.text)
        if example.inputs["input_ids"].tolist()[: len(ids)] != ids or example.rows[0] != len(ids) - 1:
            raise ValueError("the prompt is tokenized in another way than by whence.cite")
        self.forward = min(likely(reader.model, [ids], example.written)[1].item() for _ in range(2))
        """Seconds of a forward pass over the whole prompt."""

    @property
    def whole(self) -> range:
        """All tokens of the answer."""
        return range(len(self.example.written))

    def log_p(self, kept: np.ndarray, of: range | None = None) -> np.ndarray:
        """Of the answer on each choice of sources: (choice, source) to (choice,)."""
        missing = list({mask.tobytes(): mask for mask in kept if mask.tobytes() not in self._known}.values())
        if missing:
            texts = [cut(self.prompt.text, self.pieces, mask) for mask in missing]
            found = likely(self.reader.model, [prompt_ids(self.reader.model, t) for t in texts], self.example.written)
            for mask, value, seconds in zip(missing, *found, strict=True):
                self._known[mask.tobytes()] = value, float(seconds)
        of = self.whole if of is None else of
        return np.array([self._known[mask.tobytes()][0][of.start : of.stop].sum() for mask in kept])

    def seconds(self, kept: np.ndarray) -> float:
        """What these choices cost, each as often as it is there."""
        self.log_p(kept)
        return sum(self._known[mask.tobytes()][1] for mask in kept)

    def scores(self, method: str, of: range | None = None) -> tuple[np.ndarray, float]:
        """One score for each source, and the seconds that it took."""
        if method == "random":
            return np.random.default_rng([self.seed, 2]).standard_normal(len(self.pieces)), 0.0
        if method == "nearest":  # no explanation: the later it stands, the higher
            return np.arange(len(self.pieces), dtype=np.float64), 0.0
        of = self.whole if of is None else of
        if method == "leave_one_out":
            return self._left_out(of)
        if method.startswith("contextcite "):
            return self._cited(int(method.split()[1]), of)
        begin = time.perf_counter()
        found = self.reader.scores(*self._aimed(method, of)).astype(np.float64)
        seconds = time.perf_counter() - begin
        own = owners(self.prompt, self.example, self.pieces)
        return np.array([found[own == n].sum() for n in range(len(self.pieces))]), seconds

    def _aimed(self, method: str, of: range) -> tuple[str, Example, Any]:
        """A method of `asking`, and the target: that of a trace, another score ("exact score=logit"), or `cite`'s."""
        if method == "cite":
            return "exact", self.example, self.prompt.target(self.reader.model, self.example)(of.start, of.stop)
        name, _, score = method.partition(" score=")
        return name, self.example, span(of.start, of.stop, score=score or "margin")  # type: ignore[arg-type]

    def _left_out(self, of: range) -> tuple[np.ndarray, float]:
        """log p(answer | all) − log p(answer | all but one), for each."""
        kept = np.vstack([self.everything, ~np.eye(len(self.pieces), dtype=bool)])
        whole, *less = self.log_p(kept, of)
        return whole - np.array(less), self.seconds(kept)

    def _cited(self, ablations: int, of: range) -> tuple[np.ndarray, float]:
        kept = subsets(np.random.default_rng([self.seed, 0]), ablations, len(self.pieces))
        log_p = self.log_p(kept, of)
        begin = time.perf_counter()
        weights = surrogate(kept, log_p, len(of))
        return weights, self.seconds(kept) + time.perf_counter() - begin

    def held_apart(self, many: int) -> np.ndarray:
        """Subsets that no method saw: drawn from a seed of their own."""
        return subsets(np.random.default_rng([self.seed, 1]), many, len(self.pieces))
