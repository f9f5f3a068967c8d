"""Methods: model, input and target to an explanation. One file for each; the registry feeds CLI, docs and tests."""

from whence.methods import attention
from whence.methods.base import AbstractMethod, methods
from whence.methods.propagation import Propagate

__all__ = ["AbstractMethod", "Propagate", "attention", "methods"]
