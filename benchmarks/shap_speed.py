"""SHAP values of short sentences: the lecture's code against `method="shap"`.

    python -m benchmarks.shap_speed [--rounds N]

The lecture calls `shap.Explainer(f, tokenizer)` with an `f` that tokenizes strings and pads each of them to
`tokenizer.model_max_length`. Both get the same ten-word sentences, the same model and class; values are compared first.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import whence
from benchmarks.timing import paired

__all__ = ["SENTENCES", "as_in_the_lecture", "largest_difference", "main"]

SENTENCES = (
    "the film is a very good story about love and life",
    "this is one of the worst films i have ever seen",
    "it is a funny and warm movie for the whole family",
    "there is not much here but a few jokes that work",
    "the plot is slow and the end of it makes no sense",
)
"""Words that the bundled tokenizer knows whole: with masks in it, the text comes back as the same ids."""
LABEL = 1
CLOSE = 1e-4
"""Values agree to this: float32 logits, batches of other shapes."""


def as_in_the_lecture(model: Any, sentences: Sequence[str]) -> Any:
    """SHAP values by the code of the lecture."""
    import shap

    tokenizer, module = model.tokenizer, model.module

    def f(texts: Any) -> np.ndarray:
        options = {"truncation": True, "max_length": tokenizer.model_max_length, "padding": "max_length"}
        ids = torch.tensor([tokenizer(v, **options)["input_ids"] for v in texts])
        masks = torch.tensor([tokenizer(v, **options)["attention_mask"] for v in texts])
        outputs = module(input_ids=ids, attention_mask=masks)[0].detach().cpu().numpy()
        return np.array(outputs[:, LABEL])

    return shap.Explainer(f, tokenizer)(list(sentences), fixed_context=1, silent=True)


def ours(model: Any, sentences: Sequence[str]) -> list[whence.Explanation]:
    return whence.explain(model, list(sentences), "shap", target=LABEL, progress=False)


def largest_difference(model: Any, sentences: Sequence[str] = SENTENCES) -> float:
    """Between the values of both."""
    theirs = as_in_the_lecture(model, sentences).values
    return max(float(np.abs(t - o.scores).max()) for t, o in zip(theirs, ours(model, sentences), strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args(arguments).rounds
    model = whence.load("sentiment")
    difference = largest_difference(model)
    if difference > CLOSE:
        raise SystemExit(f"values differ by {difference:.1e}: the times can't be compared")
    longest = model.tokenizer.model_max_length
    print(f"values agree to {difference:.1e}; padding of the lecture's code: {longest} tokens")
    for what, sentences in (("one sentence", SENTENCES[:1]), (f"{len(SENTENCES)} sentences", SENTENCES)):
        series = paired(lambda: ours(model, sentences), lambda: as_in_the_lecture(model, sentences), rounds)
        print(f"{what}: the lecture's code takes {series} times as long")


if __name__ == "__main__":
    main()
