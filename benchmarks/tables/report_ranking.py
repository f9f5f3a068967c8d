"""The part of docs/results.md that says which preset wins, and what tuning adds."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

from benchmarks.tables.markdown import table
from benchmarks.tables.measuring import PRESETS
from benchmarks.tables.ranking import BASE, Standing, columns_of, gains, standings
from whence.results.percents import percent

__all__ = ["ranking", "tuned"]

KINDS = {"ali": "attention-only blocks", "minilm": "MiniLM", "digits": "`digits` (MNIST)"}


def ranking(rows: dict[Path, dict[str, Any]]) -> list[str]:
    """Every preset over all columns, and over the fine-tuned encoders alone, where no two presets coincide by design."""
    columns = columns_of(rows)
    if not columns:
        return []
    whole = standings(columns)
    lines = [
        "## Which preset wins",
        "",
        f"All {len(columns)} columns below (a model on a task) count the same. Ranks are among the {len(PRESETS)} presets, 1 is",
        f"best, equal values share a rank. Differences are to `{BASE}` on the same examples, with paired 95 % bootstrap",
        "intervals (examples drawn anew within each column; each column is one trained model). AU-MSE as a ratio, geometric",
        "mean over columns: above 1 is worse.",
        "",
        *_table(whole),
        *_verdict(whole),
    ]
    encoders = [c for c in columns if c.model == "minilm"]
    if encoders and len(encoders) < len(columns):
        lines += [
            "Without feed-forward networks `ah_ln`, `cp_lrp`, `exact` and `libragrad` are the same rule, so the attention-only",
            f"models can't tell them apart. The {len(encoders)} columns of the fine-tuned encoder can:",
            "",
            *_table(standings(encoders)),
        ]
    return lines


def _table(found: list[Standing]) -> list[str]:
    head = ["preset", "mean rank", "rank AUAC", "rank AU-MSE", "mean AUAC", f"AUAC − `{BASE}`", f"AU-MSE / `{BASE}`"]
    return table(head, (_line(s) for s in found))


def _line(s: Standing) -> list[str]:
    gain = "" if s.method == BASE else _signed(s.auac_gain)
    ratio = "" if s.method == BASE else _times(s.mse_ratio)
    return [f"`{s.method}`", f"{s.rank:.2f}", f"{s.auac_rank:.2f}", f"{s.mse_rank:.2f}", f"{s.auac:.4f}", gain, ratio]


def _signed(found: tuple[float, float, float]) -> str:
    return f"{found[0]:+.4f} <sub>{found[1]:+.4f} to {found[2]:+.4f}</sub>"


def _times(found: tuple[float, float, float]) -> str:
    return f"{found[0]:.3f} <sub>{found[1]:.3f} to {found[2]:.3f}</sub>"


def _verdict(found: list[Standing]) -> list[str]:
    """Who leads, and whether the others can be told from it."""
    first = found[0]
    by_auac = max(found, key=lambda s: s.auac)
    by_mse = min(found, key=lambda s: s.mse_ratio[0])
    text = f"**`{first.method}` has the best mean rank**, so `lrp`, the default, should be `{first.method}`. "
    text += f"By AUAC alone `{by_auac.method}` leads, by AU-MSE alone `{by_mse.method}`. "
    for rival in found[1:4]:
        gain, ratio = rival.auac_gain, rival.mse_ratio
        side = (
            "not told apart in AUAC" if gain[1] <= 0 <= gain[2] else f"{'better' if gain[0] > 0 else 'worse'} in AUAC"
        )
        error = (
            "not told apart"
            if ratio[1] <= 1 <= ratio[2]
            else f"{percent(abs(ratio[0] - 1), 1)} {'worse' if ratio[0] > 1 else 'better'}"
        )
        text += (
            f"`{rival.method}` against `{BASE}`: {side} ({gain[0]:+.4f}), AU-MSE {error}. "
            if rival.method != BASE
            else ""
        )
    return [*wrap(text, 120), ""]


def tuned(rows: dict[Path, dict[str, Any]]) -> list[str]:
    """What `whence.tune` chose for each model, and what it gained on test examples."""
    columns = {(c.task, c.model): c for c in columns_of(rows)}
    searches = [r["tuned"] for r in rows.values() if "tuned" in r]
    if not columns or not searches:
        return []
    lines = [
        "## The tuned recipe",
        "",
        f"`whence.tune` with AUAC, {searches[0]['budget']} recipes, on training examples that the model was not trained on; then measured on the",
        f"test examples of the tables. Against `{BASE}`:",
        "",
    ]
    kinds = {"all columns": tuple(KINDS), **{name: (kind,) for kind, name in KINDS.items()}}
    chosen = {n: [c for c in columns.values() if c.model in kind] for n, kind in kinds.items()}
    sums = ((n, len(held), *gains(held, "tuned")) for n, held in chosen.items() if held)
    head = ["columns", "number", f"AUAC − `{BASE}`", f"AU-MSE / `{BASE}`"]
    lines += table(head, ([name, str(count), _signed(gain), _times(ratio)] for name, count, gain, ratio in sums))
    body = []
    for row in rows.values():
        column = columns.get((row["task"], row["model"]))
        if column is None or "tuned" not in row:
            continue
        found = row["tuned"]
        exact, preset = (gains([column], "tuned", base)[0] for base in (BASE, found["best_preset"]))
        chosen = ", ".join(f"{k} {v}" for k, v in found["choices"].items())
        best = f"`{found['best_preset']}` {_signed(preset)}"
        body.append([row["task"], row["model"], str(found["calibration"]), _signed(exact), best, chosen])
    head = ["task", "model", "examples", f"AUAC − `{BASE}`", "AUAC − best preset on the same examples", "choices"]
    return [*lines, *table(head, body)]
