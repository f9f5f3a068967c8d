"""Judging explanations: which of them is right?

cases      labelled inputs, encoded                       metric        what a metric is
explainers anything that explains, other libraries' too   measures/     one file for each metric
running    all perturbed inputs in full batches           measurements  resuming after an interruption
curves     features taken away in order of relevance      search        recipes, for `tune`

A metric says which perturbed inputs it wants to see (`inputs`) and what it makes of the model's answers (`judge`). So
the inputs of all metrics, methods and examples go through the model together, the same one once only. Nothing here
knows a method: anything that returns an `Explanation` can be judged.
"""

from whence.evaluation import measures
from whence.evaluation.cases import Case
from whence.evaluation.explainers import Explainer, from_captum, from_function, from_quantus
from whence.evaluation.metric import AbstractMetric, Task, metrics

__all__ = [
    "AbstractMetric",
    "Case",
    "Explainer",
    "Task",
    "from_captum",
    "from_function",
    "from_quantus",
    "measures",
    "metrics",
]
