"""docs/results.md, from the result files, and the marked tables of other pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.tables import report_ali, report_inside, report_pets, report_ranking, report_texts
from benchmarks.tables.scatter import scatter
from whence.viz.charts import plain_bars

__all__ = ["write"]

PARTS = ("embedding-norm", "pets", "reviews", "sst2-extras")


def write(results: Path, page: Path) -> None:
    rows = {path: json.loads(path.read_text()) for path in sorted(results.glob("ali-*.json"))}
    held = {n: json.loads(p.read_text()) for n in PARTS if (p := results / f"{n}.json").exists()}
    lines = ["# Results", "", *_introduction(rows, held)]
    lines += report_ranking.ranking(rows)
    for kind in report_ali.KINDS:
        lines += report_ali.section(list(rows.values()), kind)
    lines += report_ranking.tuned(rows)
    parts: dict[str, Callable[[Any], list[str]]] = {
        "embedding-norm": lambda row: report_texts.embedding_norm(row, list(rows.values())),
        "pets": report_pets.pets,
        "reviews": report_texts.reviews,
        "sst2-extras": report_texts.extras,
    }
    for name, row in held.items():
        lines += parts[name](row)
    lines += report_inside.inside(page.parent)
    page.write_text("\n".join(lines).rstrip() + "\n")
    _figures(results, page.parent / "figures")


def _figures(results: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if (path := results / "pets.json").exists():
        share = {m: values[0] for m, values in json.loads(path.read_text())["hans"]["share"].items()}
        order = sorted(share, key=lambda m: -share[m])
        figure = plain_bars("positive relevance in the tag", order, [share[m] for m in order], top=1.0)
        (folder / "pets.svg").write_text(figure.svg)
    if (path := results / "sst2-extras.json").exists():
        points = {m: r["points"] for m, r in json.loads(path.read_text())["conservation"].items()}
        (folder / "conservation.svg").write_text(scatter(points, "logit", "Σ relevance"))


def _introduction(rows: dict[Path, dict[str, Any]], held: dict[str, dict[str, Any]]) -> list[str]:
    made: dict[str, list[str]] = {}
    for name, row in [("the tables of tasks", r) for r in rows.values()] + list(held.items()):
        shown = ", ".join(f"{k} {v}" for k, v in sorted(row["versions"].items()))
        made.setdefault(shown, []).append(name)
    shown = [f"- {', '.join(dict.fromkeys(names))}: {version}" for version, names in made.items()]
    seeds = ", ".join(sorted({str(r.get("seed", 0)) for r in rows.values()}))
    return [
        "Made by `make tables DATA=… TEACHER=…` (`python -m benchmarks.tables --data DIR --teacher DIR`), written from the result",
        "files in `benchmarks/results` by `python -m benchmarks.tables --report`. One model per column, trained with seed",
        f"{seeds}. Run with",
        "",
        *shown,
        "",
        "AUAC: insert tokens by descending relevance into a sentence of UNK, area under the probability of the true class.",
        "AU-MSE: replace tokens by ascending |relevance|, area under the squared change of the logits. Protocol `ali` (UNK, true",
        "label, special tokens counted). Small print: 95 % bootstrap interval over examples, and their number. All methods of a",
        "column see the same test examples, except `attention_flow` on long texts, which sees half as many; `shap` leaves tokens",
        "out as the metrics do (UNK, black). `lrp` is an alias of a preset. Published: Ali et al. 2022, where the model and data",
        "compare. SEMAINE, the ninth data set of the paper, could not be had.",
        "",
    ]
