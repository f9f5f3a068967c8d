"""Drawing results. Sees `whence.results` and nothing else; importing it fills the table of renderers."""

from whence.viz import html, terminal

__all__ = ["html", "terminal"]
