"""The part of docs/results.md on pets: the planted tag, segmentation, perturbation."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.markdown import interval, table, tidy
from whence.results.percents import percent

__all__ = ["pets"]


def pets(row: dict[str, Any]) -> list[str]:
    hans, honest = row["hans"], row["honest"]
    right = {
        k: f"{percent(hans[k]['accuracy'], 1)} (balanced {percent(hans[k]['balanced'], 1)})"
        for k in ("with_tag", "swapped", "without_tag")
    }
    made = honest["settings"]
    shares = sorted(hans["share"], key=lambda m: -hans["share"][m][0])
    top = {name: max(part["share"].values())[0] for name, part in (("hans", hans), ("honest", honest))}
    return [
        "## Clever Hans with known truth",
        "",
        f"A ViT ({made['layers']} layers of width {made['width']}, patches of 8 × 8 pixels) learns cats from dogs on Oxford-IIIT Pets",
        f"(96 px), from nothing, on {row['trained_on']:,} pictures; {row['test']:,} of the official test split are kept for testing, of which",
        f"{percent(row['majority'], 1)} are dogs. Crops, flips, colours, CutMix, the 37 breeds as a second task; seed {made['seed']}.",
        "",
        *table(
            ["model", "test pictures", "accuracy"],
            [
                ["Hans: a tag that names the species in every training picture", "with the tag", right["with_tag"]],
                ["", "with the other species' tag", right["swapped"]],
                ["", "without a tag", right["without_tag"]],
                [
                    f"honest: no tags, {made['epochs']} epochs",
                    "without a tag",
                    f"{percent(honest['accuracy'], 1)} (balanced {percent(honest['balanced'], 1)})",
                ],
            ],
        ),
        f"{_reads(hans)} Share of positive",
        f"relevance for the predicted class inside the tag's box ({percent(hans['area'], 1)} of the picture, which is what chance gives) and, for the",
        f"honest model, inside the animal's mask ({percent(honest['area'], 1)}); {hans['n']} test pictures each, mean with 95 % bootstrap interval.",
        "",
        "![Share of positive relevance in the tag, one bar per method](figures/pets.svg)",
        "",
        "A run also writes `pets.png` beside its results: pets under each method. It shows photos of the data set, so it is",
        "not part of this page.",
        "",
        *table(
            ["method", "in the tag", "in the animal"],
            (
                [
                    f"`{m}`",
                    *(
                        interval(*part["share"][m], best=part["share"][m][0] == top[name])
                        for name, part in (("hans", hans), ("honest", honest))
                    ),
                ]
                for m in shares
            ),
        ),
        "Why the second column is flatter: nothing says that an honest model reads the animal alone, and its signed relevance",
        "has both signs on the animal (blue and orange in the picture), of which the share counts the orange part.",
        "",
        "### Segmentation and perturbation (honest model)",
        "",
        f"{honest['metrics'][0]['examples']} test pictures, predicted class. Segmentation takes what lies above the mean for the animal: a map can do",
        f"well at it that does not know the class (`rollout`: mIoU {_value(honest, 'rollout', 'segmentation_miou'):.3f}, `exact`: {_value(honest, 'exact', 'segmentation_miou'):.3f}), and blue",
        "patches on the animal count as background. Perturbation asks the model instead. The ablations of Chefer et al. 2021 (A",
        "in place of ∇A, last block, first block) are in brackets. Their ImageNet numbers are of another model and other",
        "pictures, so they are not beside these.",
        "",
        *tidy(honest["metrics"], {"perturbation_positive": "lower"}),
    ]


def _reads(hans: dict[str, Any]) -> str:
    """What the three accuracies say."""
    if hans["swapped"]["accuracy"] < 0.05 and abs(hans["without_tag"]["balanced"] - 0.5) < 0.05:
        return "The other tag turns the answer around, and without one the answer is a guess: Hans reads the tag."
    return "The accuracies do not show that Hans reads the tag alone."


def _value(part: dict[str, Any], method: str, metric: str) -> float:
    return next(r["value"] for r in part["metrics"] if (r["method"], r["metric"]) == (method, metric))
