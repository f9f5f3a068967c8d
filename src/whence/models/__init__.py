"""Adapters: what a kind of model needs so that methods can treat all alike.

adapter   what every kind offers                  example   one encoded input and its features
text      classifiers, taggers, answers           batching  which examples stand in one batch
writing   language models                         padding   how they may, measured
image     what reads a picture; classifiers       targets   the scalar that is explained
seeing    boxes, regions, depth, features         pointing  targets that lie somewhere in a picture
films     video classifiers
together  pictures with text                      attending attention in kernels of its own
plain     any nn.Module                           scoring   many perturbed inputs
loading   names, folders, objects in memory       tokens    spelling, offsets, words
asking    the scores of a batch's targets         playing   small batches from recorded passes
inspecting  what a module says of itself
"""

from whence.core.batch import Source
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example, Features
from whence.models.from_files import BUNDLED
from whence.models.loading import load

__all__ = ["BUNDLED", "AbstractAdapter", "Example", "Features", "Source", "load"]
