"""Points in panels, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["scatter"]

SIDE, GAP = 190, 14


def scatter(panels: Mapping[str, Sequence[Sequence[float]]], x: str, y: str, columns: int = 3) -> str:
    """One square panel per name, the same axes in all, with the line y = x."""
    reach = max(abs(v) for points in panels.values() for point in points for v in point) * 1.05
    lines = -(-len(panels) // columns)
    width, height = columns * (SIDE + GAP) + GAP, lines * (SIDE + GAP + 16) + GAP + 16
    body = [
        _panel(name, points, reach, GAP + n % columns * (SIDE + GAP), GAP + n // columns * (SIDE + GAP + 16))
        for n, (name, points) in enumerate(panels.items())
    ]
    note = f'<text x="{GAP}" y="{height - 8}">across: {x}; up: {y}; both from {-reach:.1f} to {reach:.1f}; line: y = x</text>'
    style = "text{font:12px sans-serif;fill:#333} path{stroke:#999;fill:none} circle{fill:#e66101;fill-opacity:.5}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
            f'<style>{style}</style><rect width="100%" height="100%" fill="white"/>',
            *body,
            note,
            "</svg>\n",
        ]
    )


def _panel(name: str, points: Sequence[Sequence[float]], reach: float, left: int, top: int) -> str:
    def place(value: float) -> float:
        return (value / reach + 1) / 2 * SIDE

    half = SIDE / 2
    dots = "".join(f'<circle cx="{place(a):.1f}" cy="{SIDE - place(b):.1f}" r="2"/>' for a, b in points)
    axes = f"M0 {half}H{SIDE}M{half} 0V{SIDE}M0 {SIDE}L{SIDE} 0M0 0H{SIDE}V{SIDE}H0Z"
    return f'<g transform="translate({left} {top + 16})"><text y="-5">{name}</text><path d="{axes}"/>{dots}</g>'
