"""Adapters: what a kind of model needs so that methods can treat all alike.

adapter   what every kind offers          targets   the scalar that is explained
text      classifiers and language models examples  encoded inputs and batches
image     image classifiers               tokens    spelling, offsets, words
plain     any nn.Module                   loading   names, folders, objects in memory
"""

from whence.models.adapter import AbstractAdapter
from whence.models.loading import BUNDLED, load

__all__ = ["BUNDLED", "AbstractAdapter", "load"]
