"""TCAV where right and wrong are known: `python -m benchmarks.tcav_textures --data DIR [--write docs/tcav.md]`.

DIR holds `dtd_textures`, `imagenet_sample` (folders of images) and `sst2`. A small vision transformer learns
to tell three textures apart; the textures themselves and patterns drawn by formula are the concepts. The page is
written by this script alone.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import whence
from benchmarks.tcav_concepts import DRAWN, NEGATIVE, NEUTRAL, OTHER_NEUTRAL, POSITIVE, draw
from benchmarks.tcav_model import SIDE, pictures, processor, train
from whence.results.concept_scores import TCAV
from whence.results.percents import percent
from whence.stamp import versions

__all__ = ["main"]

PAIRS = {"banded": "stripes", "chequered": "checks", "bubbly": "rings"}
"""Texture, and the drawn pattern that it shows."""
HELD_OUT = 18
CONTROL = "photographs of anything"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with dtd_textures, imagenet_sample, …")
    parser.add_argument("--write", type=Path, help="write the page here")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=400, help="stop training after this long")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    start = time.monotonic()
    images, facts = texture_results(given)
    texts = text_results(given)
    text = page(images, texts, facts, given, time.monotonic() - start)
    print(text)
    if given.write:
        given.write.write_text(text, encoding="utf-8")


def texture_results(given: argparse.Namespace) -> tuple[dict[str, list[TCAV]], dict[str, float]]:
    """Train, then test every pattern for every texture, and pictures of nothing in particular as a control."""
    order = np.random.default_rng(given.seed)
    found = {name: pictures(given.data / "dtd_textures" / name) for name in PAIRS}
    mixed = {name: [paths[i] for i in order.permutation(len(paths))] for name, paths in found.items()}
    known = {name: paths[:-HELD_OUT] for name, paths in mixed.items()}
    unseen = {name: paths[-HELD_OUT:] for name, paths in mixed.items()}
    module, facts = train(known, unseen, seconds=given.seconds, epochs=given.epochs, seed=given.seed)
    print(facts, flush=True)
    model = whence.load((module, processor()))
    anything = pictures(given.data / "imagenet_sample")
    pool = [anything[i] for i in order.permutation(len(anything))[:160]]
    randoms, control = pool[:120], pool[120:]
    drawn = {pattern: draw(pattern, 60, given.seed) for pattern in DRAWN}
    results: dict[str, list[TCAV]] = {}
    with tempfile.TemporaryDirectory() as cache:
        for target, paths in unseen.items():
            shared: dict[str, Any] = {"target": target, "examples": paths, "layer": "all", "pool": "mean"}
            shared |= {"runs": given.runs, "seed": given.seed, "cache": cache}
            results[target] = [
                *(_relative(model, f"{name} (photographs)", name, known, randoms, shared) for name in PAIRS),
                _relative(model, f"{PAIRS[target]} (drawn)", PAIRS[target], drawn, randoms, shared),
                whence.tcav(
                    model,
                    concept=control,
                    randoms=randoms,
                    names={"concept": CONTROL, "randoms": "photographs"},
                    **shared,
                ),
            ]
            print(*results[target], sep="\n\n", flush=True)
    return results, facts


def _relative(
    model: Any, name: str, chosen: str, kinds: dict[str, Any], randoms: list[Path], shared: dict[str, Any]
) -> TCAV:
    """One kind against the two others, half and half: what all kinds share can't matter."""
    others = [image for kind, images in kinds.items() if kind != chosen for image in images[: len(images) // 2]]
    names = {"concept": name, "counter": "the two others"}
    return whence.tcav(model, concept=kinds[chosen], counter=others, randoms=randoms, names=names, **shared)


def text_results(given: argparse.Namespace) -> list[TCAV]:
    """Words of praise, words of blame and words of neither, for the bundled sentiment model."""
    with gzip.open(given.data / "sst2" / "dev.tsv.gz", "rt", encoding="utf-8") as file:
        praised = [row["sentence"] for row in csv.DictReader(file, delimiter="\t") if row["label"] == "1"][:60]
    model = whence.load("sentiment")
    concepts = {"positive adjectives": POSITIVE, "negative adjectives": NEGATIVE, "neutral adjectives": NEUTRAL}
    return [
        whence.tcav(
            model, target="positive", examples=praised, concept=words, randoms=OTHER_NEUTRAL, layer="all",
            runs=given.runs, seed=given.seed, names={"concept": name, "randoms": "other neutral adjectives"},
        )
        for name, words in concepts.items()
    ]  # fmt: skip


# -- the page ----------------------------------------------------------------------------------------------------


def page(
    images: dict[str, list[TCAV]], texts: list[TCAV], facts: dict[str, float], given: argparse.Namespace, seconds: float
) -> str:
    made_with = ", ".join(f"{name} {number}" for name, number in versions("scikit-learn", "scipy", "numpy").items())
    threads = os.environ.get("OMP_NUM_THREADS", "unset")
    parts = [
        "# TCAV",
        "Testing with concept activation vectors (Kim et al. 2018): does a class answer a concept that people can show "
        "examples of? `whence.tcav` and `whence tcav`; this page is written by "
        f"`OMP_NUM_THREADS={threads} python -m benchmarks.tcav_textures --data DIR --epochs {given.epochs} "
        f"--runs {given.runs} --seed {given.seed} --write docs/tcav.md` and by nothing else.",
        f"Python {platform.python_version()}, {made_with}; {seconds:.0f} s in all.",
        HOW,
        "## Textures",
        _about_model(facts, given),
        *(_section(target, found) for target, found in images.items()),
        _verdict(images),
        "## Words",
        "The bundled model `sentiment`, class *positive*, on 60 positive sentences of SST-2's dev set. Concepts are "
        f"lists of {len(POSITIVE)} adjectives (`benchmarks/tcav_concepts.py`), set against random draws from "
        f"{len(OTHER_NEUTRAL)} other neutral ones; activations are means over tokens.",
        *(_table(result) for result in texts),
        LIMITS,
    ]
    return "\n\n".join(parts) + "\n"


HOW = """\
Read the tables like this. *TCAV* is the mean share of examples whose class score rises when the layer's activation
takes a small step towards the concept, over runs that each draw other examples; *chance* is what vectors between two
random sets give; *p* is corrected for the examples that runs share and for the number of layers, *p (original)* for
neither. *CAV acc.* is the held-out accuracy of the vectors: near 0.5 the layer does not know the concept. *Magnitude*
is the mean derivative, in logits per unit of activation."""

LIMITS = """\
## Limits
- A significant score says that the class answers the *direction* that separates these examples from those. Whatever
  else separates them (colours, sharpness, drawn or photographed) is in that direction too: choose counterparts well.
- With a random pool as counterpart, everything that sets the concept's pictures apart from photographs counts as
  concept. Relative TCAV (`counter=`) is the sharper question.
- The original's t test takes runs for independent. They share examples, so pictures of anything become "significant"
  once there are runs enough; *p* allows for that and *p (original)* does not."""


def _about_model(facts: dict[str, float], given: argparse.Namespace) -> str:
    chance = 1 / len(PAIRS)
    good = facts["held out"] >= 0.8
    remark = "" if good else (
        " **That is a poor classifier**: it was trained from scratch on very few pictures for a few minutes, so its "
        "concepts are what they are, and the tables say what this model uses, not what a good one would."
    )  # fmt: skip
    return (
        f"A vision transformer (4 layers of width 96, {SIDE} px, patches of 8) trained for {facts['epochs']:.0f} "
        f"epochs ({facts['seconds']:.0f} s on one thread, seed {given.seed}) to tell {', '.join(PAIRS)} apart (DTD). "
        f"Accuracy: {percent(facts['train'], 0)} on its training pictures, "
        f"{percent(facts['held out'], 0)} on {HELD_OUT * len(PAIRS)} others; chance is "
        f"{percent(chance, 0)}.{remark}\n\n"
        "Concepts, each set against the two others (half and half): the training pictures of the three textures, where "
        "the truth is known, since the model was made to use them; and, as an open question, patterns drawn by formula "
        "(stripes, checks, rings in random colours, scales and angles), of which it has never seen any. The control is "
        "a set of photographs of different ImageNet classes against others of that kind. Examples are the held-out "
        "pictures of the class; activations are means over tokens, since a texture looks the same everywhere."
    )


def _section(target: str, found: list[TCAV]) -> str:
    return "\n\n".join([f"### Class {target}", *(_table(result) for result in found)])


def _table(result: TCAV) -> str:
    lines = [
        f"**{result.concept}** vs {result.counter} ({result.size} + {result.size} per vector)",
        "",
        "| layer | TCAV | 95% interval | chance | p | | p (original) | CAV acc. | magnitude |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for layer in result.layers:
        low, high = layer.interval
        lines.append(
            f"| {layer.label} | {layer.score:.2f} ± {layer.std:.2f} | {low:.2f} to {high:.2f} | "
            f"{layer.chance_score:.2f} ± {layer.chance_std:.2f} | {layer.p_corrected:.2g} | {layer.stars or 'n.s.'} | "
            f"{layer.p_uncorrected:.2g} | "
            f"{layer.accuracy:.2f} | {layer.magnitude:+.3f} |"
        )
    return "\n".join(lines)


def _verdict(images: dict[str, list[TCAV]]) -> str:
    """What was expected, and in how many layers it came true."""
    rows = [
        "### What was expected, and what came",
        "",
        "| class | concept | counterpart | expected | layers significantly for | against |",
    ]
    rows.append("|---|---|---|---|---|---|")
    for target, found in images.items():
        for result in found:
            above = [la.label for la in result.layers if la.significant and la.score > la.chance_score]
            below = [la.label for la in result.layers if la.significant and la.score < la.chance_score]
            expected = "not for"
            if result.concept == CONTROL:
                expected = "neither"
            elif result.concept.endswith("(drawn)"):
                expected = "open"
            elif result.concept.startswith(target):
                expected = "for"
            shown = (", ".join(part) or "none" for part in (above, below))
            rows.append(f"| {target} | {result.concept} | {result.counter} | {expected} | {' | '.join(shown)} |")
    controls = [la for found in images.values() for r in found if r.concept == CONTROL for la in r.layers]
    original, ours = sum(la.p_uncorrected < la.alpha for la in controls), sum(la.p_value < la.alpha for la in controls)
    rows += [
        "",
        f"Of the {len(controls)} tests of the control (classes times layers, before Bonferroni), the original's t ",
    ]
    rows[-1] += (
        f"test finds {original} below {controls[0].alpha:g}, and the test that allows for shared examples {ours}."
    )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
