"""The explained score is the model's own: what it gives when it is called by hand, on the same input.

Every adapter × every form of input × alone and in a batch × float32 and bfloat16 × both attentions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import whence
from tests.contract.specimens import FORMS, Specimen, names, specimen
from whence.models.tasks import ADAPTERS

CONTINUATION = "good film"
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CLOSE = {torch.float32: 1e-4, torch.bfloat16: 6e-2}
"""Beside the largest logit. Kernels round differently for other batch sizes; a wrong row or class is off by ten times
as much in models whose weights are random."""


# -- by hand -----------------------------------------------------------------------------------------------------------
# One score from the outputs for one input. Nothing of whence is used here.


def best_class(outputs: Any, inputs: dict[str, Tensor], made: Specimen) -> float:
    logits = outputs if isinstance(outputs, Tensor) else outputs.logits
    return float(logits[0].max())


def surest_label(outputs: Any, inputs: dict[str, Tensor], made: Specimen) -> float:
    """Of the ordinary tokens the one whose label, other than the first, is most certain."""
    logits = outputs.logits[0].float()
    shares = logits.softmax(-1)[:, 1:].max(-1).values
    row = max(_ordinary(inputs, made), key=lambda i: float(shares[i]))
    return float(logits[row].max())


def best_answer(outputs: Any, inputs: dict[str, Tensor], made: Specimen) -> float:
    """Start and end among the ordinary tokens of the last text."""
    ids = inputs["input_ids"][0].tolist()
    separator = made.companion.sep_token_id
    inner = [i for i, token in enumerate(ids) if token == separator][-2:-1]
    allowed = [i for i in _ordinary(inputs, made) if not inner or i > inner[0]]
    start, end = outputs.start_logits[0], outputs.end_logits[0]
    return max(float(start[i] + end[j]) for i in allowed for j in allowed if i <= j)


def filled_in(outputs: Any, inputs: dict[str, Tensor], made: Specimen) -> float:
    """At every mask the best word rather than the second."""
    rows = torch.nonzero(inputs["input_ids"][0] == made.companion.mask_token_id).flatten()
    return sum(_margin(outputs.logits[0, row]) for row in rows)


def next_word(outputs: Any, inputs: dict[str, Tensor], made: Specimen) -> float:
    return _margin(outputs.logits[0, int(torch.nonzero(inputs["attention_mask"][0]).max())])


def written(outputs: Any, inputs: dict[str, Tensor], made: Specimen) -> float:
    """Every token of the continuation rather than the best other."""
    total = 0.0
    for scores, token in zip(outputs.logits[0].float(), continuation(made), strict=True):
        total += float(scores[token] - torch.cat([scores[:token], scores[token + 1 :]]).max())
    return total


def surest_box(outputs: Any, inputs: dict[str, Tensor], made: Specimen) -> float:
    """The logit of the class that is most certain of all boxes; the last one is "nothing"."""
    logits = outputs.logits[0].float()
    shares = logits.softmax(-1)[:, :-1]
    return float(logits[:, :-1].reshape(-1)[shares.reshape(-1).argmax()])


def largest_region(outputs: Any, inputs: dict[str, Tensor], made: Specimen) -> float:
    """The mean logit of the class of most pixels, over these."""
    logits = outputs.logits[0].float()
    best = logits.argmax(0)
    most = int(best.flatten().mode().values)
    return float(logits[most][best == most].mean())


def mean_depth(outputs: Any, inputs: dict[str, Tensor], made: Specimen) -> float:
    return float(outputs.predicted_depth[0].float().mean())


def a_feature(outputs: Any) -> Tensor:
    """Models without a head predict nothing: this is what we ask them."""
    return outputs.pooler_output[:, 3]


BY_HAND: dict[str, Callable[..., float]] = {
    "object-detection": surest_box,
    "image-segmentation": largest_region,
    "depth-estimation": mean_depth,
    "image-feature-extraction": lambda outputs, inputs, made: float(a_feature(outputs)[0]),
    "token-classification": surest_label,
    "question-answering": best_answer,
    "fill-mask": filled_in,
    "text-generation": next_word,
    "image-text-to-text": next_word,
    "text2text-generation": written,
}
"""What is explained where nothing is chosen. Everything else: the best class."""


def _ordinary(inputs: dict[str, Tensor], made: Specimen) -> list[int]:
    special = {made.companion.cls_token_id, made.companion.sep_token_id, made.companion.pad_token_id}
    tokens = zip(inputs["input_ids"][0].tolist(), inputs["attention_mask"][0].tolist(), strict=True)
    return [i for i, (token, seen) in enumerate(tokens) if seen and token not in special]


def _margin(scores: Tensor) -> float:
    best = scores.float().topk(2).values
    return float(best[0] - best[1])


def continuation(made: Specimen) -> list[int]:
    return list(made.companion(text_target=CONTINUATION)["input_ids"])


def call(made: Specimen, inputs: dict[str, Tensor]) -> tuple[float, float]:
    """The score, and the size of what it was read from."""
    if made.task == "text2text-generation":
        read = [made.module.config.decoder_start_token_id, *continuation(made)[:-1]]
        inputs = {**inputs, "decoder_input_ids": torch.tensor([read])}
    with torch.no_grad():
        outputs = made.module(**inputs)
    first = outputs if isinstance(outputs, Tensor) else outputs[0]
    return BY_HAND.get(made.task, best_class)(outputs, inputs, made), float(first.abs().max())


# -- the matrix --------------------------------------------------------------------------------------------------------

KINDS = {adapter.task: adapter.kind for adapter in ADAPTERS}
MATRIX = [
    pytest.param(task, family, dtype, attention, form, id=f"{task}, {family}, {dtype}, {attention}, {form}")
    for task, family in names()
    for dtype in PRECISIONS
    for attention in ("eager", "sdpa")
    for form in FORMS[KINDS[task]]
    if task != "question-answering" or form not in ("texts", "words")  # an answer lies in a second text
]


def explain(made: Specimen, inputs: Any, **options: Any) -> list[whence.Explanation]:
    model = whence.load(made.module if made.companion is None else (made.module, made.companion))
    assert type(model) is made.adapter
    if made.task == "text2text-generation":
        options = {"continuation": CONTINUATION, "target": whence.span(), **options}
    if made.task == "image-feature-extraction":
        options["target"] = a_feature
    found = whence.explain(model, inputs, "gi", batch_tokens=100_000, receipt="short", **options)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize(("task", "family", "dtype", "attention", "form"), MATRIX)
def test_the_score_is_what_the_model_gives(task, family, dtype, attention, form):
    made = specimen(task, family, PRECISIONS[dtype], attention)
    if made is None:
        pytest.skip(f"{family} has no {attention} attention")
    given = FORMS[KINDS[task]][form](made)
    found = explain(made, given.inputs)
    assert len(found) == len(given.by_hand)
    for n, (exp, inputs) in enumerate(zip(found, given.by_hand, strict=True)):
        score, size = call(made, inputs)
        assert exp.target_score == pytest.approx(score, abs=CLOSE[PRECISIONS[dtype]] * size)
        if given.names is not None:
            own = exp.tokens[: len(given.names[n])]  # an encoder's; what a decoder has read follows
            assert [name.strip() for name in own] == given.names[n]
            assert len(exp.tokens) == len(own) or task == "text2text-generation"


@pytest.mark.parametrize(("task", "family", "dtype", "attention", "form"), MATRIX)
def test_a_batch_is_a_loop(task, family, dtype, attention, form):
    made = specimen(task, family, PRECISIONS[dtype], attention)
    if made is None:
        pytest.skip(f"{family} has no {attention} attention")
    given = FORMS[KINDS[task]][form](made)
    together = explain(made, given.inputs)
    close = CLOSE[PRECISIONS[dtype]]
    for n, exp in enumerate(together):
        (alone,) = explain(made, one(given.inputs, n))
        scale = max(1.0, float(np.abs(alone.scores).max()))
        assert exp.tokens == alone.tokens
        if dtype == "float32":
            assert exp.target == alone.target
            np.testing.assert_allclose(exp.scores, alone.scores, atol=close * scale)
        assert exp.target_score == pytest.approx(alone.target_score, abs=close * scale)


def one(inputs: Any, n: int) -> Any:
    if isinstance(inputs, dict):
        return {k: v[n : n + 1] for k, v in inputs.items()}
    return inputs[n : n + 1]
