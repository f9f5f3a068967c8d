"""Do pairs point at what makes two sentences match? `python -m benchmarks.pairs [--model FOLDER] [--write FILE]`

Sentences are made up (`training/matches.py`), so that it is known which pair of words makes two of them match, and a
small encoder learns it in a minute or two. *Planted first*: how often that cell of the matrix is the largest of all.
*Together*: rank correlation of the cells with what two tokens do together, by deletion,
s(a, b) - s(a∖i, b) - s(a, b∖j) + s(a∖i, b∖j). *Drop*: of all cells that either token is in, summed, with how much the
similarity falls when both are deleted, s(a, b) - s(a∖i, b∖j).
With `--model`, also that, real sentences and times for an encoder of yours.
"""

from __future__ import annotations

import argparse
import platform
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import whence
from training import matches
from whence.methods.pairing import Embedded
from whence.models.embedding import Embeds
from whence.results.bootstrap import estimate

__all__ = ["main", "measured", "rank_correlation"]

SEED = 20_000_003
"""Of sentences that training did not make."""
PAIRS = (
    ("A small cat sleeps on the old sofa in the kitchen.", "The kitten is lying asleep on a couch next to the stove."),
    ("How can I reset my password?", "I forgot my login and need a new one."),
    ("The company reported a sharp fall in profits this year.", "Annual earnings of the firm declined steeply."),
    ("A man is playing a guitar on stage.", "Someone performs music in front of an audience."),
    ("Heavy rain flooded several streets in the city.", "Roads were under water after the storm."),
    ("She bought fresh bread at the bakery.", "He repaired the bicycle in the garage."),
    ("The doctor gave the child some medicine.", "A physician treated the young patient."),
    ("The train to Berlin leaves at noon.", "Departure of the Berlin railway service is at 12."),
)
Matrix = Callable[[Embeds, str, str], np.ndarray]


def by_recipe(method: str) -> Matrix:
    return lambda model, a, b: whence.similarity(model, a, b, method=method, progress=False).matrix


def of_tokens(model: Embeds, a: str, b: str) -> np.ndarray:
    """Cosines of the tokens as the model embeds them in their sentences: nothing is explained."""
    found = [model.embedded(model.encode(text)[0], "maxsim")[0] for text in (a, b)]
    one, two = (torch.nn.functional.normalize(vectors, dim=1) for vectors in found)
    return (one @ two.T).numpy()


def at_random() -> Matrix:
    draw = np.random.default_rng(0)

    def matrix(model: Embeds, a: str, b: str) -> np.ndarray:
        sizes = [model.encode(text)[0][0].count for text in (a, b)]
        return draw.normal(size=sizes)

    return matrix


def rows(quick: bool = False) -> dict[str, Matrix]:
    recipes = ("lrp", "gi") if quick else ("lrp", "attn_lrp", "ah_ln", "gi")
    made = {f"`{name}`": by_recipe(name) for name in recipes}
    return {**made, "cosines of tokens": of_tokens, "random": at_random()}


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's, over all cells.

    >>> rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([0.0, 0.5, 0.6]))
    1.0
    """
    ranks = [np.argsort(np.argsort(x.reshape(-1))).astype(float) for x in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def deletions(model: Embeds, a: str, b: str) -> tuple[np.ndarray, np.ndarray]:
    """What deleting a token of each does to the cosine, and how much of it is due to the two together.

    Special tokens stay: models never saw a sentence without them.
    """
    sides = []
    for text in (a, b):
        (example,), _ = model.encode(text)
        kept = [n for n in range(example.count) if not example.special[n]]
        less = [model.masked(example, np.arange(example.count) != n, "delete") for n in kept]
        vectors = torch.cat(model.embedded([example, *less])).double()
        sides.append(torch.nn.functional.normalize(vectors, dim=1))
    every = (sides[0] @ sides[1].T).numpy()
    whole, left, right, both = every[0, 0], every[1:, :1], every[:1, 1:], every[1:, 1:]
    return whole - both, whole - left - right + both


def measured(model: Embeds, texts: list[tuple[str, str]], places: list[tuple[int, int]], quick: bool = False) -> str:
    """A table: a line for each way to make a matrix, a column for each measure, with 95 % intervals."""
    fallen = [deletions(model, a, b) for a, b in texts]
    lines = []
    for name, matrix in rows(quick).items():
        begin, first, drop, together = time.perf_counter(), [], [], []
        for n, (a, b) in enumerate(texts):
            found = matrix(model, a, b)
            if places:
                first.append(np.unravel_index(int(found.argmax()), found.shape) == places[n])
            inner = found[1:-1, 1:-1]
            touched = found.sum(1)[1:-1, None] + found.sum(0)[None, 1:-1] - inner
            together.append(rank_correlation(inner, fallen[n][1]))
            drop.append(rank_correlation(touched, fallen[n][0]))
        columns = ([first] if places else []) + [together, drop]
        lines.append(f"| {name} | {' | '.join(map(_interval, columns))} |")
        print(lines[-1], f"{time.perf_counter() - begin:.0f} s", flush=True)
    head = [*(["planted first"] if places else []), "together", "drop"]
    return "\n".join([f"| matrix | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|", *lines])


def _interval(values: list[Any]) -> str:
    column = np.array(values, dtype=float)[:, None]
    found = estimate(column, np.ones_like(column), resamples=2000)
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def planted(count: int, steps: int, quick: bool) -> str:
    begin = time.perf_counter()
    module, off = matches.trained(steps)
    took = time.perf_counter() - begin
    model = whence.load((module, matches.tokenizer()), task="sentence-embedding")
    asked = matches.make(count, random.Random(SEED), shared=1)
    table = measured(model, [(m.first, m.second) for m in asked], [m.places for m in asked], quick)
    with_none = matches.make(count, random.Random(SEED + 1), shared=0)
    largest = [
        float(np.mean([whence.similarity(model, m.first, m.second, progress=False).matrix.max() for m in some]))
        for some in (asked[:50], with_none[:50])
    ]
    return (
        f"{count} pairs of sentences that share one meaning of three. The encoder (two layers of 64, {steps} steps, "
        f"{took:.0f} s) is off by {off:.3f} in cosine, on average, on sentences that it has not seen.\n\n{table}\n\n"
        f"The largest cell is {largest[0]:.2f} on average, and {largest[1]:.2f} where sentences share nothing."
    )


def shown(model: Embeds) -> str:
    """Real sentences, and the strongest cells of each."""
    lines = ["| first | second | cosine | strongest cells |", "|---|---|---|---|"]
    for a, b in PAIRS:
        pair = whence.similarity(model, a, b, progress=False).by("word")
        cells = ", ".join(f"{one} × {two} {score:+.2f}" for one, two, score in pair.top(4))
        lines.append(f"| {a} | {b} | {pair.score:.2f} | {cells} |")
    return "\n".join(lines)


def timed(model: Embeds, lengths: tuple[int, ...]) -> str:
    """Processor time of a pair of texts of equal length, the best of three; long ones once. Memory is the most that the
    process has held until then, the model included."""
    lines = ["| tokens | a pair | one side, one pass | forward pass of both | memory |", "|---|---|---|---|---|"]
    for length in lengths:
        text = " ".join(["river"] * (length - 2))
        (example,), _ = model.encode(text)
        ways: list[Callable[[], Any]] = [
            lambda text=text: whence.similarity(model, text, text, progress=False),
            lambda text=text: whence.explain(model, text, target=whence.similar_to(text), progress=False),
            lambda example=example: [model.embedded([example]) for _ in range(2)],
        ]
        found = [min(_seconds(way) for _ in range(3 if length <= 64 else 1)) for way in ways]
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB, on Linux
        times = " | ".join(f"{t:.2f} s" for t in found)
        lines.append(f"| {example.count} × {example.count} | {times} | {most:.2f} GiB |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def _seconds(work: Callable[[], Any]) -> float:
    """Of the processor: others may be at work on it."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def against_one_by_one(model: Embeds) -> str:
    """The transposed pass and a pass for each dimension, on one side of a pair."""
    method = whence.methods["lrp"]()
    (example,), _ = model.encode(" ".join(["river"] * 30))
    with Embedded(model, method, example, "cosine") as one:  # type: ignore[arg-type]
        quick = min(_seconds(one._transposed) for _ in range(3))
        slow = _seconds(one._one_by_one)
    return (
        f"One side of 32 tokens: {quick:.2f} s with a pass for each token, side by side, and {slow:.1f} s with one for "
        f"each of the {model.dimensions} dimensions."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--pairs", type=int, default=200, help="made-up pairs; 0 for none")
    parser.add_argument("--steps", type=int, default=800, help="of training")
    parser.add_argument("--model", type=Path, help="an encoder of yours, as a folder")
    parser.add_argument("--long", action="store_true", help="also time 64 to 512 tokens")
    parser.add_argument("--quick", action="store_true", help="two recipes only")
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    where = f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    parts = []
    if chosen.pairs:
        parts.append(f"## Planted pairs\n\n{planted(chosen.pairs, chosen.steps, chosen.quick)}")
    if chosen.model is not None:
        model = whence.load(chosen.model, task="sentence-embedding")
        parts.append(f"## Real sentences\n\n{shown(model)}\n\n{measured(model, list(PAIRS), [], chosen.quick)}")
        lengths = (16, 32, *((64, 128, 256, 512) if chosen.long else ()))
        parts.append(f"## Time\n\nProcessor time on {where}.\n\n{timed(model, lengths)}\n\n{against_one_by_one(model)}")
    page = "\n\n".join(parts) + "\n"
    print(page)
    if chosen.write is not None:
        chosen.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
