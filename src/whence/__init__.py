"""whence: from what place did this prediction come?

>>> import whence
>>> exp = whence.explain("sentiment", "a gorgeous, witty, seductive movie")
>>> exp.top(1)[0][0]
'gorgeous'
"""

import warnings
from importlib import import_module
from typing import Any

from whence.core.recipe import Epsilon, Gamma, Plain, Recipe, ZPlus, recipes
from whence.errors import WhenceError
from whence.methods import methods
from whence.models import load
from whence.models.embedding import similar_to
from whence.models.pointing import box, region
from whence.models.targets import answer, contrast, token
from whence.models.word_targets import entropy, span, written
from whence.results import (
    AttributionGraph,
    Citations,
    Comparison,
    Conservation,
    Explanation,
    Inside,
    Pair,
    Patching,
    Several,
    Trace,
)
from whence.runner import explainer, run, show, summary, verify
from whence.stamp import __version__, untested
from whence.verbs.attention import attention
from whence.verbs.audit import audit
from whence.verbs.cite import cite
from whence.verbs.compare import classes, compare
from whence.verbs.diagnose import diagnose
from whence.verbs.evaluate import evaluate
from whence.verbs.explain import explain
from whence.verbs.graph import graph
from whence.verbs.patch import patch
from whence.verbs.replace import replace
from whence.verbs.similarity import retrieve, similarity
from whence.verbs.tcav import tcav
from whence.verbs.tune import tune

if said := untested():
    warnings.warn(said, stacklevel=2)


def __getattr__(name: str) -> Any:
    """`whence.viz`, when it is first asked for."""
    if name == "viz":
        return import_module("whence.viz")
    raise AttributeError(f"module 'whence' has no attribute {name!r}")


__all__ = [
    "AttributionGraph",
    "Citations",
    "Comparison",
    "Conservation",
    "Epsilon",
    "Explanation",
    "Gamma",
    "Inside",
    "Pair",
    "Patching",
    "Plain",
    "Recipe",
    "Several",
    "Trace",
    "WhenceError",
    "ZPlus",
    "__version__",
    "answer",
    "attention",
    "audit",
    "box",
    "cite",
    "classes",
    "compare",
    "contrast",
    "diagnose",
    "entropy",
    "evaluate",
    "explain",
    "explainer",
    "graph",
    "load",
    "methods",
    "patch",
    "recipes",
    "region",
    "replace",
    "retrieve",
    "run",
    "show",
    "similar_to",
    "similarity",
    "span",
    "summary",
    "tcav",
    "token",
    "tune",
    "verify",
    "written",
]
