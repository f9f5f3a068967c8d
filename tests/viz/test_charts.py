"""Bars, waterfalls, curves, heat maps, overlays, flow: numbers at their places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.viz import made
from whence import viz
from whence.errors import InputError, UnknownNameError
from whence.results import Comparison, Conservation
from whence.viz.axes import Frame, ticks
from whence.viz.cascade import steps
from whence.viz.colour import SERIES
from whence.viz.drawing import Polygon, Polyline, Raster, Rect, Text
from whence.viz.heat_maps import _small
from whence.viz.relevance_flow import levels


def shapes(figure, kind):
    return [s for s in figure.drawing.shapes if isinstance(s, kind)]


def texts(figure):
    return [s.text for s in shapes(figure, Text)]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-3, 7, [-2, 0, 2, 4, 6]),
        (0, 0.01, [0, 0.002, 0.004, 0.006, 0.008, 0.01]),
        (2, 2, [2]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


def test_a_frame_places_values_and_clips():
    frame = Frame(10, 20, 100, 50, 0, 2, -1, 1)
    assert (frame.x(0), frame.x(1), frame.x(9)) == (10, 60, 110)
    assert (frame.y(-1), frame.y(0), frame.y(1)) == (70, 45, 20)


def test_bars_are_ranked_by_size_and_proportional():
    figure = viz.bars(made.explanation("a dull gem", [0.5, -2.0, 1.0]))
    bars = [s for s in shapes(figure, Rect) if s.title]
    assert [s.title for s in bars] == ["dull -2", "gem +1", "a +0.5"]
    assert [s.fill for s in bars] == ["#2166ac", "#e66101", "#e66101"]
    assert bars[0].width == pytest.approx(2 * bars[1].width) == pytest.approx(4 * bars[2].width)
    assert bars[0].x + bars[0].width == pytest.approx(bars[1].x), "all begin at zero"


def test_bars_say_what_they_leave_out_and_number_what_occurs_twice():
    figure = viz.bars(made.explanation("so so good", [0.5, 0.25, 1.0]), top=2)
    assert "so (1)" in texts(figure)
    assert "1 others together +0.25" in texts(figure)


def test_a_waterfall_adds_up_to_the_score():
    receipt = Conservation(1.0, 1.5, {"bias": 0.5, "unruled": 9.0})
    exp = made.explanation("a dull gem", [0.25, -0.25, 1.0], conservation=receipt)
    found = steps(exp, top=1)
    assert [(s.name, s.amount, s.sink) for s in found] == [
        ("bias", 0.5, True),
        ("2 other features", 0.0, False),
        ("gem", 1.0, False),
    ]
    assert sum(s.amount for s in found) == exp.target_score


def test_a_waterfall_without_a_receipt_names_the_rest():
    found = steps(made.explanation("gem", [1.0]))
    assert [(s.name, s.amount) for s in found] == [("not from the input", 0.5), ("gem", 1.0)]


def test_bars_of_a_waterfall_begin_where_the_last_one_ended():
    arrows = shapes(viz.waterfall(made.explanation("a dull gem", [0.5, -2.0, 1.0])), Polygon)[::-1]
    ends = [(min if s.title.split()[-1].startswith("-") else max)(x for x, _ in s.points) for s in arrows]
    starts = [s.points[0][0] for s in arrows]
    assert starts[1:] == pytest.approx(ends[:-1])


def test_an_overlay_shows_the_image_beside_the_heat():
    original, warm = [s.pixels for s in shapes(viz.overlay(made.image()), Raster)][:2]
    assert np.array_equal(original, made.image().image)
    assert warm[0, 0].tolist() == [230, 97, 1], "full heat over white is the colour of the legend"
    assert warm[0, -1].tolist() == [255, 255, 255], "no heat over white is white"
    below = warm[-1, 0]
    assert below[0] == below[1] == below[2] < 255, "no heat over black is grey"
    # (33, 102, 172) times 1 - 0.45 · 0.2: of a black pixel little shows through full heat
    assert warm[-1, -1].tolist() == [30, 93, 157]


def test_patch_edges_are_sharp_or_smooth():
    sharp, smooth = (shapes(viz.overlay(made.image(), smooth=s), Raster)[1].pixels for s in (False, True))
    assert len({tuple(p) for p in sharp[0]}) == 2
    assert len({tuple(p) for p in smooth[0]}) > 4


def test_panels_show_every_method_after_the_original_on_one_scale():
    weak = made.image(method="gi")
    figure = viz.panels(Comparison((made.image(), weak)), scale="shared")
    assert len(shapes(figure, Rect)) == 3
    assert [t for t in texts(figure) if t in ("original", "lrp", "gi")] == ["original", "lrp", "gi"]
    with pytest.raises(InputError, match=r"viz\.tokens"):
        viz.overlay(made.explanation()).svg  # noqa: B018


def test_several_classes_are_named_by_class():
    figure = viz.panels([made.image(), made.image(target="8")], original=False)
    assert [t for t in texts(figure) if t in ("3", "8")] == ["3", "8"]


def test_curves_have_bands_and_one_colour_per_method():
    figure = viz.curves(made.evaluation(), "auac")
    lines, bands = shapes(figure, Polyline), shapes(figure, Polygon)
    assert {s.title for s in lines} == {s.title for s in bands} == {"lrp", "<b>"}
    assert {s.title: s.stroke for s in lines} == {s.title: s.fill for s in bands}
    first = next(s for s in lines if s.title == "lrp")
    assert first.points[0][0] < first.points[1][0] < first.points[2][0]
    assert first.points[0][1] > first.points[2][1], "higher values stand higher"


def test_a_method_keeps_its_colour_where_its_rank_changes():
    one = made.evaluation()
    worse = replace(one, better={"auac": "lower"})
    for result in (one, worse):
        assert {s.title: s.stroke for s in shapes(viz.curves(result, "auac"), Polyline)}["lrp"] == SERIES[0]


def test_curves_of_a_metric_without_any_say_what_to_use():
    with pytest.raises(InputError, match=r"viz\.intervals"):
        viz.curves(made.evaluation(), "f1")
    with pytest.raises(UnknownNameError, match="auac"):
        viz.curves(made.evaluation(), "acu")
    assert "lrp" in texts(viz.intervals(made.evaluation(), "f1"))


def test_tcav_bars_have_stars_and_colours_of_significance():
    figure = viz.tcav_bars(made.tcav())
    bars = [s for s in shapes(figure, Rect) if s.title]
    assert [s.fill for s in bars] == ["#e66101", "#9aa0a6", "#2166ac"]
    assert [t for t in texts(figure) if t in ("***", "**", "*", "n.s.")] == ["***", "n.s.", "*"]
    assert bars[0].height == pytest.approx(4 * bars[2].height)


def test_a_heat_map_is_white_at_zero_and_named_on_both_sides():
    figure = viz.heat_map(made.maps(), 0, 0)
    pixels = shapes(figure, Raster)[0].pixels
    assert pixels[1, 1].tolist() == [255, 255, 255]
    assert pixels[1, 0].tolist() == [230, 97, 1], "attention has the colour that it has on pages"
    assert texts(figure).count("gem") == 2
    assert "layer 0, head 0" in texts(figure)


def test_several_heads_and_the_grid():
    assert [t for t in texts(viz.heat_map(made.maps(), [0, 1], 1)) if "head" in t] == [
        "layer 0, head 1",
        "layer 1, head 1",
    ]
    assert len(shapes(viz.head_grid(made.maps()), Raster)) == 4
    assert "layer 1, mean of heads" in texts(viz.heat_map(made.maps(), -1))
    with pytest.raises(InputError, match="no layer 7"):
        viz.heat_map(made.maps(), 7, 0)
    with pytest.raises(InputError, match="no head 5"):
        viz.heat_map(made.maps(), 0, 5)


def test_small_maps_keep_the_largest_of_each_block():
    large = np.zeros((300, 300))
    large[150, 7] = 1
    small = _small(large, 128)
    assert small.shape == (100, 100)
    assert small[50, 2] == small.sum() == 1


def test_the_flow_by_hand():
    found = levels(made.audit())
    assert [(level.name, level.carried, level.below) for level in found] == [
        ("head", 4.0, 3.0),
        ("layer 10", 3.0, 3.0),
        ("layer 1", 3.0, 3.0),
        ("layer 0", 3.0, 2.5),
        ("embeddings", 2.5, 2.0),
    ]
    assert found[-1].below == made.audit().inputs


def test_the_flow_is_drawn_as_wide_as_what_is_carried():
    (band,) = shapes(viz.conservation_flow(made.audit()), Polygon)
    zero = band.points[0][0]
    edge = [x - zero for x, _ in band.points[1:-1]]
    assert edge[0] == pytest.approx(2 * edge[-1]), "4 at the target, 2 at the inputs"
