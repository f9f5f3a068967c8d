"""docs/results.md, from the result files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.tables.ali import METHODS

__all__ = ["write"]

# Ali et al. 2022, as in their table: IMDB, SST-2, BACE, MNIST, T-Emotion, T-Hate, T-Sentiment, MELD-S.
TASKS = ("IMDB", "SST-2", "BACE", "MNIST", "T-Emotion", "T-Hate", "T-Sentiment", "MELD-S")
PUBLISHED = {
    "random": (".673", ".664", ".624", ".324", ".516", ".640", ".484", ".460"),
    "attention_last": (".708", ".712", ".620", ".862", ".542", ".663", ".515", ".483"),
    "attention_flow": ("–", ".711", ".637", "–", "–", "–", "–", "–"),
    "rollout": (".738", ".713", ".653", ".358", ".554", ".659", ".520", ".489"),
    "gae": (".872", ".821", ".675", ".426", ".675", ".762", ".611", ".548"),
    "gi": (".920", ".847", ".646", ".942", ".652", ".772", ".651", ".591"),
    "ah": (".911", ".855", ".645", ".942", ".675", ".797", ".668", ".594"),
    "ln": (".935", ".907", ".702", ".947", ".735", ".829", ".710", ".632"),
    "ah_ln": (".939", ".908", ".707", ".948", ".750", ".838", ".713", ".635"),
}
KINDS = {
    "ali": "Three attention-only blocks over frozen pretrained embeddings (the model of Ali et al. 2022)",
    "minilm": "MiniLM, fine-tuned (6 layers, hidden 384)",
}


def write(results: Path, page: Path) -> None:
    rows = [json.loads(p.read_text()) for p in sorted(results.glob("ali-*.json"))]
    lines = ["# Results", "", *_introduction(rows, results)]
    for kind, title in KINDS.items():
        chosen = {r["task"]: r for r in rows if r["model"] == kind or (r["model"] == "digits" and kind == "ali")}
        if chosen:
            lines += [
                f"## {title}",
                "",
                *_models(chosen),
                *_table(chosen, "auac", kind),
                *_table(chosen, "au_mse", kind),
            ]
    lines += _ranking(rows) if rows else []
    for name, part in (("pets", _pets), ("reviews", _reviews), ("sst2-extras", _extras)):
        path = results / f"{name}.json"
        if path.exists():
            lines += part(json.loads(path.read_text()))
    page.write_text("\n".join(lines).rstrip() + "\n")


def _introduction(rows: list[dict[str, Any]], results: Path) -> list[str]:
    versions = sorted({json.dumps(r["versions"], sort_keys=True) for r in rows})
    shown = "; ".join(", ".join(f"{k} {v}" for k, v in json.loads(v).items()) for v in versions)
    return [
        "Made by `make tables DATA=…` (`python -m benchmarks.tables --data DIR --teacher DIR --out benchmarks/results`), written",
        "from the result files in `benchmarks/results` by `python -m benchmarks.tables --report`. Seeds are fixed (0).",
        f"Run with {shown}.",
        "",
        "AUAC: insert tokens by descending relevance into a sentence of UNK, area under the probability of the true class;",
        "higher is better. AU-MSE: replace tokens by ascending |relevance|, area under the squared change of the logits; lower",
        "is better. Protocol `ali` (UNK, true label, special tokens counted); 95 % bootstrap intervals over examples.",
        "SEMAINE, the ninth data set of the paper, could not be had.",
        "",
    ]


def _models(chosen: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["| task | accuracy | trained on | |", "|---|---|---|---|"]
    for task in TASKS:
        if task in chosen and "accuracy" in chosen[task]:
            row = chosen[task]
            lines.append(f"| {task} | {row['accuracy']:.3f} | {row['training']['examples']:,} | {row['note']} |")
    return [*lines, ""]


def _cell(row: dict[str, Any], method: str, metric: str, best: float | None) -> str:
    result = row["results"].get(method)
    if not result:
        return ""
    if "error" in result:
        return "–"
    value, low, high = result[metric]
    digits = ".3f" if abs(high) < 100 else ".0f"
    text = f"{value:{digits}}"
    text = f"**{text}**" if best is not None and value == best else text
    return f"{text} <sub>{low:{digits}}–{high:{digits}}, n={min(result['n'], row.get('test', result['n']))}</sub>"


def _table(chosen: dict[str, dict[str, Any]], metric: str, kind: str) -> list[str]:
    tasks = [t for t in TASKS if t in chosen]
    lines = [
        f"### {metric.upper().replace('_', '-')}",
        "",
        "| method | " + " | ".join(tasks) + " |",
        "|---" * (len(tasks) + 1) + "|",
    ]
    pick = max if metric == "auac" else min
    best = {t: pick((r[metric][0] for r in chosen[t]["results"].values() if metric in r), default=None) for t in tasks}
    for method in METHODS:
        cells = [_cell(chosen[t], method, metric, best[t]) for t in tasks]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
        if kind == "ali" and metric == "auac" and method in PUBLISHED:
            published = [PUBLISHED[method][TASKS.index(t)] for t in tasks]
            lines.append("| *published* | " + " | ".join(f"*{p}*" for p in published) + " |")
    missing = {m: r["error"] for t in tasks for m, r in chosen[t]["results"].items() if "error" in r}
    notes = [f"`{method}` has no column: {error}" for method, error in missing.items()]
    if "MNIST" in tasks:
        notes.append("MNIST: the bundled `digits` ViT, patches for tokens, black for UNK.")
    return [*lines, "", *notes, ""]


def _ranking(rows: list[dict[str, Any]]) -> list[str]:
    """Mean AUAC over all tasks and models where every method ran."""
    full = [m for m in METHODS if all("auac" in r["results"].get(m, {}) for r in rows)]
    means = {m: sum(r["results"][m]["auac"][0] for r in rows) / len(rows) for m in full}
    lines = [
        "## All tasks and models together",
        "",
        f"Mean AUAC over {len(rows)} columns.",
        "",
        "| method | mean AUAC |",
        "|---|---|",
    ]
    return lines + [f"| `{m}` | {v:.4f} |" for m, v in sorted(means.items(), key=lambda kv: -kv[1])] + [""]


def _pets(row: dict[str, Any]) -> list[str]:
    hans, honest = row["hans"], row["honest"]
    lines = [
        "## Clever Hans with known truth",
        "",
        "A small ViT learns cats from dogs on Oxford-IIIT Pets (96 px). In one training set a tag that names the species is",
        f"pasted into every picture; that model is right on {hans['accuracy']:.1%} of tagged test pictures and on "
        f"{hans['accuracy_without_tag']:.1%} without tags: it reads the tag. The other never saw tags "
        f"({honest['accuracy']:.1%}).",
        f"Share of positive relevance inside the tag's box ({hans['area']:.1%} of the picture) and, for the model without",
        f"tags, inside the animal's mask ({honest['area']:.1%}); {hans['n']} test pictures, predicted class.",
        "",
        "![One pet with a tag (above) and without (below): picture, exact, attn_lrp, gae, rollout, gi](figures/pets.png)",
        "",
        "| method | in the tag | in the animal |",
        "|---|---|---|",
    ]
    for method in sorted(hans["share"], key=lambda m: -hans["share"][m][0]):
        cells = (f"{v:.3f} <sub>{a:.3f}–{b:.3f}</sub>" for v, a, b in (hans["share"][method], honest["share"][method]))
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return [*lines, "", "### Segmentation and perturbation (model without tags)", "", *_tidy(honest["metrics"])]


def _tidy(table: list[dict[str, Any]]) -> list[str]:
    metrics = list(dict.fromkeys(r["metric"] for r in table))
    names = list(dict.fromkeys(r["method"] for r in table))
    found = {(r["method"], r["metric"]): r for r in table}
    lines = ["| method | " + " | ".join(metrics) + " |", "|---" * (len(metrics) + 1) + "|"]
    for name in names:
        cells = []
        for metric in metrics:
            r = found.get((name, metric))
            cells.append("" if r is None else f"{r['value']:.3f} <sub>{r['low']:.3f}–{r['high']:.3f}</sub>")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _reviews(row: dict[str, Any]) -> list[str]:
    return [
        "## Movie-review rationales",
        "",
        f"MiniLM fine-tuned on {row['training']['examples']:,} reviews (cut at 512 tokens), accuracy {row['accuracy']:.3f}.",
        "Word score = largest over its pieces; the top words against human rationales, token F1. The ablations of Chefer et al.",
        "2021 are in brackets.",
        "",
        *_tidy(row["table"]),
    ]


def _extras(row: dict[str, Any]) -> list[str]:
    lines = [
        "## Conservation",
        "",
        "The attention-only model on SST-2 dev: relevance of the inputs (word and position) against the logit. Distance:",
        "mean |logit − Σ R| / mean |logit|. Error: the largest relative error of the full receipt, sinks included.",
        "",
        "| method | correlation | distance | receipt error |",
        "|---|---|---|---|",
    ]
    for method, r in row["conservation"].items():
        lines.append(f"| `{method}` | {r['correlation']:.3f} | {r['distance']:.3f} | {r['error']:.1e} |")
    lines += [
        "",
        "## Names",
        "",
        "The same sentences with names swapped: mean relevance of the name for *positive* (`exact`), and the score.",
        f"Female against male: Mann–Whitney p = {row['names']['tests']['gender_p']:.2g}; origins: Kruskal–Wallis "
        f"p = {row['names']['tests']['origin_p']:.2g}.",
        "",
        "| names | n | relevance ± s.e. | mean score |",
        "|---|---|---|---|",
    ]
    for group, r in row["names"]["groups"].items():
        lines.append(f"| {group} | {r['names']} | {r['relevance']:+.3f} ± {r['sem']:.3f} | {r['score']:+.3f} |")
    return [*lines, ""]
