"""The inside of a prediction as heat maps: layers × tokens, layers × heads, and the strongest neurons as bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whence.errors import InputError
from whence.results.inside import Inside
from whence.viz.axes import MARGIN, Frame, alike, noted
from whence.viz.colour import heat, scale_of, shade
from whence.viz.drawing import FAINT, HAIR, INK, Drawing, Raster, Rect, Shape, Text, stacked
from whence.viz.figure import Figure, figure_of
from whence.viz.metrics import Measure, clipped
from whence.viz.passages import named
from whence.viz.ranking import BAR, BLUE, ORANGE, STEP, beside, headed
from whence.viz.token_text import legend

__all__ = [
    "MAPS",
    "TIPS",
    "columns_of",
    "figures",
    "grid_of",
    "inside_figure",
    "layer_map",
    "name_of",
    "place_map",
    "row_name",
    "strongest",
    "unit_of",
]

MAPS = ("layers", "attentions", "mlps", "heads", "experts")
"""Places that are drawn as maps; of neurons, and of modules, the strongest are drawn as bars."""
UNITS = {"heads": "head", "neurons": "neuron", "experts": "expert"}
LARGEST = 900.0
"""Pixels of the longer side of a map."""
READABLE = 9.0
"""Pixels that a row or column needs to carry its name."""
TIPS = 6000
"""Cells up to which each says its score when it is pointed at; more of them are one picture."""
NARROW = 600.0
RANKED = 3
"""Heads whose rank is written on the map."""


def unit_of(place: str) -> str:
    """What one column of a place is."""
    return UNITS.get(place, "token")


@figure_of(Inside)
def inside_figure(inside: Inside) -> Figure:
    """Everything that was asked for: two figures to a row where they are narrow, else one under the other."""
    made = figures(inside)

    def layout(measure: Measure, room: float = 0.0) -> Drawing:
        drawn = [one.at(measure, room) if room else one.layout(measure) for one in made.values()]
        widest = max(one.width for one in drawn)
        return stacked(drawn, columns=2 if 2 * widest <= (room or 2 * NARROW) else 1, gap=0)

    return Figure(layout, layout)


def figures(inside: Inside) -> dict[str, Figure]:
    """A figure for each place."""
    return {place: place_map(inside, place) if place in MAPS else strongest(inside, place) for place in inside.places}


def layer_map(inside: Inside) -> Figure:
    """Where relevance lies behind each layer: a row per layer, a column per token."""
    return place_map(inside, "layers")


def place_map(inside: Inside, place: str = "heads") -> Figure:
    """A row per layer, a column per token, head or expert; orange for the target and blue against it."""
    rows = [np.asarray(row).reshape(-1) for row in inside[place]]
    if not rows or not max(len(row) for row in rows):
        raise InputError(f"there is nothing to draw: no {place}")
    return Figure(lambda measure: _map(inside, place, rows, measure))


def strongest(inside: Inside, place: str = "neurons", *, top: int = 15, width: float = 560.0) -> Figure:
    """The `top` strongest of a place as bars."""
    return Figure(
        lambda measure: _bars(inside, place, top, width, measure),
        lambda measure, room: _bars(inside, place, top, room, measure),
    )


def grid_of(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of one length: what a shorter one lacks is not known."""
    grid = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for n, row in enumerate(rows):
        grid[n, : len(row)] = row
    return grid


def _map(inside: Inside, place: str, rows: Sequence[np.ndarray], measure: Measure) -> Drawing:
    grid = grid_of(rows)
    columns = grid.shape[1]
    cell = min(22.0, max(2.0, LARGEST / max(grid.shape)))
    size, unit = min(11.0, cell * 0.85), unit_of(place)
    names = columns_of(inside, place, rows, columns) if cell >= READABLE else []
    across = [clipped(name, 90, measure, size) for name in names]
    turned = any(len(name) > 2 for name in across)
    down = [row_name(inside, place, n) for n in range(len(rows))] if cell >= READABLE else []
    left = MARGIN + max((measure(name, size, False) for name in down), default=14.0) + 8
    tall = max((measure(name, size, False) for name in across), default=14.0) if turned or not across else size
    above = MARGIN + 48 + tall + 8
    wide, high, scale = cell * columns, cell * len(rows), scale_of(grid)
    strip, strip_width = legend(scale, measure)
    width = max(left + wide, left + strip_width, 430.0) + MARGIN
    title = f"{place.capitalize()}: layers go down, {unit}s to the right"
    shapes: list[Shape] = [
        *headed(inside.inputs, measure, width - 2 * MARGIN),
        Text(MARGIN, MARGIN + 32, clipped(title, width - 2 * MARGIN, measure, 11), 11, FAINT),
        Rect(left - 1, above - 1, wide + 2, high + 2, HAIR),
        *_cells(inside, place, grid, cell, left, above, scale),
    ]
    if place in ("heads", "experts") and cell >= 14:
        shapes += _ranks(inside, place, cell, left, above, scale)
    for n, name in enumerate(down):
        shapes.append(Text(left - 6, above + cell * (n + 0.5) + size * 0.35, name, size, anchor="end"))
    for n, name in enumerate(across):
        x = left + cell * (n + 0.5)
        shapes.append(
            Text(x + size * 0.35, above - 6, name, size, rotate=-90)
            if turned
            else Text(x, above - 6, name, size, anchor="middle")
        )
    if not across:
        shapes.append(Text(left, above - 6, f"{columns} {unit}s →", 10, FAINT))
    if not down:
        shapes.append(Text(left - 6, above + high, f"← {len(rows)} layers", 10, FAINT, rotate=-90))
    shapes += [shape.moved(left, above + high + 14) for shape in strip]
    return Drawing(width, above + high + 34 + MARGIN, tuple(shapes), f"{title}; {inside.target} by {inside.method}")


def columns_of(inside: Inside, place: str, rows: Sequence[np.ndarray], columns: int) -> list[str]:
    """Names of the columns: those of all rows, or numbers."""
    if unit_of(place) != "token":
        return list(map(str, range(columns)))
    names = {inside.columns_of(place, n) for n in range(len(rows))}
    (only,) = names if len(names) == 1 else ((),)
    return [named(name) for name in only] if only else list(map(str, range(columns)))


def row_name(inside: Inside, place: str, row: int) -> str:
    """The number that the row is asked for by, and its layer where that has another."""
    layers = inside.rows.get(place, ())
    layer = layers[row] if row < len(layers) else row
    return str(row) if layer == row else f"{row} (layer {layer})"


def name_of(inside: Inside, place: str, row: int, column: int) -> str:
    names = inside.columns_of(place, row) if unit_of(place) == "token" else ()
    return f"layer {row}, {named(names[column]) if names else f'{unit_of(place)} {column}'}"


def _cells(
    inside: Inside, place: str, grid: np.ndarray, cell: float, left: float, above: float, scale: float
) -> list[Shape]:
    if grid.size > TIPS:
        rows, columns = grid.shape
        tip = f"{rows} layers × {columns} {unit_of(place)}s"
        return [Raster(left, above, cell * columns, cell * rows, heat(np.nan_to_num(grid), scale), title=tip)]
    return [
        Rect(
            left + cell * c, above + cell * r, cell, cell, shade(float(grid[r, c]), scale),
            title=f"{name_of(inside, place, r, c)}: {grid[r, c]:+.4g}",
        )
        for r, c in np.argwhere(np.isfinite(grid)).tolist()
    ]  # fmt: skip


def _ranks(inside: Inside, place: str, cell: float, left: float, above: float, scale: float) -> list[Shape]:
    """1, 2, 3 on the strongest."""
    return [
        Text(
            left + cell * (c + 0.5), above + cell * (r + 0.5) + 3.5, str(n), 10,
            "#ffffff" if abs(score) > 0.6 * scale and score < 0 else INK, "middle", bold=True,
        )
        for n, (r, c, score) in enumerate(inside.top(place, RANKED), 1)
    ]  # fmt: skip


def _bars(inside: Inside, place: str, top: int, width: float, measure: Measure) -> Drawing:
    entries = inside.top(place, top)
    if not entries:
        raise InputError(f"there is nothing to draw: no {place}")
    labels = [clipped(_entry_name(inside, place, entry), width * 0.4, measure, 12) for entry in entries]
    values = np.array([entry[-1] for entry in entries])
    column = max(measure(label, 12, False) for label in labels)
    spelled = alike(values, plus=True)
    room = max(measure(text, 10, False) for text in spelled) + 8
    begin = MARGIN + column + 10 + (room if values.min() < 0 else 0)
    end = width - MARGIN - (room if values.max() > 0 else 0)
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    frame = Frame(begin, MARGIN + 50, end - begin, STEP * len(entries), low, high if high > low else 1.0)
    title = f"The {len(entries)} strongest {place if place in (*MAPS, *UNITS) else f'in {place}'}"
    shapes: list[Shape] = [
        *headed(inside.inputs, measure, width - 2 * MARGIN),
        Text(MARGIN, MARGIN + 32, clipped(title, width - 2 * MARGIN, measure, 11), 11, FAINT),
        *frame.grid_across(),
    ]
    zero = frame.x(0)
    for n, (label, score) in enumerate(zip(labels, values.tolist(), strict=True)):
        y, tip = frame.top + n * STEP + (STEP - BAR) / 2, frame.x(score)
        fill = ORANGE if score >= 0 else BLUE
        shapes.append(Rect(min(zero, tip), y, max(abs(tip - zero), 0.5), BAR, fill, title=f"{label} {score:+.4g}"))
        shapes.append(Text(MARGIN + column, y + BAR - 3.5, label, 12, anchor="end"))
        away, anchor = beside(tip, score)
        shapes += noted(away, y + BAR - 4, spelled[n], measure, anchor)
    return Drawing(width, frame.bottom + 20 + MARGIN, tuple(shapes), f"{title} for {inside.target} by {inside.method}")


def _entry_name(inside: Inside, place: str, entry: tuple[object, ...]) -> str:
    if place in (*MAPS, "neurons"):
        row, column = entry[0], entry[1]
        return f"layer {row}, {unit_of(place)} {column}" if place in UNITS else f"layer {row}, {named(str(column))}"
    at = entry[:-1]
    names = next((own for own in inside.columns if len(at) == 1 and len(own) == inside[place].__len__()), ())
    return named(names[at[0]]) if names and isinstance(at[0], int) else str(list(at))
