"""Every value that crosses layers, frozen: explanations, receipts, predictions."""

from whence.results.citations import Citations, CitedSentence, Statement
from whence.results.comparison import Comparison
from whence.results.conservation import Conservation
from whence.results.evaluation import Evaluation
from whence.results.explanation import Explanation
from whence.results.maps import AttentionMaps
from whence.results.pair import Pair
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
    "Pair",
    "Part",
    "Prediction",
    "Statement",
    "Trace",
    "Word",
]
