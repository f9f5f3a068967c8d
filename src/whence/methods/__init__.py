"""Methods: model, input and target to an explanation. One file for each; the registry feeds CLI, docs and tests."""

from whence.methods import attention
from whence.methods.explaining import as_method, explain_examples
from whence.methods.integrated_gradients import IntegratedGradients
from whence.methods.method import AbstractMethod, methods
from whence.methods.occlusion import Occlusion
from whence.methods.propagate import Propagate
from whence.methods.random_scores import Random
from whence.methods.saliency import Saliency
from whence.methods.shap_values import Shap
from whence.methods.smooth_grad import SmoothGrad

__all__ = [
    "AbstractMethod",
    "IntegratedGradients",
    "Occlusion",
    "Propagate",
    "Random",
    "Saliency",
    "Shap",
    "SmoothGrad",
    "as_method",
    "attention",
    "explain_examples",
    "methods",
]
