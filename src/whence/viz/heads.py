"""Attention maps as one HTML file: every head small, one large, and the tokens coloured by where one of them looks."""

from __future__ import annotations

import base64
import html
import zlib

import numpy as np
from rich.text import Text

from whence.errors import InputError
from whence.results.maps import AttentionMaps
from whence.results.showing import draws
from whence.viz.report import SCRIPTS, document
from whence.viz.verdicts import verdict

__all__ = ["bytes_of", "page", "plain", "render"]

HEADS = 8
"""Heads of a layer that are named."""

LARGEST = 60_000_000
"""Characters of packed maps in one file; browsers take more, but mail and reviewers don't."""


@draws(AttentionMaps, "html")
def page(maps: AttentionMaps) -> str:
    """The head view. Weights are kept to 1/255 of each head's largest, layer by layer, and unpacked when looked at."""
    layers, maxima, size = [], [], 0
    for number, layer in enumerate(maps.maps):
        steps, largest = bytes_of(layer)
        packed = base64.b64encode(zlib.compress(steps.tobytes(), 6)).decode()
        size += len(packed)
        if size > LARGEST:
            raise InputError(
                f"attention of {len(maps)} layers with {layer.shape[0]} heads × {layer.shape[1]} × {layer.shape[2]} "
                f"weights makes a file of over {LARGEST // 10**6} MB at layer {number}: choose layers first, "
                f"dataclasses.replace(maps, maps=maps.maps[:{max(1, number)}], streams=maps.streams[:{max(1, number)}])"
                ", or save as .npz"
            )
        layers.append(f'<script type="text/plain" id="whence-layer-{number}">{packed}</script>\n')
        maxima.append(largest)
    title = (maps.text or " ".join(maps.tokens)).strip()
    words = html.escape("Attention heads need JavaScript to be drawn; the numbers are in the .npz file.")
    return document(
        title=title if len(title) <= 120 else title[:119] + "…",
        verdict=verdict(maps),
        body=f'<div id="whence-heads" class="w-board"><noscript><p>{words}</p></noscript></div>',
        data={
            "tokens": list(maps.tokens),
            "decoder_tokens": list(maps.decoder_tokens),
            "streams": list(maps.streams),
            "shapes": [list(layer.shape) for layer in maps.maps],
            "maxima": maxima,
            "ranks": {name: _ranks(held) for name, held in _orders(maps).items()},
            "stamp": {str(k): None if v is None else str(v) for k, v in maps.stamp.items()},
        },
        scripts=(*SCRIPTS, "maps.js", "arcs.js", "looks.js", "heads.js", "attention.js"),
        more="".join(layers),
    )


@draws(AttentionMaps, "txt")
def plain(maps: AttentionMaps) -> str:
    """What stands out, and of each layer the heads by their entropy, the most focused first."""
    lines = [verdict(maps)]
    for number, row in enumerate(maps.entropy):
        order = np.argsort(row, kind="stable")[:HEADS]
        named = ", ".join(f"{head} ({row[head]:.2f})" for head in order.tolist())
        lines.append(f"layer {number}: heads by entropy {named}{', …' if len(row) > HEADS else ''}")
    return "\n".join(lines)


@draws(AttentionMaps, "terminal")
def render(maps: AttentionMaps) -> Text:
    return Text(plain(maps))


def _orders(maps: AttentionMaps) -> dict[str, tuple[np.ndarray, ...]]:
    """What heads can be sorted by."""
    return {**({"relevance": maps.relevance} if maps.relevance else {}), "entropy": maps.entropy}


def _ranks(rows: tuple[np.ndarray, ...]) -> list[list[float]]:
    return [[float(f"{value:.6g}") if np.isfinite(value) else 0.0 for value in row] for row in rows]


def bytes_of(layer: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Weights (head, query, key) in steps of 1/255 of each head's largest, and those largest."""
    finite = np.nan_to_num(np.asarray(layer, dtype=np.float32), nan=0.0, posinf=0.0, neginf=0.0).clip(min=0)
    largest = finite.max(axis=(1, 2), initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)[:, None, None]
    return np.rint(finite / scale * 255).astype(np.uint8), [float(f"{m:.7g}") for m in largest]
