"""Drawing results. Sees `whence.results` and nothing else; importing it fills the table of renderers."""

from whence.viz import html, side_by_side, terminal

__all__ = ["html", "side_by_side", "terminal"]
