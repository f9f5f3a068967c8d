"""Several pets under several methods, as one picture."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

import whence
from whence.viz.colour import blend, scale_of

__all__ = ["SHOWN", "draw"]

SHOWN = (
    "exact",
    "attn_lrp",
    "attn_lrp γ=0.25",
    "integrated_gradients",
    "gae",
    "transformer_attribution",
    "rollout",
    "gi",
)
ZOOM, GAP, TOP = 2, 6, 34


def draw(
    models: dict[str, Any], pictures: dict[str, Tensor], species: Tensor, path: Path, methods: list[Any], each: int = 3
) -> None:
    """One row per pet, as many for each model; the picture first, then one panel per method, each with its own scale."""
    named = dict(m if isinstance(m, tuple) else (m, m) for m in methods)
    rows = []
    for name, model in models.items():
        for picture in _pick(model, pictures[name], species, each):
            panels = [_image(picture)]
            panels += [_heat(whence.explain(model, picture, named[m]).scores, panels[0]) for m in SHOWN]
            rows.append(panels)
    side = rows[0][0].shape[0]
    sheet = Image.new("RGB", ((side + GAP) * len(rows[0]) + GAP, TOP + (side + GAP) * len(rows)), "white")
    label(sheet, side)
    for line, panels in enumerate(rows):
        for column, panel in enumerate(panels):
            sheet.paste(Image.fromarray(panel), (GAP + column * (side + GAP), TOP + line * (side + GAP)))
    sheet.quantize(256).save(path, optimize=True)


def label(sheet: Image.Image, side: int) -> None:
    """Names above the columns; PIL's own font has no Greek letters."""
    pen = ImageDraw.Draw(sheet)
    for column, name in enumerate(("picture", *SHOWN)):
        text = "\n".join(wrap(name.replace("_", "_ ").replace("γ", "gamma"), 14)).replace("_ ", "_")
        centre = (GAP + column * (side + GAP) + side // 2, TOP // 2)
        pen.multiline_text(centre, text, "black", ImageFont.load_default(13), "mm", align="center", spacing=1)


def _pick(model: Any, pixels: Tensor, species: Tensor, count: int) -> list[Tensor]:
    """The first pets that the model gets right, cats and dogs in turn: no picture was chosen by its explanation."""
    with torch.inference_mode():
        right = model.module(pixel_values=pixels[:64]).logits.argmax(-1) == species[:64]
    kinds = [[int(i) for i in torch.nonzero(right & (species[:64] == kind)).flatten()] for kind in (0, 1)]
    order = [i for pair in zip(*kinds, strict=False) for i in pair] or list(range(count))
    return [pixels[i].cpu() for i in order[:count]]


def _image(picture: Tensor) -> np.ndarray:
    array = ((picture.permute(1, 2, 0).numpy() + 1) * 127.5).round().clip(0, 255).astype(np.uint8)
    return array.repeat(ZOOM, 0).repeat(ZOOM, 1)


def _heat(scores: np.ndarray, image: np.ndarray) -> np.ndarray:
    """The scores' colours, shaded by a pale grey copy of the picture."""
    scale, side = scale_of(scores), image.shape[0] // scores.shape[0]
    colours = np.array([[blend(float(s), scale) for s in line] for line in scores], dtype=float)
    shade = 0.55 + 0.45 * image.mean(-1, keepdims=True) / 255
    return (colours.repeat(side, 0).repeat(side, 1) * shade).round().astype(np.uint8)
