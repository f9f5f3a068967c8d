"""Every figure of `whence.viz` once, from the bundled models.

    python examples/figures.py FOLDER [--format svg]

Writes tokens, compare, bars, waterfall, overlay, panels, classes, curves, intervals, tcav, head, heads and flow.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw

import whence
from whence import viz

REVIEW = "a gorgeous, witty, seductive movie that never outstays its welcome, though the ending is a bit dull"
MIXED = "not a good movie, but the actors are wonderful"
TEXTS = [
    "a gorgeous, witty, seductive movie",
    "a dull and lifeless film",
    "not a good movie",
    "the actors are wonderful but the plot is weak",
    "i loved every minute of it",
    "an utter waste of time and talent",
    "charming, funny and full of life",
    "never again",
]
PRAISE = ["superb", "wonderful", "gorgeous", "brilliant", "delightful", "charming", "a triumph", "so very good"]
PLAIN = ["wooden", "square", "daily", "northern", "printed", "yellow", "a river", "made of paper"]
NEUTRAL = ["a film about a dog", "the story of two brothers", "it plays in paris", "she drives a truck", "they talk"]


def figures() -> Iterator[tuple[str, viz.Figure]]:
    """Name and figure, one after the other."""
    exp = whence.explain("sentiment", REVIEW)
    yield "tokens", viz.tokens(exp)
    yield "bars", viz.bars(exp, top=10)
    yield "waterfall", viz.waterfall(exp, words=True)
    yield "compare", viz.tokens(whence.compare("sentiment", MIXED, ["gi", "lrp", "gae", "rollout", "grad_sam"]))

    digit = three()
    yield "overlay", viz.overlay(whence.explain("digits", digit))
    yield "panels", viz.panels(whence.compare("digits", digit, ["gi", "lrp", "gae", "grad_sam"]))
    yield (
        "classes",
        viz.panels(whence.compare("digits", digit, ["lrp"], target=["3", "8", "5"]), smooth=True, scale="shared"),
    )

    found = whence.evaluate("sentiment", TEXTS, methods=["lrp", "gi", "random"], metrics=["auac", "au_mse"])
    yield "curves", viz.curves(found, "auac")
    yield "intervals", viz.intervals(found, "au_mse")

    concept = whence.tcav(
        "sentiment", target="positive", examples=NEUTRAL, concept=PRAISE, counter=PLAIN, layer="all", runs=10
    )
    yield "tcav", viz.tcav_bars(concept)

    maps = whence.attention("sentiment", MIXED)
    yield "head", viz.heat_map(maps, layer=0, head=0)
    yield "heads", viz.head_grid(maps)
    yield "flow", viz.conservation_flow(whence.audit("sentiment", MIXED))


def three() -> Image.Image:
    """A 3, as one would write it: white on black, 28 by 28 pixels."""
    large = Image.new("L", (280, 280))
    pen = ImageDraw.Draw(large)
    pen.arc((85, 45, 185, 145), 200, 90, fill=255, width=24)
    pen.arc((80, 122, 195, 235), 270, 160, fill=255, width=24)
    return large.resize((28, 28), Image.Resampling.LANCZOS).convert("RGB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the figures go")
    parser.add_argument("--format", choices=("svg", "pdf", "png"), default="svg")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures():
        print(figure.save(given.folder / f"{name}.{given.format}").name)


if __name__ == "__main__":
    main()
