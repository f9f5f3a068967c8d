"""Do explanations point at what is known to decide? `python -m benchmarks.truth [--only tones] [--write FILE]`

Inputs are made up, so that it is known which part of each holds its class, and small models learn to name it
(`training/`). *Pointing*: how often the strongest feature lies in that part. *Energy*: the share of positive relevance
in it. A guess in the middle of the input and a random one stand beside the methods.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

import whence
from training import shapes, tones
from whence.models import AbstractAdapter
from whence.results.percents import percent

__all__ = ["CASES", "Case", "judged", "main"]

METHODS = (
    "lrp", "attn_lrp", "cp_lrp", "ah_ln", "libragrad", "gim", "gi", "integrated_gradients", "smooth_grad", "saliency",
    "occlusion",
)  # fmt: skip
READING_ATTENTION = ("transformer_attribution", "gae", "grad_sam", "attcat", "rollout", "attention_last")
SEED = 20_000_003
"""Of inputs that neither training nor its test made."""
SLACK = 0.02
"""Seconds that a frame of a model of sounds hears beyond its own."""
HEAD = """# Where the evidence is known

Written by `python -m benchmarks.truth --write docs/truth.md`. *Pointing*: how often the strongest feature lies in the
part of an input that is known to decide. *Energy*: the share of positive relevance in it. A guess in the middle of the
input and a random one stand below the methods.
"""


class Case(NamedTuple):
    """Inputs, what each is, and which of their features hold that."""

    title: str
    text: str
    items: list[Any]
    answers: list[str]
    inside: Callable[[int, tuple[int, ...]], np.ndarray]
    """Number of an input and shape of its scores to the features that decide."""
    source: str
    """The part of an explanation that is judged."""
    methods: tuple[str, ...]


def calls(count: int) -> Case:
    made = tones.make(count, torch.Generator().manual_seed(SEED))

    def inside(n: int, shape: tuple[int, ...]) -> np.ndarray:
        middles, begin = (np.arange(shape[0]) + 0.5) / shape[0], float(made.begins[n])
        return (middles > begin - SLACK) & (middles < begin + tones.CALL + SLACK)

    return Case(
        "A call in a second of noise",
        "The bundled model `tones` names a call of a fifth of a second among hum, hiss and clicks that say nothing.",
        [row.numpy() for row in made.samples],
        [tones.CLASSES[int(label)] for label in made.labels],
        inside,
        "input_values",
        METHODS + READING_ATTENTION,
    )


def scenes(count: int, kind: int, title: str, text: str) -> Case:
    """Pictures with a question of one kind."""
    drawn = shapes.make(4 * count, torch.Generator().manual_seed(SEED))
    asked = torch.nonzero(drawn.kinds == kind).flatten()[:count].tolist()

    def inside(n: int, shape: tuple[int, ...]) -> np.ndarray:
        side = shapes.SIZE // shape[0]
        held = drawn.evidence(asked[n]).numpy().reshape(shape[0], side, shape[1], side)
        touched: np.ndarray = held.any((1, 3))
        return touched

    pictures = drawn.pictures.permute(0, 2, 3, 1).numpy().astype(np.uint8)
    return Case(
        title,
        text,
        [{"image": Image.fromarray(pictures[n]), "text": drawn.question(n)} for n in asked],
        [drawn.answer(n) for n in asked],
        inside,
        "pixel_values",
        METHODS,
    )


SHAPES = partial(
    scenes, kind=0, title="Which shape is the one in red?",
    text="The bundled model `shapes`, a small LLaVA, is asked about one of six things. Squares of the picture that "
    "touch it decide.",
)  # fmt: skip
SIDES = partial(
    scenes, kind=1, title="Which side is the one in red?",
    text="The same model and pictures. Here the pixels say which square it is, and the embedding of that square's "
    "place says the side; the receipt books it as *position*, and no square gets it.",
)  # fmt: skip
CASES: dict[str, Callable[[int], Case]] = {"tones": calls, "shapes": SHAPES, "sides": SIDES}
MODELS = {"sides": "shapes"}
"""Which bundled model a case asks, where it is not of its name."""


def judged(case: Case, model: AbstractAdapter) -> tuple[list[tuple[str, float, float]], float, str]:
    """Pointing and energy of every method on what the model gets right, how much that is, and the receipt of `lrp`."""
    first = whence.explain(model, case.items, "gi", receipt="short")
    right = [n for n, exp in enumerate(first) if exp.prediction.label == case.answers[n]]
    items, shape = [case.items[n] for n in right], first[0].part(case.source).shape
    parts = [case.inside(n, shape) for n in right]
    made, receipt = [], ""
    for method in case.methods:
        explained = whence.explain(model, items, method)
        receipt = receipt or _booked(explained)
        made.append((f"`{method}`", *_measured([exp.part(case.source) for exp in explained], parts)))
        print(made[-1], flush=True)
    away = np.meshgrid(*[((np.arange(n) + 0.5) / n - 0.5) ** 2 for n in shape], indexing="ij")
    draw = np.random.default_rng(0)
    made.append(("the middle", *_measured([-sum(away)] * len(parts), parts)))
    made.append(("random", *_measured([draw.normal(size=shape) for _ in parts], parts)))
    return made, len(right) / len(first), receipt


def _booked(explained: Sequence[whence.Explanation]) -> str:
    """Where the target of `lrp` ended, as a sentence: shares of each input and sink, mean over all."""
    amounts: dict[str, list[float]] = {}
    for exp in explained:
        held = {part.source: float(exp.part(part.source).sum()) for part in exp.parts}
        held |= exp.conservation.sinks if exp.conservation else {}
        for name, amount in held.items():
            amounts.setdefault(name, []).append(amount / exp.target_score)
    shares = ", ".join(
        f"{name} {percent(np.mean(own), 1)}" for name, own in amounts.items() if abs(np.mean(own)) > 5e-4
    )
    return f"Under `{explained[0].method}` the target is made up of: {shares}."


def _measured(scores: list[np.ndarray], parts: list[np.ndarray]) -> tuple[float, float]:
    hits, shares = [], []
    for own, inside in zip(scores, parts, strict=True):
        positive = np.clip(own if own.max() > 0 else own - own.min(), 0, None)
        hits.append(bool(inside.reshape(-1)[int(np.argmax(own))]))
        shares.append(float(positive[inside].sum() / max(positive.sum(), 1e-12)))
    return float(np.mean(hits)), float(np.mean(shares))


def section(case: Case, made: list[tuple[str, float, float]], right: float, receipt: str) -> str:
    lines = [
        f"## {case.title}",
        "",
        f"{case.text} {len(case.items):,} inputs, of which the model gets {percent(right, 1)} right; "
        "these are explained. "
        f"{receipt}",
        "",
        "| method | pointing | energy |",
        "|---|---:|---:|",
        *(f"| {name} | {hit:.3f} | {share:.3f} |" for name, hit, share in made),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="inputs of each kind")
    parser.add_argument("--only", default=",".join(CASES), help=f"comma-separated: {', '.join(CASES)}")
    parser.add_argument("--model", help="a folder in place of the bundled model, for one kind")
    parser.add_argument("--write", type=Path, help="write the page to this file")
    given = parser.parse_args()
    parts = []
    for name in given.only.split(","):
        case = CASES[name](given.count)
        parts.append(section(case, *judged(case, whence.load(given.model or MODELS.get(name, name)))))
    text = HEAD + "\n" + "\n".join(parts)
    given.write.write_text(text) if given.write else print(text)


if __name__ == "__main__":
    main()
