"""Methods: model, input and target to an explanation. One file for each; the registry feeds CLI, docs and tests."""

from whence.methods.explaining import as_method, explain_examples
from whence.methods.method import AbstractMethod, methods
from whence.registry import load_all

__all__ = ["AbstractMethod", "as_method", "explain_examples", "methods"]

load_all(__name__, __path__)
