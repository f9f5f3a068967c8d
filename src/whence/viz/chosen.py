"""The figure that stands for an explanation when it is simply saved: text, image or bars."""

from __future__ import annotations

from dataclasses import replace

from whence.results import Comparison, Explanation
from whence.viz.figure import Figure, figure_of, pile
from whence.viz.overlays import overlay, panels
from whence.viz.ranking import bars
from whence.viz.terminal import shown
from whence.viz.token_text import tokens

__all__ = ["comparison", "explanation"]


@figure_of(Explanation)
def explanation(exp: Explanation) -> Figure:
    """Coloured text, heat over the image, both, or bars where features have no text."""
    parts = shown(exp)
    if len(parts) > 1:  # the receipt stands once, at the end
        parts[-1] = replace(parts[-1], conservation=exp.conservation, left_out=exp.left_out)
        return pile([explanation(one) for one in parts])
    (one,) = parts
    return overlay(one) if one.is_image else tokens(one) if one.tokens else bars(one)


@figure_of(Comparison)
def comparison(results: Comparison) -> Figure:
    """One line or one panel per method."""
    results = Comparison(tuple(exp.laid_out() for exp in results))
    if results[0].is_image:
        return panels(results)
    if len(results[0].apart()) > 1:
        return pile([explanation(exp) for exp in results])
    if results[0].tokens:
        return tokens(results)
    return pile([bars(exp) for exp in results])
