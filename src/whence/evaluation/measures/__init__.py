"""One file for each metric; importing it registers it."""

from whence.registry import load_all

load_all(__name__, __path__)
