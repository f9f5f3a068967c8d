"""Every value that crosses layers, frozen: explanations, receipts, predictions."""

from whence.results.comparison import Comparison
from whence.results.conservation import Conservation
from whence.results.evaluation import Evaluation
from whence.results.explanation import Explanation
from whence.results.maps import AttentionMaps
from whence.results.prediction import Part, Prediction, Word

__all__ = ["AttentionMaps", "Comparison", "Conservation", "Evaluation", "Explanation", "Part", "Prediction", "Word"]
