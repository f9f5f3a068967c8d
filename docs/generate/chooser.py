"""Which method for which question: what was measured, side by side, and the best for each question by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docs.generate.measured import MEASURES, Measure, costs, facts, measured
from docs.generate.method_pages import GROUPS
from whence.core.recipe import recipes
from whence.methods.method import class_of, methods
from whence.methods.propagate import DEFAULT_RECIPE
from whence.results.percents import percent

__all__ = ["chooser"]

LEVEL = 0.02
"""Values that differ by less, as a share of the best, are not told apart here: most intervals are wider."""


@dataclass(frozen=True)
class Question:
    """What someone wants to know, the measure that comes nearest to it, and who may answer."""

    asks: str
    measure: str
    page: str
    among: Callable[[str], bool] = lambda name: True


def _forward_only(name: str) -> bool:
    return name not in recipes and "backward" not in class_of(name).cost


def _agnostic(name: str) -> bool:
    return not class_of(name).class_specific


QUESTIONS = [
    Question("Which words did this class come from?", "auac", "guides/classifier.md"),
    Question("Which tokens may be left out without changing anything?", "au_mse", "evaluation.md"),
    Question("Which part of a picture?", "tag", "guides/images.md"),
    Question("What would a person have underlined?", "rationale", "results.md"),
    Question("Where in the text is the answer?", "answer", "language_models.md"),
    Question("Which line of a long prompt?", "needle", "guides/long_inputs.md"),
    Question("Which document did the answer come from?", "source", "guides/citations.md"),
    Question("… and there are no gradients to be had?", "auac", "guides/classifier.md", _forward_only),
    Question("Where did the model look, whatever it said?", "auac", "attention_debate.md", _agnostic),
]


def chooser() -> str:
    """The page."""
    values = measured()
    rows = [_answer(question, values[question.measure]) for question in QUESTIONS]
    return "\n".join(
        [
            "---",
            "hide: [toc]",
            "---",
            "# Which method?",
            "",
            f"`lrp`, the default (an alias of `{DEFAULT_RECIPE}`), unless the table says otherwise for your question. "
            "Then ask your own model: `whence.evaluate` measures every method on your examples, `whence.tune` searches "
            "for a recipe, and the [web page](serve.md) shows several side by side.",
            "",
            "| you ask | most faithful where it was measured | time, forward passes | measured by |",
            "|---|---|---|---|",
            *rows,
            "",
            f"In the second column stand the best method and all within {percent(LEVEL, 0)} of it, the fastest first, "
            "and what `random` scores. It is computed from the result files, not typed: another model or task may turn "
            "it around. A level field says that the measure can't tell them apart, not that they agree.",
            "",
            "## Everything that was measured",
            "",
            *_table(values),
            "",
            *[
                f"- **{m.title}** ({'low' if m.low else 'high'} is good): {m.means.format(**facts())}. [More]({m.page})"
                for m in MEASURES
            ],
            f"- **time** (times a forward pass) and **MiB** (at the peak, beside the model; a forward pass: "
            f"{costs()['forward_mib']:.0f}): {costs()['workload']}; `{costs()['command']}`. "
            "[On a GPU](benchmarks_gpu.md), [long inputs](guides/long_inputs.md).",
            "- –: not measured. `attention_flow` saw half of the long texts. A method's name leads to its page.",
            "",
        ]
    )


def _answer(question: Question, found: dict[str, float]) -> str:
    measure = next(m for m in MEASURES if m.name == question.measure)
    able = [n for n in found if n in methods and n != "random" and question.among(n)]
    top = (min if measure.low else max)(found[n] for n in able)
    level = sorted((n for n in able if abs(found[n] - top) <= LEVEL * top), key=lambda n: (_time(n), n))
    names = ", ".join(f"{_link(n)} {found[n]:.{measure.digits}f}" for n in level)
    times = sorted({f"{_time(n):.1f}" for n in level}, key=float)
    spread = times[0] if len(times) == 1 else f"{times[0]} to {times[-1]}"
    return (
        f"| [{question.asks}]({question.page}) | {names}; `random` {found['random']:.{measure.digits}f} | {spread} "
        f"| {measure.title} |"
    )


def _table(values: dict[str, dict[str, float]]) -> list[str]:
    head = ["method", "time", "MiB", *(m.title for m in MEASURES), "by class"]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 2) + "---|"]
    for names in GROUPS.values():
        known = [n for n in names if n != "lrp"]
        for name in sorted(known, key=lambda n: -values["auac"].get(n, -1)):
            lines.append(_row(name, values))
    return lines


def _row(name: str, values: dict[str, dict[str, float]]) -> str:
    cost = costs()["methods"].get(name)
    spent = [f"{cost['time']:.1f}", f"{cost['mib']:.0f}"] if cost else ["–", "–"]
    cells = [_cell(m, values[m.name], name) for m in MEASURES]
    specific = "yes" if class_of(name).class_specific else "no"
    return f"| {_link(name)} | {' | '.join(spent + cells)} | {specific} |"


def _cell(measure: Measure, found: dict[str, float], name: str) -> str:
    if name not in found:
        return "–"
    able = {n: v for n, v in found.items() if n in methods}
    top = (min if measure.low else max)(able.values())
    text = f"{found[name]:.{measure.digits}f}"
    return f"**{text}**" if abs(found[name] - top) <= LEVEL * top / 10 else text


def _link(name: str) -> str:
    return f"[`{name}`](methods/{name}.md)"


def _time(name: str) -> float:
    found = costs()["methods"].get(name)
    return float(found["time"]) if found else float("inf")
