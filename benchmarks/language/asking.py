"""What every table needs: a model, its explanations of an answer, and how likely the answer is when text is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import whence
from whence.core.recipe import Gamma, Recipe, recipes
from whence.methods.explaining import as_method, explain_examples
from whence.models.example import Example
from whence.models.writing import CausalLM
from whence.results.bootstrap import estimate

__all__ = ["METHODS", "Asked", "Reader", "cost", "interval", "method_of", "paired", "ranked", "shown"]

METHODS = (
    "random", "gi", "ah_ln", "cp_lrp", "exact", "attn_lrp", "attn_lrp values=1", "gim", "libragrad", "saliency",
    "attention_last", "rollout", "gae", "grad_sam", "attcat",
)  # fmt: skip
TOKENS = 16_384
"""In one forward pass."""
TOGETHER = 16
"""Answers that are written at a time, on a GPU."""


def method_of(name: str) -> str | Recipe:
    """A method, or a preset with fields changed: "attn_lrp values=1 gamma=0.1"."""
    preset, *changes = name.split()
    if not changes:
        return name
    fields: dict[str, Any] = {key: _value(value) for key, value in (change.split("=") for change in changes)}
    if "gamma" in fields:
        fields["linear"] = Gamma(fields.pop("gamma"))
    return recipes[preset].but(name=name, **fields)


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


class Asked(NamedTuple):
    """A prompt with the answer behind it."""

    example: Example
    context: np.ndarray
    """Which features are the text that the answer should come from."""
    evidence: np.ndarray | None = None
    """Which of them hold it, where that is known."""


class Reader:
    """A language model: what it is asked, how likely an answer is, what explains it, and how long that takes."""

    def __init__(self, folder: str, device: str | None = None, dtype: str | None = None, quick: bool = False):
        model = whence.load(folder, device=device, dtype=dtype)
        if not isinstance(model, CausalLM):
            raise SystemExit(f"{folder} holds no language model that goes on writing: {model}")
        self.model = model
        self.quick = quick
        """Whether this is a try: tables whose cases are large make them smaller."""
        self.blank = int(model.tokenizer.eos_token_id)
        self.seconds: dict[str, list[float]] = {}
        self.deadline = float("inf")
        """When a table ends with the cases it has."""

    @property
    def name(self) -> str:
        return Path(self.model.name).name

    @property
    def late(self) -> bool:
        return time.perf_counter() > self.deadline

    @property
    def chats(self) -> bool:
        return getattr(self.model.tokenizer, "chat_template", None) is not None

    def asked(self, text: str, answer: str, context: tuple[int, int], evidence: tuple[int, int] | None = None) -> Asked:
        """`context` and `evidence` are places in `text`."""
        item: Any = [{"role": "user", "content": text}] if self.chats else text
        (example,), _ = self.model.encode(item, continuation=answer if self.chats else f" {answer}")
        base = (example.text or "").index(text)
        return Asked(example, self.inside(example, base, context), evidence and self.inside(example, base, evidence))

    @staticmethod
    def inside(example: Example, base: int, place: tuple[int, int]) -> np.ndarray:
        """Which tokens a stretch of the prompt has a part in."""
        begin, end = base + place[0], base + place[1]
        return np.array([b > a and a < end and b > begin for a, b in example.parts[0].offsets])

    def scores(self, name: str, example: Example, target: Any = None) -> np.ndarray:
        """The explanation of the whole answer, or of a part of it, by a method, one number for each token."""
        begin = time.perf_counter()
        (found,) = explain_examples(self.model, as_method(method_of(name)), [example], [target])
        if isinstance(found, Exception):
            raise found
        self.seconds.setdefault(name, []).append(time.perf_counter() - begin)
        return found.scores

    def likely(self, example: Example, kept: Sequence[np.ndarray]) -> np.ndarray:
        """The answer's probability, mean over its tokens, where all but the kept tokens are blanked."""
        ids, rows = example.inputs["input_ids"], torch.tensor(example.rows, device=self.model.device)
        written = torch.tensor(example.written, device=self.model.device)
        many = max(1, TOKENS // len(ids))
        found = []
        with torch.inference_mode():
            for n in range(0, len(kept), many):
                masks = torch.from_numpy(np.stack(kept[n : n + many]))
                batch = torch.where(masks, ids, self.blank).to(self.model.device)
                logits = self.model.module(input_ids=batch, logits_to_keep=rows, use_cache=False).logits.float()
                shares = logits.softmax(-1)[:, torch.arange(len(written)), written]
                found.append(shares.mean(1).cpu().numpy())
        return np.concatenate(found)

    def answers(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[str]:
        """What the model writes behind each of some prompts, all at once."""
        rows = [torch.tensor(ids) for ids in prompts]
        padded = torch.nn.utils.rnn.pad_sequence(rows, True, self.blank, padding_side="left").to(self.model.device)
        lengths = torch.tensor([len(row) for row in rows], device=self.model.device)
        mask = torch.arange(padded.shape[1], device=self.model.device) >= padded.shape[1] - lengths[:, None]
        with torch.inference_mode():
            written = self.model.module.generate(
                padded, attention_mask=mask.long(), max_new_tokens=tokens, do_sample=False, pad_token_id=self.blank
            )
        return self.model.tokenizer.batch_decode(written[:, padded.shape[1] :])

    def is_right(self, example: Example) -> bool:
        """Whether the model would have written the answer itself, each token given those before."""
        batch = self.model.collate([example])
        with torch.inference_mode():
            logits = self.model.run(batch).logits[0, list(example.rows)]
        return logits.argmax(-1).tolist() == list(example.written)

    def forward_seconds(self, example: Example, runs: int = 3) -> float:
        """One forward pass over the prompt, the best of a few."""
        batch = self.model.collate([example])
        best = float("inf")
        with torch.inference_mode():
            for _ in range(runs):
                begin = time.perf_counter()
                self.model.run(batch).logits[0, -1].argmax().item()
                best = min(best, time.perf_counter() - begin)
        return best


def cost(seconds: Sequence[float], forward: Sequence[float]) -> float:
    """Seconds of explanations in forward passes over the same prompts: the median over cases."""
    return float(np.median(np.divide(seconds, forward))) if len(forward) else float("nan")


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval over cases."""
    held = np.asarray(values, dtype=np.float64)[:, None]
    found = estimate(held, np.ones_like(held), resamples=2000)
    return found.value, found.low, found.high


def paired(values: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    """The mean difference, case by case."""
    return interval(np.asarray(values) - np.asarray(others))


def ranked(made: dict[str, Any], key: str, base: str | None) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Methods by the mean of a measure, the best first: name, values, and the paired difference to `base`.

    Those that it was not measured of come last.
    """
    for method, values in sorted(made.items(), key=lambda item: -float(np.mean(item[1].get(key, -np.inf)))):
        known = base is not None and base in made and method != base and key in values
        yield method, values, shown(paired(values[key], made[base or ""][key]), sign=True) if known else ""


def shown(found: tuple[float, float, float], sign: bool = False) -> str:
    """A value with its interval, as tables have it."""
    value, low, high = found
    form = "+.3f" if sign else ".3f"
    return f"{value:{form}} <sub>{low:{form}} to {high:{form}}</sub>"
