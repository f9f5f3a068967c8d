"""Drawing results. Sees `whence.results` and nothing else; importing it fills the table of renderers."""

from whence.viz import html, maps, side_by_side, terminal

__all__ = ["html", "maps", "side_by_side", "terminal"]
