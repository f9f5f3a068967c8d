"""Every value that crosses layers, frozen: explanations, receipts, predictions."""

from whence.results.conservation import Conservation
from whence.results.explanation import Explanation, Prediction, Word

__all__ = ["Conservation", "Explanation", "Prediction", "Word"]
