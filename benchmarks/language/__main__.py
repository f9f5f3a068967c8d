"""`python -m benchmarks.language --data DIR --model FOLDER [--only squad,sources5] [--count 100] [--quick]`.

For a model of `training/train_tracking.py`, which can answer nothing else: needle,variables,variables-steps, without
`--data`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language import answers, injection, recovery, sources, tracking, trying
from benchmarks.language.asking import Reader, paired

PARTS = {
    **dict.fromkeys(recovery.CASES, recovery),
    **dict.fromkeys(trying.NAMES, trying),
    **dict.fromkeys(tracking.TITLES, tracking),
    **dict.fromkeys(sources.DOCUMENTS, sources),
    answers.NAME: answers,
    "injection": injection,
}
"""Which module makes a table."""
HEAD = """# Language models against an answer key

Written by `python -m benchmarks.language --data DIR --model FOLDER` (`--report` writes it again from the result files
in `benchmarks/results`). Intervals are 95 % bootstrap intervals over cases; all methods see the same cases. *Cost* is
the time of an explanation beside that of a forward pass over the same prompt in the same run.
"""


GLANCE = {
    "squad": {"area": "SQuAD: recovery − disruption", "top": "strongest token in the answer"},
    "sources5": {"first": "5 documents: right one first", "lds": "LDS"},
    "sources20": {"first": "20 documents: right one first", "lds": "LDS"},
    "answers": {"first": "finished answers: right document first"},
    "injection": {"sentence": "planted sentence first"},
    "needle": {"top": "needle: strongest word in its line"},
    "variables": {"words": "variables: Recovery@k"},
    "variables-steps": {"words": "step by step: Recovery@k"},
}
"""What the first table has of the others."""


BASE = "exact"
TUNED = "attn_lrp values=1 softmax=1.5"
CHALLENGERS = ("attn_lrp", "attn_lrp values=1", TUNED, "gim", "cp_lrp", "libragrad", "ah_ln", "gi")
VERDICT = f"""Recipes with a path through q and k order the tokens of a paragraph as well or a little better, and lose
where the words that decided are asked for, most of all where the model wrote out its steps. `{TUNED}`
is ahead in the one column that it was tuned for, on other prompts, and level in the rest; it was not run on needles and
variables, where its relatives lose. Of so many intervals one or two leave out 0 by chance. Only `{BASE}` has a receipt
that adds up, and hops and the *memory* of a citation need that. So `lrp` stays `{BASE}` for decoders too.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--model", help="folder of a language model")
    parser.add_argument(
        "--only", help="comma-separated: " + ", ".join(PARTS) + "; all that the model is for by default"
    )
    parser.add_argument("--methods", help="comma-separated; each table has its own if they are not given")
    parser.add_argument(
        "--again", help="sources: comma-separated measures of --methods, on the answers in the result file: words,lds"
    )
    parser.add_argument("--count", type=int, default=100, help="cases of each table")
    parser.add_argument("--minutes", type=float, help="end each table after this long, with the cases it has")
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    parser.add_argument(
        "--quick", action="store_true", help="a try: one small case of tables with many documents, three of the others"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--write", type=Path, default=Path("docs/results_language.md"))
    parser.add_argument("--report", action="store_true", help="only write the page from the result files")
    given = parser.parse_args()
    if not given.report:
        reader = Reader(given.model, given.device, given.dtype, given.quick)
        known = [name for name in PARTS if (name in tracking.TITLES) == tracking.knows(reader)]
        for name in given.only.split(",") if given.only else known:
            own = PARTS[name].QUICK_METHODS if given.quick else PARTS[name].METHODS
            methods = tuple(given.methods.split(",")) if given.methods else own
            count = PARTS[name].QUICK_CASES if given.quick else given.count
            if given.minutes:
                reader.deadline = time.perf_counter() + 60 * given.minutes
            path = given.out / f"language-{name}-{Path(given.model).name}.json"
            if given.again:
                before = json.loads(path.read_text(encoding="utf-8"))
                found = sources.again(before, reader, given.data, methods, given.again.split(","))
            else:
                found = PARTS[name].measured(name, reader, given.data, methods, count)
            print(PARTS[name].section(found), flush=True)
            if not given.quick:
                path.write_text(json.dumps(found), encoding="utf-8")
    if not given.quick:
        write(given.out, given.write)


def at_a_glance(found: list[dict[str, Any]]) -> str:
    """The means of every method in every table, those with the most first places first."""
    columns = _columns(found)
    means = {
        (method, n): float(np.mean(values[key]))
        for n, (one, key, _) in enumerate(columns)
        for method, values in one["made"].items()
        if key in values
    }
    best = {n: max(value for (_, m), value in means.items() if m == n) for n in range(len(columns))}
    methods = dict.fromkeys(method for method, _ in means)
    leads = {m: sum(means.get((m, n), -1.0) >= best[n] - 0.005 for n in best) for m in methods}
    lines = [
        "### At a glance",
        "",
        "Means; the best of each column in bold, and what is within .005 of it. Intervals are in the tables below.",
        "",
        "| method | " + " | ".join(f"{name}, {one['cases']} cases" for one, _, name in columns) + " |",
        "| --- |" + " ---: |" * len(columns),
    ]
    for method in sorted(methods, key=lambda m: -leads[m]):
        cells = []
        for n in best:
            value = means.get((method, n))
            shown = "–" if value is None else f"{value:.2f}"
            cells.append(f"**{shown}**" if value is not None and value >= best[n] - 0.005 else shown)
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def default(found: list[dict[str, Any]]) -> str:
    """What the tables say of `lrp`: where presets of the same cost are ahead of it, case by case, and where behind."""
    lines = [
        "### What `lrp` is for language models",
        "",
        f"`{BASE}`, as for every kind of model. Below, presets of the same cost against it, paired by case, in the "
        "columns of the first table that both have: *ahead* or *behind* where the 95 % interval of the difference "
        "leaves out 0.",
        "",
        f"| preset | ahead of `{BASE}` | behind `{BASE}` | level |",
        "| --- | --- | --- | ---: |",
    ]
    for method in CHALLENGERS:
        ahead, behind, level = [], [], 0
        for one, key, name in _columns(found):
            if all(key in one["made"].get(m, {}) for m in (method, BASE)):
                value, low, high = paired(one["made"][method][key], one["made"][BASE][key])
                said = f"{_short(one['name'], name)} {value:+.3f}"
                ahead += [said] if low > 0 else []
                behind += [said] if high < 0 else []
                level += low <= 0 <= high
        lines.append(f"| `{method}` | {'; '.join(ahead) or '–'} | {'; '.join(behind) or '–'} | {level} |")
    return "\n".join([*lines, "", VERDICT])


def _columns(found: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str, str]]:
    """The tables, keys and names of the columns of the first table."""
    every = [(one, key, name) for one in found for key, name in GLANCE.get(one["name"], {}).items()]
    return [(one, key, name) for one, key, name in every if any(key in values for values in one["made"].values())]


def _short(table: str, name: str) -> str:
    return f"{table}: {name.rpartition(': ')[2]}"


def write(results: Path, page: Path) -> None:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("language-*.json"))]
    found.sort(key=lambda one: list(PARTS).index(one["name"]))
    parts = [PARTS[one["name"]].section(one) for one in found]
    page.write_text(HEAD + "\n" + "\n".join([at_a_glance(found), default(found), *parts]), encoding="utf-8")


if __name__ == "__main__":
    main()
