"""Every value that crosses layers, frozen: explanations, receipts, predictions."""

from whence.results.comparison import Comparison
from whence.results.conservation import Conservation
from whence.results.evaluation import Evaluation
from whence.results.explanation import Explanation, Prediction, Word
from whence.results.maps import AttentionMaps

__all__ = ["AttentionMaps", "Comparison", "Conservation", "Evaluation", "Explanation", "Prediction", "Word"]
