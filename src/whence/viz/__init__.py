"""Drawing results. Sees `whence.results` and nothing else; importing it fills the table of renderers.

    whence.viz.tokens(exp).save("movie.pdf")          # coloured text; also of a comparison
    whence.viz.bars(exp), .waterfall(exp)             # ranked features; how the score is made up
    whence.viz.overlay(exp), .panels(comparison)      # images
    whence.viz.curves(evaluation, "auac"), .intervals(evaluation, "auac")
    whence.viz.tcav_bars(result), .heat_map(maps, layer, head), .head_grid(maps), .conservation_flow(audit)

Each returns a `Figure`: shown in a notebook, saved as .svg (needs nothing), .pdf or .png (extra `viz`).
"""

from whence.viz import chosen, diagnosis_page, html, latex, side_by_side, terminal  # they enter what they draw
from whence.viz.cascade import waterfall
from whence.viz.concept_bars import tcav_bars
from whence.viz.evaluations import curves, intervals
from whence.viz.figure import Figure
from whence.viz.heat_maps import grid as head_grid
from whence.viz.heat_maps import heat_map
from whence.viz.overlays import overlay, panels
from whence.viz.ranking import bars
from whence.viz.relevance_flow import conservation_flow
from whence.viz.token_text import tokens

from whence.viz import report, heads  # isort: skip  # pages take the place of fragments

__all__ = [
    "Figure",
    "bars",
    "chosen",
    "conservation_flow",
    "curves",
    "diagnosis_page",
    "head_grid",
    "heads",
    "heat_map",
    "html",
    "intervals",
    "latex",
    "overlay",
    "panels",
    "report",
    "side_by_side",
    "tcav_bars",
    "terminal",
    "tokens",
    "waterfall",
]
