"""Methods that look at attention: maps alone, maps and their gradients, maps and their relevance. One file each."""

from whence.registry import load_all

load_all(__name__, __path__)
