"""The page of `benchmarks.speed`: tables and verdicts, all of it computed from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from benchmarks.timing import Series
from whence.results.percents import percent

__all__ = ["page"]

Form = Callable[[float], str]
"""How a number is written."""
HAND = "Gradient×Input by hand"
GOAL_AH_LN = 1.9
"""× forward, ah_ln with a short receipt on BERT-base."""
GOAL_MODE = 0.03
"""Share of Gradient×Input by hand that the mode may cost."""
GOAL_RECEIPT = 0.05
"""Share that a full receipt may add to a short one."""


def page(result: dict[str, Any]) -> str:
    """Markdown from everything that was measured."""
    tables = {name: _series(found) for name, found in result["workloads"].items()}
    parts = [
        _head(result, tables),
        "## Time\n\n" + _times(tables),
        "## Goals\n\n" + _goals(tables, result["overhead"]),
        "## The mode's own cost\n\n" + _overhead(result["overhead"]),
        "## Memory\n\n" + _memory(result["memory"]),
    ]
    if result.get("peers"):
        parts.append("## Other libraries\n\n" + _peers(result["peers"]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _series(found: dict[str, Any]) -> dict[str, Series]:
    return {name: Series(**values) for name, values in found.items()}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# -- the head ----------------------------------------------------------------------------------------------------


def _head(result: dict[str, Any], tables: dict[str, dict[str, Series]]) -> str:
    machine, versions = result["machine"], result["versions"]
    clock = {
        "wall": f"wall time, {machine['threads']} threads",
        "cpu": "processor time on one thread, because other work ran on the machine",
    }[result["clock"]]
    disturbed = [share for table in tables.values() for series in table.values() for share in series.disturbed]
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{result['command']}`; numbers change from run to run.",
        "",
        f"- machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['capability']}, no GPU used",
        "- versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()),
        f"- models: shapes of BERT-base (classifier) and of a {result['layers']}-layer Llama (hidden 768, 12 heads, 4 "
        f"key-value heads, vocabulary 32000), {result['layers']} layers, random weights, float32, evaluation, SDPA",
        f"- clock: {clock}; {result['rounds']} rounds, median (min–max)",
    ]
    if result["clock"] == "wall":
        lines.append(
            f"- other processes had {percent(median(disturbed), 0)} of the cores in the median measurement, "
            f"{percent(max(disturbed), 0)} in the worst"
        )
    return "\n".join(lines)


# -- time --------------------------------------------------------------------------------------------------------


def _times(tables: dict[str, dict[str, Series]]) -> str:
    names = list(next(iter(tables.values())))
    rows = [[name, *(str(table[name]) for table in tables.values())] for name in names]
    text = (
        "Each number is the time of a method over the time of a plain forward pass (`torch.no_grad`) that ran before "
        "and after it. `short` and `full` are receipts. Columns are batch × tokens."
    )
    return text + "\n\n" + _table(["method", *tables], rows)


def _over(first: Series, second: Series, less: float = 0.0) -> list[float]:
    """first / second - less, round by round."""
    return [a / b - less for a, b in zip(first.ratios, second.ratios, strict=True)]


def _goals(tables: dict[str, dict[str, Series]], overheads: dict[str, Any]) -> str:
    text = (
        "*met*: the median over rounds is within the limit. *missed*: every round is above it. *unclear*: the median "
        "is above it, and some rounds are not."
    )
    rows = [_goal(*line) for line in (*_goal_lines(tables), *_overhead_lines(overheads))]
    return text + "\n\n" + _table(["goal", "measured on", "limit", "measured", "result"], rows)


def _goal(name: str, where: str, limit: float, rounds: list[float], form: Form) -> list[str]:
    found = median(rounds)
    verdict = "met" if found <= limit else "missed" if min(rounds) > limit else "unclear"
    return [name, where, form(limit), form(found), verdict]


def _goal_lines(tables: dict[str, dict[str, Series]]) -> Iterable[tuple[str, str, float, list[float], Form]]:
    for where, table in tables.items():
        if where.startswith("bert"):
            yield "`ah_ln` over a forward pass", where, GOAL_AH_LN, table["ah_ln, short"].ratios, "{:.2f}".format
    for where, table in tables.items():
        for preset in _presets(table):
            slower = _over(table[f"{preset}, short"], table[HAND])
            yield f"`{preset}` over Gradient×Input by hand", where, 1.0, slower, "{:.2f}".format
    for where, table in tables.items():
        for preset in _presets(table):
            extra = _over(table[f"{preset}, full"], table[f"{preset}, short"], 1.0)
            yield f"full receipt of `{preset}`: extra cost", where, GOAL_RECEIPT, extra, _in_percent


def _overhead_lines(overheads: dict[str, Any]) -> Iterable[tuple[str, str, float, list[float], Form]]:
    for where, found in overheads.items():
        yield "the mode's own cost", where, GOAL_MODE, [_share(found)], _in_percent


def _in_percent(share: float) -> str:
    return percent(share, 1)


def _presets(table: dict[str, Series]) -> list[str]:
    return [name.removesuffix(", short") for name in table if name.endswith(", short")]


def _share(found: dict[str, Any]) -> float:
    return found["milliseconds"] / 1000 / found["by_hand_seconds"]


def _overhead(overheads: dict[str, Any]) -> str:
    text = (
        "Gradient×Input by hand, with and without the mode; under the mode every rule runs the function as it is. "
        "*Ratio* is the two on the full model; *same again* is by hand over by hand, measured in the same way: what "
        "noise alone gives. Where that noise is larger than the limit, the ratio says nothing, so the goal above is "
        "held against *share*: *calls* is the difference on a model of the same depth that is 48 wide and sees 2 "
        "tokens, and *share* is that over by hand on the full model. (The mode adds Python calls and no arithmetic.)"
    )
    rows = [
        [
            where,
            str(Series(**found["direct"])),
            str(Series(**found["same"])),
            f"{found['milliseconds']:.1f} ms",
            f"{percent(_share(found), 1)}",
        ]
        for where, found in overheads.items()
    ]
    return text + "\n\n" + _table(["workload", "ratio", "same again", "calls", "share"], rows)


# -- memory ------------------------------------------------------------------------------------------------------


def _memory(found: dict[str, dict[str, float]]) -> str:
    if not found:
        return "Not measured."
    names = list(next(iter(found.values())))
    rows = [
        [name, *(f"{column[name]:.0f} ({column[name] / column[HAND]:.2f})" for column in found.values())]
        for name in names
    ]
    text = (
        "MiB that a process grew by at its peak, over what it held with the model loaded; 1×1024 tokens, a fresh "
        "process for each run, median of 3. In brackets, over Gradient×Input by hand."
    )
    return text + "\n\n" + _table(["method", *found], rows)


# -- other libraries ---------------------------------------------------------------------------------------------


def _peers(found: dict[str, Any]) -> str:
    workloads = found["workloads"]
    tables = {where: _series(part["series"]) for where, part in workloads.items()}
    names = list(dict.fromkeys(name for table in tables.values() for name in table))
    rows = [
        [name, *(str(table.get(name, "–")) for table in tables.values()), *_agreement(name, found)] for name in names
    ]
    text = (
        "The same models, inputs and score, in one process with whence; ratios to a plain forward pass as above. "
        "*Difference* is the largest difference from the preset of whence that computes the same relevance, over the "
        "largest value. Methods of many steps ran once, on the first shape."
    )
    parts = [text, _table(["method", *tables, "difference", "note"], rows), _status(found)]
    return "\n\n".join(part for part in parts if part)


def _agreement(name: str, found: dict[str, Any]) -> list[str]:
    known = [part["distance"][name] for part in found["workloads"].values() if name in part["distance"]]
    return [f"{max(known):.0e}" if known else "–", found["notes"].get(name, "")]


def _status(found: dict[str, Any]) -> str:
    lines = ["Versions: " + ", ".join(f"{k} {v or 'not installed'}" for k, v in found["versions"].items()) + "."]
    for package, reason in found["import"].items():
        lines.append(f"\n`{package}` can't be imported as it is with these versions: `{reason}`.")
        if any(name.startswith(package) for part in found["workloads"].values() for name in part["series"]):
            lines[-1] += " Its files for the timed model were loaded one by one instead."
    failed = {
        f"`{name}` did not run: `{why}`."
        for part in found["workloads"].values()
        for name, why in part["failed"].items()
    }
    return "\n".join([*lines, *(f"\n{line}" for line in sorted(failed))])
