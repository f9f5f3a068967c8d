"""Few colours: orange stays orange, blue stays blue, and stronger stays stronger."""

from __future__ import annotations

import colorsys
import io
import re

import pytest
from rich.color import Color
from rich.console import Console
from rich.text import Text

from tests.viz import made
from whence.viz.colour import blend
from whence.viz.hues import Hued, nearest


def seen(number: int) -> tuple[float, float]:
    """Hue in degrees and luminance."""
    red, green, blue = (channel / 255 for channel in Color.from_ansi(number).get_truecolor())
    return 360 * colorsys.rgb_to_hls(red, green, blue)[0], 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("sign", "hue"), [(1, 25), (-1, 210)])
def test_every_step_has_the_hue_of_the_palette(sign, hue):
    steps = [nearest(blend(sign * n / 20, 1.0)) for n in range(2, 21)]
    assert all(abs(seen(step)[0] - hue) <= 11 for step in steps), [seen(step) for step in steps]
    lights = [seen(step)[1] for step in steps]
    assert lights == sorted(lights, reverse=True), "stronger is darker"


def test_other_colours_are_left_alone():
    assert nearest((0, 200, 0)) is None
    assert nearest((128, 128, 128)) is None


@pytest.mark.parametrize(("system", "code"), [("256", "48;5;166"), ("standard", "43"), ("truecolor", "48;2;230;97;1")])
def test_a_terminal_gets_what_it_can_show(system, code):
    console = Console(file=io.StringIO(), force_terminal=True, color_system=system, width=80)
    console.print(made.explanation("a gem", [0.0, 1.0]))
    assert code in console.file.getvalue()


def test_text_reads_on_its_new_ground():
    console = Console(file=io.StringIO(), force_terminal=True, color_system="256", width=80)
    console.print(Hued(Text("dull", style="#ffffff on rgb(33,102,172)")))
    assert re.search(r"38;5;231;48;5;25", console.file.getvalue())
