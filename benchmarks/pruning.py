"""How many heads can go? `python -m benchmarks.pruning [--write FILE]`.

Heads of the bundled sentiment model are taken away, the weakest first, and the model is asked again. Weak is said by
relevance (`lrp`), by the gradient of a gate on the head [Michel et al. 2019: |∂f/∂gate|, which is the head's output
times its gradient, `gi`], or by chance. Each half of the sentences is judged by an order from the other half. Intervals
are of sentences, drawn with replacement; for chance, every order counts for a sentence.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import whence
from whence.core.replacement import replaced
from whence.data.labelled import film_sentences
from whence.models.adapter import AbstractAdapter
from whence.results.bootstrap import estimate
from whence.verbs.replace import change_of

__all__ = ["curve", "main", "order_by", "table"]

Head = tuple[int, int]
BY = {"relevance (lrp)": "lrp", "gradient (gi, Michel et al.)": "gi"}
ORDERS = 20
"""Orders by chance."""
BEGIN, END = "<!-- pruning -->\n", "<!-- end of pruning -->"


def order_by(model: AbstractAdapter, texts: Sequence[str], method: str) -> list[Head]:
    """Heads, the weakest first: by the mean of |relevance| over texts."""
    found = whence.explain(model, list(texts), method, at="heads")
    sizes = np.mean([np.abs(np.asarray(inside["heads"])) for inside in found], 0)
    return [(int(a), int(b)) for a, b in zip(*np.unravel_index(np.argsort(sizes, axis=None), sizes.shape), strict=True)]


@torch.no_grad()
def said(model: AbstractAdapter, texts: Sequence[str], without: Sequence[Head]) -> np.ndarray:
    """The class of each text, with these heads gone."""
    examples, _ = model.encode(list(texts))
    batch = model.collate(examples)
    with replaced(batch, dict.fromkeys(without, change_of("zero"))) as inputs:
        return np.asarray(model.forward(inputs).logits.argmax(-1).cpu().numpy())


def curve(
    model: AbstractAdapter, texts: Sequence[str], orders: Sequence[Sequence[Head]], counts: Sequence[int]
) -> np.ndarray:
    """(orders, counts, texts): the class of each text with the first so many heads of each order gone."""
    return np.array([[said(model, texts, order[:count]) for count in counts] for order in orders])


def table(model: AbstractAdapter, rows: Sequence[tuple[str, int]], counts: Sequence[int], resamples: int = 2000) -> str:
    """Accuracy and agreement with the whole model against heads removed, as Markdown."""
    texts, labels = [text for text, _ in rows], np.array([label for _, label in rows])
    halves = [np.arange(len(texts))[n::2] for n in (0, 1)]
    whole = said(model, texts, ())
    shape = np.asarray(whence.explain(model, texts[0], at="heads")["heads"]).shape
    rng = np.random.default_rng(0)
    every = [(layer, head) for layer in range(shape[0]) for head in range(shape[1])]
    chance = [[every[n] for n in rng.permutation(len(every))] for _ in range(ORDERS)]
    answers: dict[str, np.ndarray] = {}
    for name, method in {**BY, "chance": ""}.items():
        parts = []
        for own, other in (halves, halves[::-1]):
            orders = [order_by(model, [texts[n] for n in other], method)] if method else chance
            parts.append(curve(model, [texts[n] for n in own], orders, counts))
        joined = np.concatenate(parts, -1)
        answers[name] = joined[..., np.argsort(np.concatenate(halves))]
    lines = []
    for what, truth in (("Agreement with the whole model", whole), ("Accuracy", labels)):
        lines += [
            f"| {what}; heads gone of {len(every)} | {' | '.join(map(str, counts))} |",
            f"|---|{'---|' * len(counts)}",
        ]
        for name, found in answers.items():
            right = (found == truth).mean(0)  # (counts, texts)
            cells = [_cell(right[n], resamples) for n in range(len(counts))]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _cell(right: np.ndarray, resamples: int) -> str:
    found = estimate(right[:, None].astype(np.float32), np.ones((len(right), 1), np.float32), resamples=resamples)
    value, low, high = (f"{100 * v:.0f}" for v in found[:3])
    return f"{value} [{low}, {high}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="page whose table between the marks is replaced")
    options = parser.parse_args()
    model = whence.load("sentiment")
    rows = [
        (row.input, model.labels.index(row.label) if isinstance(row.label, str) else row.label)
        for row in film_sentences()
    ]
    made = table(model, rows, [0, 4, 8, 12, 16, 20, 22])
    print(made)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        options.write.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
