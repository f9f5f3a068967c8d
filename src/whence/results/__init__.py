"""Every value that crosses layers, frozen: explanations, receipts, predictions."""

from whence.results.citations import Citations, CitedSentence, Statement
from whence.results.comparison import Comparison
from whence.results.conservation import Conservation
from whence.results.evaluation import Evaluation
from whence.results.explanation import Explanation
from whence.results.maps import AttentionMaps
from whence.results.patched import Patching
from whence.results.prediction import Corners, Part, Prediction, Word
from whence.results.trace import Trace

__all__ = [
    "AttentionMaps",
    "Citations",
    "CitedSentence",
    "Comparison",
    "Conservation",
    "Corners",
    "Evaluation",
    "Explanation",
    "Part",
    "Patching",
    "Prediction",
    "Statement",
    "Trace",
    "Word",
]
