"""The parts of docs/results.md on rationales, conservation, names, and where Gradient × Input is read."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.markdown import table, tidy
from whence.results.percents import percent

__all__ = ["embedding_norm", "extras", "reviews"]


def reviews(row: dict[str, Any]) -> list[str]:
    truth = row["truth"]
    return [
        "## Movie-review rationales",
        "",
        f"MiniLM fine-tuned on {row['training']['examples']:,} reviews (cut at 512 tokens, {row['training']['epochs']} epochs), accuracy {row['accuracy']:.3f}.",
        "Word score = largest over its pieces; the top 10, 20, …, 80 words against human rationales, mean token F1. The ablations",
        "of Chefer et al. 2021 are in brackets; they published curves of a BERT, no numbers to put beside these.",
        f"People marked {percent(truth['marked'], 0)} of the words, of which the model sees {percent(truth['seen'], 0)} before the cut: with that and at most 80 words",
        f"taken, perfect scores would reach {truth['ceiling']:.3f}. Chance is `random`.",
        "",
        *tidy(row["table"]),
    ]


def extras(row: dict[str, Any]) -> list[str]:
    tests, groups = row["names"]["tests"], row["names"]["groups"]
    return [
        "## Conservation",
        "",
        "The attention-only model on SST-2 dev: relevance of the inputs (word and position) against the logit. Distance:",
        "mean |logit − Σ R| / mean |logit|. Error: the largest relative error of the full receipt, sinks included.",
        "",
        "![Σ relevance of the inputs against the logit, one panel per method](figures/conservation.svg)",
        "",
        *table(
            ["method", "correlation", "distance", "receipt error"],
            (
                [f"`{m}`", f"{r['correlation']:.3f}", f"{r['distance']:.3f}", f"{r['error']:.1e}"]
                for m, r in row["conservation"].items()
            ),
        ),
        "## Names",
        "",
        "The same sentences with names swapped: mean relevance of the name for *positive* (`exact`), and the score.",
        f"Female against male: Mann–Whitney p = {tests['gender_p']:.2g}; origins: Kruskal–Wallis p = {tests['origin_p']:.2g}.",
        "",
        *table(
            ["names", "n", "relevance ± s.e.", "mean score"],
            (
                [g, str(r["names"]), f"{r['relevance']:+.3f} ± {r['sem']:.3f}", f"{r['score']:+.3f}"]
                for g, r in groups.items()
            ),
        ),
    ]


def embedding_norm(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """Why `gi` stands lower than published, measured."""
    texts = [r["results"] for r in rows if r["model"] != "digits"]
    behind = {m: sum(r["gi"]["auac"][0] < r[m]["auac"][0] for r in texts) for m in ("gae", "random")}
    return [
        "## Where ours differs from the published order",
        "",
        "Published: AH+LN ≥ LN > AH ≈ GI > GAE > rollout > random. Here the AUAC of `gi` is below that of `gae` in",
        f"{behind['gae']} of {len(texts)} text columns and below `random` in {behind['random']}. A reason that we could measure: BERT's embeddings end in a",
        "LayerNorm, which does not see the scale of what it reads, so Σ_d x_d ∂f/∂x_d = 0 for the whole embedding of every",
        "token, and what `gi` gives the word it takes from the position. The public code of Ali et al. reads relevance behind",
        f"that LayerNorm, we read it at the words. The bundled `sentiment` model on {row['table'][0]['examples']} sentences of SST-2 dev, `gi` at both places:",
        "",
        *tidy(row["table"]),
    ]
