"""Drawing results. Sees `whence.results` and nothing else; importing it fills the table of renderers.

    whence.viz.tokens(exp).save("movie.pdf")          # coloured text; also of a comparison
    whence.viz.bars(exp), .waterfall(exp)             # ranked features; how the score is made up
    whence.viz.overlay(exp), .panels(comparison)      # images
    whence.viz.curves(evaluation, "auac"), .intervals(evaluation, "auac")
    whence.viz.tcav_bars(result), .heat_map(maps, layer, head), .head_grid(maps), .conservation_flow(audit)
    whence.viz.pair_map(pair)                         # what goes with what

Each returns a `Figure`: shown in a notebook, saved as .svg (needs nothing), .pdf or .png (extra `viz`).
"""

from whence.registry import load_all
from whence.viz.cascade import waterfall
from whence.viz.concept_bars import tcav_bars
from whence.viz.evaluations import curves, intervals
from whence.viz.figure import Figure
from whence.viz.heat_maps import grid as head_grid
from whence.viz.heat_maps import heat_map
from whence.viz.overlays import overlay, panels
from whence.viz.pair_map import pair_map
from whence.viz.ranking import bars
from whence.viz.relevance_flow import conservation_flow
from whence.viz.token_text import tokens

__all__ = [
    "Figure",
    "bars",
    "conservation_flow",
    "curves",
    "head_grid",
    "heat_map",
    "intervals",
    "overlay",
    "pair_map",
    "panels",
    "tcav_bars",
    "tokens",
    "waterfall",
]

load_all(__name__, __path__)  # each enters what it draws
