"""Attention maps as heat maps: one small picture per head, a row per layer, in one file."""

from __future__ import annotations

import base64
import html
import io

import numpy as np

from whence.results.drawing import draws
from whence.results.maps import AttentionMaps

__all__ = ["page"]

DARK = np.array([8, 48, 107], dtype=np.float64)


@draws(AttentionMaps, "html", "notebook")
def page(maps: AttentionMaps) -> str:
    """A table of pictures; hovering one names its layer, head and strongest pair."""
    rows = []
    for layer, heads in enumerate(maps.maps):
        stream = maps.streams[layer] if maps.streams else "self"
        cells = "".join(f"<td>{_picture(m, _title(maps, layer, h, m))}</td>" for h, m in enumerate(heads))
        rows.append(f"<tr><th>{layer}{'' if stream == 'self' else ' ' + stream}</th>{cells}</tr>")
    heading = html.escape(maps.text or " ".join(maps.tokens))[:300]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>attention</title>'
        "<style>body{font-family:system-ui;margin:1rem}td{padding:2px}"
        "img{image-rendering:pixelated;border:1px solid #ccc}"
        f"th{{text-align:right;font-weight:normal}}</style><p>{heading}</p><p>rows: layers, columns: heads; "
        f"in each picture queries go down and keys to the right</p><table>{''.join(rows)}</table></html>"
    )


def _title(maps: AttentionMaps, layer: int, head: int, matrix: np.ndarray) -> str:
    query, key = maps.axes(layer)
    i, j = np.unravel_index(matrix.argmax(), matrix.shape)
    pair = f"{query[i]} → {key[j]}" if query and key else f"{i} → {j}"
    return f"layer {layer}, head {head}; strongest: {pair} {matrix[i, j]:.2f}"


def _picture(matrix: np.ndarray, title: str) -> str:
    from PIL import Image

    strength = (matrix / max(float(matrix.max()), 1e-12))[..., None]
    pixels = (255 + (DARK - 255) * strength).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    shown = html.escape(title, quote=True)
    return f'<img alt="{shown}" title="{shown}" width="96" height="96" src="data:image/png;base64,{data}">'
