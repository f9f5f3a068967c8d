"""What came out, in one sentence: it stands on top of every report, and over results in a notebook.

That of an explanation is `Explanation.verdict`: pages colour its parts, and the web API sends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from whence.results import (
    AttentionMaps,
    AttributionGraph,
    Citations,
    Evaluation,
    Inside,
    Pair,
    Patching,
    Trace,
)
from whence.results.audit_report import Audit
from whence.results.concept_scores import TCAV
from whence.results.diagnosis import Diagnosis, Section
from whence.results.evaluation_files import shown
from whence.results.percents import percent
from whence.results.tuning import Tuning
from whence.results.verdict import named_scores, reasons
from whence.viz.axes import number, signed
from whence.viz.citing import from_none
from whence.viz.passages import WRITTEN, amounts, named, unmarked

__all__ = ["together", "verdict"]


ROLES = {"user": "what the user said", "system": "the system prompt", "template": "the chat template"}


@singledispatch
def verdict(result: Any) -> str:
    """One sentence for people who read no further; nothing where there is none to say."""
    return ""


def together(names: Sequence[str], last: str = "and") -> str:
    """
    >>> together(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else ""


def _part(largest: float, amounts: Iterable[float]) -> str:
    return "most of it" if largest > sum(max(amount, 0) for amount in amounts) / 2 else "the largest part"


def _quoted(text: str) -> str:
    short = named(text)
    return f"“{short if len(short) <= 40 else short[:39] + '…'}”"


# -- where it came from ------------------------------------------------------------------------------------------


@verdict.register
def _(trace: Trace) -> str:
    plainly = {WRITTEN: "its own words", "prompt": "the prompt"} | ROLES
    held = {plainly.get(name, f"“{name}”"): v for name, v in _sides(trace).items()}
    names, scores = named_scores(trace.whole)
    order = [n for n in np.argsort(-scores, kind="stable")[:3] if scores[n] > 0 and scores[n] >= scores.max() / 2]
    best = list(dict.fromkeys(_quoted(names[n].strip("“”")) for n in order))
    most = max(held, key=lambda name: held[name]) if held else ""
    where = f", {_part(held[most], held.values())} from {most}" if len(held) > 1 and held[most] > 0 else ""
    came = f"came mainly from {together(best)}{where}" if best else "came from nothing that it read"
    return f"{_quoted(unmarked(trace))} {came}."


def _sides(trace: Trace) -> dict[str, float]:
    return amounts(trace, trace.whole.scores)


@verdict.register
def _(pair: Pair) -> str:
    """Words and thirds of a picture are named, as in the sentence of an explanation."""
    one, two = (reasons(side.laid_out()) for side in (pair.left, pair.right))
    wide = np.nan_to_num(pair.matrix.astype(np.float64))
    sums = np.array([[wide[np.ix_(rows, columns)].sum() for _, columns in two] for _, rows in one])
    way = -1 if pair.score < 0 else 1
    cells = way * sums.reshape(-1)
    found = [divmod(int(n), len(two)) for n in np.argsort(-cells, kind="stable")[:2] if cells[n] > 0]
    seen = [side.is_image for side in (pair.left, pair.right)]
    which = ("the first picture", "the second") if all(seen) else ("the picture", "the picture")
    names = [
        [f"{name} of {of}" if picture else _quoted(name) for name, _ in side]
        for side, picture, of in zip((one, two), seen, which, strict=True)
    ]
    goes = [
        f"{names[0][i]} {'goes with' if way > 0 else 'and'} {names[1][j]}{'' if way > 0 else ' pull apart'}"
        for i, j in found
    ]
    none = (
        f"; no two parts of them {'go together' if way > 0 else 'pull apart'}, it comes from the model's own constants"
    )
    because = f", mainly because {together(goes)}" if goes else none
    return f"Their {pair.measure} similarity is {number(pair.score)}{because}."


@verdict.register
def _(result: Citations) -> str:
    none = [one for one in result.statements if not one.cited]
    best, share = result.top(1)[0] if result.names else ("", 0.0)
    came = f"{percent(1 - result.elsewhere)} of the answer came from the documents" if any(result.documents) else ""
    part = _part(share, [1 - result.elsewhere])
    came = f"{came}, {part} from {_quoted(best)} ({percent(share)})" if came and len(result.names) > 1 else came
    if not came:
        return f"No document speaks for this answer: {from_none(result)}."
    less = f"{len(none)} of {len(result.statements)} statements cite none" if none else "every statement cites one"
    return f"{came}; {less}."


# -- inside the model --------------------------------------------------------------------------------------------


@verdict.register
def _(inside: Inside) -> str:
    said = []
    for place in inside.places[:3]:
        best = inside.top(place, 1)
        if not best or len(best[0]) != 3:
            continue
        row, at, score = best[0]
        unit = {"heads": "head", "neurons": "neuron", "experts": "expert"}.get(place)
        if unit:
            said.append(f"{unit} {at} of layer {row} ({signed(score)})")
        else:
            what = _quoted(at) if isinstance(at, str) else f"token {at}"
            of = {"layers": "behind layer", "mlps": "in the MLP of layer", "attentions": "in the attention of layer"}
            said.append(f"{what} {of.get(place, place)} {row} ({signed(score)})")
    return f"What weighs most for {inside.target}: {together(said)}." if said else ""


@verdict.register
def _(graph: AttributionGraph) -> str:
    inputs = graph.relevance[0]
    best = graph.top(1)
    first = int(np.abs(inputs).argmax())
    most = f"{_quoted(graph.tokens[first])} ({signed(float(inputs[first]))})"
    said = f"{graph.target} = {number(graph.target_score)} comes mainly from {most}"
    if best:
        edge = best[0]
        said += (
            f"; the strongest way between tokens is from {_quoted(graph.tokens[edge.source])} to "
            f"{_quoted(graph.tokens[edge.target])} through {edge.by} of layer {edge.layer} ({signed(edge.weight)})"
        )
    return f"{said}."


@verdict.register
def _(found: Patching) -> str:
    best = found.top(1)
    if not best:
        return ""
    other = "corrupt" if found.into == "clean" else "clean"
    sure = "" if found.correlation is None else f" Estimates correlate with true patching at {found.correlation:.2f}."
    name, effect = best[0]
    return (
        f"Of all {found.kind}, the {other} run's activation of {name} changes the score most: {signed(effect)} "
        f"of a difference of {signed(found.corrupt_score - found.clean_score)} between the runs.{sure}"
    )


@verdict.register
def _(maps: AttentionMaps) -> str:
    low = [(float(row.min()), layer, int(row.argmin())) for layer, row in enumerate(maps.entropy)]
    if not low:
        return ""
    _, layer, head = min(low)
    weights = np.asarray(maps.maps[layer][head])
    query, key = np.unravel_index(int(weights.argmax()), weights.shape)
    ask, see = maps.axes(layer)
    looks = ""
    if query < len(ask) and key < len(see):
        looks = f": from {_quoted(ask[query])} it looks at {_quoted(see[key])} with {percent(float(weights.max()), 0)}"
    count = sum(len(m) for m in maps.maps)
    return f"{count} heads in {len(maps)} layers; the most focused is head {head} of layer {layer}{looks}."


@verdict.register
def _(audit: Audit) -> str:
    receipt = audit.conservation
    kinds = sorted(((k, v) for k, v in receipt.sinks.items() if k != "unruled"), key=lambda item: -abs(item[1]))
    kept = together([f"{kind} {signed(amount)}" for kind, amount in kinds[:3]])
    closed = abs(receipt.error) <= max(receipt.tolerance, 1e-3 * receipt.scale)
    said = f"Of {audit.target} = {number(audit.target_score)} the inputs have {signed(audit.inputs)}"
    said += f"; the model itself keeps the rest: {kept}" if kept else ""
    end = "Every unit is accounted for" if closed else "The account does not close"
    why = f"; without a rule: {', '.join(audit.unruled)}" if audit.unruled else ""
    return f"{said}. {end} (error {receipt.error:.0e}{why})."


# -- measurements ------------------------------------------------------------------------------------------------


@verdict.register
def _(result: Evaluation) -> str:
    if len(result.methods) < 2:
        return ""
    won: dict[str, list[str]] = {}
    tied = []
    for metric in shown(result):
        if not result.better.get(metric) or np.isnan(result.value(result.best(metric), metric)):
            continue
        ahead = result.leaders(metric)
        if len(ahead) == 1:
            won.setdefault(ahead[0], []).append(metric)
        else:
            tied.append(f"by {metric} {together(ahead)} can't be told apart")
    said = [f"{method} is best by {together(names)}" for method, names in won.items()] + tied
    whole = "; ".join(said)
    return (
        f"{whole[:1].upper() if tied and not won else whole[:1]}{whole[1:]}, on {len(result)} examples." if said else ""
    )


@verdict.register
def _(result: Tuning) -> str:
    found, preset = result.compare(), result.best_preset
    sign = -1 if result.held_out.better.get(result.metric) == "lower" else 1
    span = f"{signed(found.difference)} [{signed(found.low)}, {signed(found.high)}] {result.metric}"
    where = f"on {found.examples} examples that the search has not seen"
    name = result.recipe.name
    if found.low == found.high == 0:
        return f"{name} explains as the best preset, {preset}, does {where}."
    if not found.certain:
        return f"{name} can't be told from the best preset, {preset}: {span} {where}."
    how = "better" if sign * found.difference > 0 else "worse"
    return f"{name} is {how} than the best preset, {preset}: {span} {where}."


@verdict.register
def _(result: TCAV) -> str:
    sure = [la for la in result.layers if la.significant]
    if not sure:
        return f"No layer shows that {result.concept} matters for {result.target}: scores can't be told from chance."
    ways = {la.score >= la.chance_score for la in sure}
    how = "speaks for" if ways == {True} else "speaks against" if ways == {False} else "matters for"
    where = "all" if len(sure) == len(result.layers) else f"{len(sure)} of {len(result.layers)}"
    best = max(sure, key=lambda la: abs(la.score - la.chance_score))
    p = "p < 0.001" if best.p_corrected < 0.001 else f"p = {best.p_corrected:.3f}"
    return (
        f"{result.concept} {how} {result.target} in {where} layers, most in layer {best.label} "
        f"({best.score:.2f}, chance {best.chance_score:.2f}, corrected {p})."
    )


@verdict.register
def _(found: Diagnosis) -> str:
    """What each section found, in a few words."""
    said = []
    for section in found.sections:
        words = ASKED[section.name](section) if section.name in ASKED else ""
        said += [words] if words else []
    whole = "; ".join(said)
    return f"{whole[:1].upper()}{whole[1:]}." if said else ""


def _agrees(section: Section) -> str:
    taus = [
        row["tau"] for row in section.rows if row.get("head") not in ("mean", None) and row["against"] == "gradient"
    ]
    return f"heads rank tokens as gradients do at a mean τ of {number(float(np.mean(taus)))}" if taus else ""


def _moves(section: Section) -> str:
    rows = [row for row in section.rows if row["layer"] == row["head"] == "all" and row["attention"] == "permuted"]
    return f"shuffling all attention changes the class of {percent(rows[0]['flips'])}" if rows else ""


def _escapes(section: Section) -> str:
    rows = [row for row in section.rows if row["layer"] == "all"]
    return f"{percent(rows[0]['found'])} allow quite another attention at the same prediction" if rows else ""


def _guides(section: Section) -> str:
    held = {row["guide"]: row["accuracy"] for row in section.rows}
    told = together([f"{name} {percent(share)}" for name, share in held.items()])
    return f"as a guide for a simple model: {told} right" if held else ""


ASKED = {"agreement": _agrees, "counterfactual": _moves, "adversarial": _escapes, "guided": _guides}
