"""Every value that crosses layers, frozen: explanations, receipts, predictions."""

from whence.results.attribution_graph import AttributionGraph, Edge
from whence.results.citations import Citations, CitedSentence, Statement
from whence.results.comparison import Comparison
from whence.results.conservation import Conservation
from whence.results.evaluation import Evaluation
from whence.results.explanation import Explanation
from whence.results.inside import Inside
from whence.results.maps import AttentionMaps
from whence.results.pair import Pair
from whence.results.patched import Patching
from whence.results.prediction import Corners, Part, Prediction, Word
from whence.results.replaced import Replacement
from whence.results.several import Several
from whence.results.trace import Trace

__all__ = [
    "AttentionMaps",
    "AttributionGraph",
    "Citations",
    "CitedSentence",
    "Comparison",
    "Conservation",
    "Corners",
    "Edge",
    "Evaluation",
    "Explanation",
    "Inside",
    "Pair",
    "Part",
    "Patching",
    "Prediction",
    "Replacement",
    "Several",
    "Statement",
    "Trace",
    "Word",
]
