"""Results to draw, made by hand."""

from __future__ import annotations

import re

import numpy as np

from whence.core.recipe import Recipe
from whence.results import (
    AttentionMaps,
    AttributionGraph,
    Citations,
    CitedSentence,
    Comparison,
    Conservation,
    Edge,
    Explanation,
    Inside,
    Pair,
    Patching,
    Prediction,
    Several,
    Statement,
    Trace,
)
from whence.results.audit_report import Audit, AuditRow
from whence.results.concept_scores import TCAV, LayerScore
from whence.results.diagnosis import Diagnosis, Section
from whence.results.evaluation import Evaluation
from whence.results.measured import Axis, Measured, Measurement
from whence.results.tuning import Effect, Tuning


def explanation(text: str = "a gem", scores: list[float] | None = None, cut: int = 0, **more) -> Explanation:
    """Words and signs as tokens, cut after `cut` letters."""
    tokens, offsets, words = [], [], []
    for n, found in enumerate(re.finditer(r"\w+|[^\w\s]", text)):
        start, stop = found.span()
        for at in range(start, stop, cut or stop - start):
            offsets.append((at, min(at + (cut or stop), stop)))
            tokens.append(text[slice(*offsets[-1])])
            words.append(n)
    values = np.linspace(-1, 1, len(tokens)) if scores is None else np.array(scores)
    given = {"target": "positive", "target_score": 1.5, "method": "lrp", **more}
    return Explanation(
        scores=values, tokens=tuple(tokens), offsets=tuple(offsets), word_ids=tuple(words), text=text, **given
    )


def image(**more) -> Explanation:
    picture = np.zeros((8, 8, 3), np.uint8)
    picture[:4] = 255
    given = {"target": "3", "target_score": 2.0, "method": "lrp", "image": picture, **more}
    return Explanation(scores=np.array([[1.0, 0.0], [0.0, -1.0]]), **given)


def evaluation() -> Evaluation:
    rows = {name: [Measurement((v,), (1.0,), (0.0, v, 1.0)) for v in (0.2, 0.4, level)] for name, level in LEVELS}
    flat = {name: [Measurement((v,)) for v in (0.1, level)] * 1 + [Measurement((level,))] for name, level in LEVELS}
    measured = {(name, "auac"): Measured.of(found) for name, found in rows.items()}
    measured |= {(name, "f1"): Measured.of(found) for name, found in flat.items()}
    return Evaluation(
        methods=tuple(name for name, _ in LEVELS),
        metrics=("auac", "f1"),
        measured=measured,
        better={"auac": "higher", "f1": "higher"},
        axes={"auac": Axis((0.0, 0.5, 1.0), "share of features", "probability")},
        inputs=("one", "two", "three"),
        resamples=50,
    )


LEVELS = (("lrp", 0.9), ("<b>", 0.5))


def tcav() -> TCAV:
    layers = tuple(
        LayerScore(
            f"layer.{n}", n, (score, score), (0.4, 0.6), (0.1, 0.2), (0.8, 0.9), (score - 0.1, score + 0.1), p, p, p
        )
        for n, (score, p) in enumerate(((0.8, 0.0001), (0.5, 0.9), (0.2, 0.02)))
    )
    return TCAV("zebra", "striped", "random", layers, 10, 0.9, 5, "mean", 2)


def tuning() -> Tuning:
    """A recipe that is as good as a preset."""
    trials = ({"recipe": "lrp", "stage": "preset", "value": 0.5}, {"recipe": "<b>", "stage": "search", "value": 0.6})
    effects = (Effect("norm", "detach", {"gradient": 0.069}), Effect("product", "half", {}))
    choices = {"norm": "detach", "product": "half"}
    return Tuning(Recipe("<b>", product="half"), "auac", evaluation(), trials, effects, 2, {"choices": choices})


def maps() -> AttentionMaps:
    one = np.array([[[0.25, 0.75], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]])
    return AttentionMaps(maps=(one, one[::-1].copy()), tokens=("a", "gem"), text="a gem")


def inside() -> Inside:
    """Two layers of two tokens; the second has an MLP that gives three."""
    scores = {
        "layers": np.array([[1.0, 2.0], [0.5, 3.0]]),
        "heads": np.array([[0.5, 1.5], [-2.0, 0.25]]),
        "mlps": (np.array([0.25, 0.5]), np.array([0.25, -0.5, 0.75])),
        "neurons": np.array([[0.1, -0.3, 0.2], [0.0, 0.4, -0.1]]),
        "block.norm": np.array([0.25, 0.5]),
    }
    receipts = (Conservation(3.0, 4.0, {"bias": 1.0}), Conservation(3.5, 4.0, {"beside": 0.25}, complete=False))
    return Inside(
        inputs=explanation("<b> gem", [0.5, 0.5, 0.5, 1.0]),
        scores=scores,
        layers=("block.0", "block.1"),
        receipts=receipts,
        rows={**dict.fromkeys(("layers", "heads", "mlps", "neurons"), (0, 1)), "block.norm": (-1,)},
        columns=(("<b>", "gem"),) * 2,
        by_token={"heads": np.ones((2, 2, 2))},
    )


def audit() -> Audit:
    rows = (
        AuditRow("model.layers.0.mlp", "linear", {"bias": 0.5}),
        AuditRow("classifier", "linear", {"bias": 1.0, "unruled": 9.0}),
        AuditRow("model.layers.1.norm", "layer_norm", {"bias": -0.25, "norm": 0.25}),
        AuditRow("model.embeddings", "add", {"position": 0.5}),
        AuditRow("model.layers.10.mlp", "linear", {}),
    )
    return Audit("toy", "exact", "positive", 2.0, 4.0, rows)


def diagnosis() -> Diagnosis:
    rows = ({"guide": "uniform", "accuracy": 0.5, "spread": 0.1},)
    return Diagnosis("toy", 4, (Section("guided", "Does it help?", rows, "It does not.", points=rows),))


def trace(**changes) -> Trace:
    """A chat of eight tokens, and four that were written: the last of them marks the end."""
    text = "<s>Name a <b> city.</s> Rome is nice"
    tokens = ("<s>", "Name", " a", " <b>", " city", ".", "</s>", " Rome", " is", " nice")
    sides = ("template", *("user",) * 5, "template", *("continuation",) * 3)
    ends = np.cumsum([len(token) for token in tokens]).tolist()
    scores = np.array(
        [
            [0.0, 0.5, 0.0, 0.25, 2.0, 0.0, 0.25, 0.0, 0.0, 0.0],
            [0.5, 0.0, 0.0, -0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 1.5, 0.5, 0.0],
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    totals = scores.sum(1).tolist()
    whole = Explanation(
        scores=scores.sum(0), tokens=tokens, text=text, sides=sides, target=" Rome is nice</s>", method="lrp",
        target_score=sum(totals), offsets=tuple(zip([0, *ends[:-1]], ends, strict=True)),
        word_ids=(None, 0, 1, 2, 3, 3, None, 4, 5, 6), special=tuple(token in ("<s>", "</s>") for token in tokens),
        conservation=Conservation(sum(totals), sum(totals)),
    )  # fmt: skip
    given = {
        "scores": scores,
        "whole": whole,
        "written": (" Rome", " is", " nice", "</s>"),
        "places": ((7, 8), (8, 9), (9, 10), (10, 10)),
        "targets": (" Rome", " is", " nice", "</s>"),
        "target_scores": tuple(totals),
        "receipts": tuple(Conservation(total, total) for total in totals),
    }
    return Trace(**(given | changes))


def citations() -> Citations:
    """Two documents, three statements: one from the first, one from both, one from nowhere."""
    texts = ("It was <b>built</b> in 1889. It is tall.", "Many visit it.")
    places = ((0, (0, 29)), (0, (29, 40)), (1, (0, 14)))

    def statement(text: str, *shares: float, **rest: float) -> Statement:
        found = [
            CitedSentence(document, texts[document][slice(*place)].strip(), place, 2 * share, share)
            for (document, place), share in zip(places, shares, strict=True)
        ]
        both = (shares[0] + shares[1], shares[2])
        others = {"question": 0.0, "instructions": 0.0, "earlier text": 0.0, "memory": 0.0} | rest
        ordered = tuple(sorted(found, key=lambda one: -one.share))
        return Statement(text, ordered, tuple(2 * share for share in both), both, others, 1.0)

    statements = (
        statement("It dates from 1889.", 0.75, 0.0, 0.05, question=0.2),
        statement("It is tall & loved.", 0.0, 0.25, 0.5, question=0.05, instructions=0.2),
        statement("It is green.", 0.0, 0.0, 0.0),
    )
    answer = "It dates from 1889. It is tall & loved.\nIt is green."
    rest = {"question": 0.125, "instructions": 0.1, "earlier text": 0.0, "memory": 0.0}
    return Citations("What of <i>it</i>?", answer, ("guide <b>", "notes"), texts, statements, (0.5, 0.275), rest)


def graph() -> AttributionGraph:
    """Two layers over three tokens."""
    edges = (
        Edge(1, 1, 2, "head 0", 1.5),
        Edge(0, 1, 1, "skip", 1.25),
        Edge(0, 0, 1, "head 3", -0.5),
        Edge(0, 2, 2, "mlp", 0.25),
        Edge(1, 2, 2, "skip", 0.25),
    )
    relevance = np.array([[-0.5, 1.25, 0.25], [0.0, 1.5, 0.25], [0.0, 0.0, 1.75]])
    return AttributionGraph(
        relevance=relevance, edges=edges, tokens=("a", " <script>", " gem"), constants=np.zeros((2, 3)),
        layers=("layer.0", "layer.1"), heads=np.ones((2, 4)), kept=(0.8, 0.9), target="positive", target_score=1.75,
        method="exact", text="a <script> gem", stamp={"model": "made"},
    )  # fmt: skip


def patching() -> Patching:
    """Two layers of three tokens."""
    effects = np.array([[0.5, -2.0, 0.0], [1.0, np.nan, 0.25]])
    return Patching(
        effects, kind="mlps", method="relp", target="Mary <b>", tokens=("a", " <b>", " gem"), clean_score=2.0,
        corrupt_score=-1.0, truth=effects + 0.1,
    )  # fmt: skip


def pair(**more) -> Pair:
    """Three words and two: the second goes with the first of the others."""
    matrix = np.array([[0.1, 0.0], [0.9, -0.2], [0.0, 0.1]])
    left = explanation("the <b>cat", [0.2, 0.6, 0.1, 0.0, 0.1])
    matrix = np.concatenate([matrix, np.zeros((2, 2))])
    right = explanation("kitten sat", [1.1, -0.1])
    sinks = {"inputs × sinks": 0.1, "sinks × inputs": 0.1, "sinks × sinks": -0.1}
    receipt = Conservation(0.9, 1.0, sinks)
    return Pair(matrix, 1.0, "cosine", left, right, receipt, **more)


def seen_pair() -> Pair:
    """A picture of four patches and a text of two words."""
    return Pair(np.array([[0.5, 0.0], [0.0, 0.1], [0.0, -0.2], [0.0, 0.0]]), 0.4, "cosine", image(), explanation())


def every() -> dict[str, object]:
    """One result of every type and kind."""
    receipt = Conservation(1.0, 1.5, {"bias": 0.5})
    sure = Prediction(("positive", "negative"), (1.5, -1.5), (0.95, 0.05))
    text = explanation("a <script> gem", conservation=receipt, prediction=sure)
    bare = Explanation(scores=np.array([0.5, -0.5, 0.0]), target="y", method="gi")
    return {
        "text": text,
        "image": image(),
        "numbers": bare,
        "comparison": Comparison((text, explanation("a <script> gem", method="gi"))),
        "images": Comparison((image(), image(method="gi"))),
        "comparison of numbers": Comparison((bare, bare)),
        "evaluation": evaluation(),
        "tcav": tcav(),
        "maps": maps(),
        "inside": inside(),
        "trace": trace(),
        "citations": citations(),
        "patching": patching(),
        "pair": pair(),
        "pair with a picture": seen_pair(),
        "audit": audit(),
        "diagnosis": diagnosis(),
        "graph": graph(),
        "tuning": tuning(),
        "several": Several([text, explanation("so very dull"), None]),
        "several pictures": Several([image(), image(method="gi")]),
    }
