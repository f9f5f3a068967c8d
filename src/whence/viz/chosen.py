"""The figure that stands for an explanation when it is simply saved: text, image or bars."""

from __future__ import annotations

from dataclasses import replace

from whence.results import Comparison, Explanation
from whence.viz.drawing import stacked
from whence.viz.figure import Figure, figure_of
from whence.viz.overlays import overlay, panels
from whence.viz.ranking import bars
from whence.viz.token_text import tokens

__all__ = ["comparison", "explanation"]


@figure_of(Explanation)
def explanation(exp: Explanation) -> Figure:
    """Coloured text, heat over the image, both, or bars where features have no text."""
    shown = exp.apart()
    if len(shown) > 1:  # the receipt is of the whole: it stands once, at the end
        parts = [replace(one, conservation=None, left_out=0.0) for one in shown[:-1]]
        parts.append(replace(shown[-1], left_out=exp.left_out))
        return Figure(lambda measure: stacked([explanation(one).layout(measure) for one in parts], gap=0))
    return overlay(exp) if exp.is_image else tokens(exp) if exp.tokens else bars(exp)


@figure_of(Comparison)
def comparison(results: Comparison) -> Figure:
    """One line or one panel per method."""
    if results[0].is_image:
        return panels(results)
    if results[0].tokens:
        return tokens(results)
    return Figure(lambda measure: stacked([bars(exp).layout(measure) for exp in results], gap=0))
