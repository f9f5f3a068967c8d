"""Drawing results. Sees `whence.results` and nothing else; importing it fills the table of renderers."""

from whence.viz import charts, curves, diagnosis, html, maps, side_by_side, tcav, terminal

__all__ = ["charts", "curves", "diagnosis", "html", "maps", "side_by_side", "tcav", "terminal"]
