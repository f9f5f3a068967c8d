"""Targets that lie somewhere in a picture: a box, a thing with a mask, a region.

Detectors, and models that cut things out, give a row of classes for each of their queries and a place beside it;
models that label or measure every pixel give a grid. Places are in pixels of the picture as the model saw it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError
from whence.models.example import Example
from whence.models.targets import AbstractTarget, Area, Term, View
from whence.results import Corners
from whence.results.percents import percent

__all__ = ["DEPTH", "Box", "Region", "Thing", "box", "covered", "overlap", "region", "size_of", "things_in"]

DEPTH = "predicted_depth"
BACKGROUND = "background"


class Thing(NamedTuple):
    """What one query of a model found: a class, and where."""

    query: int
    category: int
    certainty: float
    corners: Corners | None
    """None where it has a mask in place of a box."""
    share: float = 0.0
    """How much of the picture its mask covers."""

    def named(self, label: str) -> str:
        if self.corners is not None:
            return f"{label} at {self.corners}"
        return f"{label}, {percent(self.share, 0)} of the picture"


@dataclass(frozen=True)
class Box(AbstractTarget):
    """The class of one thing that a model found: its logit. The most certain thing by default."""

    label: int | str | None = None
    rank: int = 0
    """How many are more certain, of that label or of all."""
    where: Region | None = None
    """Things count for as much as they overlap with this."""

    def terms(self, view: View) -> tuple[list[Term], str]:
        if len(view.fields) < 2:
            raise InputError(
                "whence.box(…) asks about one thing that a model found, and this model finds none: it is for object "
                "detection. Pass a class or a label" + (", or whence.region(…)" if _grid_in(view) else "")
            )
        found = things_in(view, self.label, self.where)
        if not 0 <= self.rank < len(found):
            raise InputError(f"there is no box {self.rank}: the model gives {len(found)}, 0 to {len(found) - 1}")
        thing = found[self.rank]
        place = view.outputs(view.fields[1])[thing.query]
        near = tuple(place.tolist()) if thing.corners is not None else ()
        term = Term((thing.query, thing.category), field=view.fields[0], near=near)
        return [term], thing.named(view.spell(thing.category))


def things_in(view: View, label: int | str | None = None, where: Region | None = None) -> list[Thing]:
    """What the model found, most certain first: of one label, or of every query the likeliest class."""
    shares = certainties(view.outputs(view.fields[0]), len(view.labels))
    places = view.outputs(view.fields[1])
    if label is None:
        certain, classes = shares.max(-1)
    else:
        index = _class_of(label, view, shares.shape[-1])
        certain, classes = shares[:, index], torch.full((len(shares),), index)
    order = certain
    if where is not None:
        inside = torch.from_numpy(where.area(view, places.shape[-2:]).held).to(places.device)
        masks = places > 0
        order = certain * (masks & inside).sum((1, 2)) / (masks | inside).sum((1, 2)).clamp_min(1)
    best = order.argsort(descending=True, stable=True).tolist()
    boxed = places.shape[-1] == 4 and places.dim() == 2
    return [
        Thing(
            q,
            int(classes[q]),
            float(certain[q]),
            _corners(places[q].tolist(), size_of(view.example)) if boxed else None,
            0.0 if boxed else float((places[q] > 0).float().mean()),
        )
        for q in best
    ]


def certainties(logits: Tensor, labels: int) -> Tensor:
    """How certain each real class of each query is. One output more than labels stands for "nothing here"."""
    return logits.softmax(-1)[..., :-1] if labels and logits.shape[-1] == labels + 1 else logits.sigmoid()


@dataclass(frozen=True)
class Region(AbstractTarget):
    """The mean over a part of the picture: of a class's logit where every pixel has classes, or of the depth.

    Without a region it is the pixels that the class was predicted for, and for depth all of them. Without a class it is
    the one that covers most. Of models that cut things out, the class of the thing that fits the region best.
    """

    label: int | str | None = None
    mask: Area | None = None
    box: Corners | None = None

    def terms(self, view: View) -> tuple[list[Term], str]:
        if len(view.fields) > 1 and view.outputs(view.fields[1]).dim() == 3:
            given = self.mask is not None or self.box is not None
            return Box(self.label, where=self if given else None).terms(view)
        if not _grid_in(view):
            other = "whence.box(…)" if "pred_boxes" in view.fields else "a class or a label"
            raise InputError(
                "whence.region(…) asks about a part of the picture, and this model says nothing of its pixels: it is "
                f"for segmentation and depth. Pass {other}"
            )
        return self._depth(view) if view.fields[0] == DEPTH else self._labelled(view)

    def _depth(self, view: View) -> tuple[list[Term], str]:
        if self.label is not None:
            raise InputError(
                f"a depth model knows no {self.label!r}, it gives a distance for every pixel: pass whence.region(box=…)"
            )
        depth = view.outputs(DEPTH)
        area = self.area(view, depth.shape[-2:])
        return [Term((), 1 / area.count, DEPTH, area)], "mean depth" + self._where(area)

    def _labelled(self, view: View) -> tuple[list[Term], str]:
        logits = view.outputs("logits")
        given = self.mask is not None or self.box is not None
        area = self.area(view, logits.shape[-2:]) if given else None
        index = _most_covered(logits, view, area) if self.label is None else _class_of(self.label, view, len(logits))
        label = view.spell(index)
        if area is None:
            area = Area((logits.argmax(0) == index).cpu().numpy())
            if not area.count:
                seen = ", ".join(view.spell(i) for i, _ in covered(logits)[:5])
                raise InputError(
                    f"the model predicts {label!r} for no pixel of this picture (it sees: {seen}). Pass one of these, "
                    f"or say where: whence.region({self.label!r}, box=(left, top, right, bottom))"
                )
            return [Term((index,), 1 / area.count, over=area)], f"{label} over {_percent(area)} of the picture"
        return [Term((index,), 1 / area.count, over=area)], label + self._where(area)

    def _where(self, area: Area) -> str:
        if self.box is not None:
            return f" in {self.box}"
        return f" in {_percent(area)} of the picture" if self.mask is not None else ""

    def area(self, view: View, size: Sequence[int]) -> Area:
        """The region on a grid of some size: all of it where none is given."""
        if self.mask is None and self.box is None:
            return Area(np.ones(tuple(size), dtype=bool))
        whole = tuple(_pixels(view.example).shape[-2:])
        if self.mask is not None:
            held = self.mask.held
            if held.shape != whole:
                raise InputError(
                    f"the mask has {_by(held.shape)} pixels, and the picture as the model saw it {_by(whole)} "
                    "(exp.image shows it): pass a mask of that size"
                )
        else:
            assert self.box is not None
            left, top, right, bottom = self.box
            held = np.zeros(whole, dtype=bool)
            held[top:bottom, left:right] = True
            if right > whole[1] or bottom > whole[0]:
                raise InputError(
                    f"the box {self.box} does not lie in the picture, which is {whole[1]} wide and {whole[0]} high as "
                    "the model saw it"
                )
        return _on_grid(held, size)


def _on_grid(held: np.ndarray, size: Sequence[int]) -> Area:
    """A mask at the nearest pixels of a grid; where it slips through between them, at those that it lies in."""
    down, across = (
        np.floor((np.arange(n) + 0.5) * own / n).astype(int) for n, own in zip(size, held.shape, strict=True)
    )
    found = held[down][:, across]
    if not found.any():
        rows, columns = np.nonzero(held)
        found[rows * size[0] // held.shape[0], columns * size[1] // held.shape[1]] = True
    return Area(found)


def covered(logits: Tensor) -> list[tuple[int, float]]:
    """The classes of the pixels of (class, row, column), and how much of the picture each has; most first."""
    found, counts = logits.argmax(0).unique(return_counts=True)
    order = counts.argsort(descending=True, stable=True)
    return [(int(found[i]), float(counts[i]) / logits[0].numel()) for i in order]


def _most_covered(logits: Tensor, view: View, area: Area | None) -> int:
    """The class of the most pixels; what is called background only where there is nothing else."""
    best = logits.argmax(0)
    inside = best if area is None else best[torch.from_numpy(area.held).to(best.device)]
    counts = inside.reshape(-1).bincount(minlength=len(logits)).tolist()
    order = sorted(range(len(counts)), key=lambda i: (view.spell(i).lower() == BACKGROUND, -counts[i]))
    return next(i for i in order if counts[i])


def _class_of(label: int | str, view: View, size: int) -> int:
    if isinstance(label, str):
        return view.find(label)
    if not 0 <= label < size:
        raise InputError(f"class {label} does not exist: the model has {size}, 0 to {size - 1}")
    return int(label)


def _grid_in(view: View) -> bool:
    return view.fields[0] == DEPTH or (tuple(view.fields) == ("logits",) and view.outputs("logits").dim() == 3)


def _pixels(example: Example) -> Tensor:
    return example.inputs[example.parts[0].source.name]


def size_of(example: Example) -> tuple[int, int]:
    """Height and width of the picture, without what fills it up to the size of others."""
    mask = example.inputs.get("pixel_mask")
    if mask is None or not bool(mask.any()):
        height, width = _pixels(example).shape[-2:]
        return int(height), int(width)
    return int(mask.any(1).sum()), int(mask.any(0).sum())


def _corners(relative: Sequence[float], size: tuple[int, int]) -> Corners:
    """Centre, width and height in parts of the picture, as corners in pixels."""
    (x, y, width, height), (rows, columns) = relative, size
    across = [min(max(round(v * columns), 0), columns) for v in (x - width / 2, x + width / 2)]
    down = [min(max(round(v * rows), 0), rows) for v in (y - height / 2, y + height / 2)]
    return Corners(across[0], down[0], across[1], down[1])


def overlap(boxes: Tensor, near: Sequence[float]) -> Tensor:
    """How much each of some boxes (centre, width, height) has in common with one: intersection over union."""
    one = torch.tensor(near, dtype=boxes.dtype, device=boxes.device)
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    shared = (torch.minimum(high, one[:2] + one[2:] / 2) - torch.maximum(low, one[:2] - one[2:] / 2)).clamp_min(0)
    both = shared.prod(-1)
    return both / (boxes[:, 2:].prod(-1) + one[2:].prod() - both).clamp_min(1e-12)


def _percent(area: Area) -> str:
    return percent(area.count / area.held.size, 0)


def _by(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def box(which: int | str = 0, label: int | str | None = None) -> Box:
    """Explain one thing that a model found: `box("cat")` the most certain cat, `box(2)` the third best of all, and
    `box(1, "cat")` the second best cat.
    """
    if isinstance(which, str):
        if label is not None:
            raise InputError(
                f"box({which!r}, {label!r}) names two labels: pass one, box({which!r}) or box(1, {which!r})"
            )
        return Box(which)
    if isinstance(which, bool) or not isinstance(which, (int, np.integer)) or which < 0:
        raise InputError(f"box({which!r}): pass a label, or which of the boxes, 0 for the most certain")
    return Box(label, int(which))


def region(label: int | str | None = None, *, mask: Any = None, box: Sequence[float] | None = None) -> Region:
    """Explain a part of the picture: the pixels of a label, or those that `mask` (row, column) or `box` (left, top,
    right, bottom) name, in pixels of the picture as the model saw it.
    """
    if mask is not None and box is not None:
        raise InputError("region(mask=…, box=…) names two regions: pass one of them")
    return Region(label, _mask_from(mask), _box_from(box))


def _mask_from(mask: Any) -> Area | None:
    if mask is None:
        return None
    held = mask.numpy(force=True) if isinstance(mask, Tensor) else np.asarray(mask)
    if held.ndim != 2 or held.dtype.kind not in "biuf":
        raise InputError(f"a mask is an array (row, column), true where the region is, not one of shape {held.shape}")
    if not held.any():
        raise InputError("the mask is true nowhere, so there is no region to explain")
    return Area(held.astype(bool))


def _box_from(box: Any) -> Corners | None:
    if box is None:
        return None
    try:
        left, top, right, bottom = (round(float(v)) for v in box)
    except (TypeError, ValueError):
        raise InputError(f"a box is (left, top, right, bottom) in pixels, not {box!r}") from None
    if not (0 <= left < right and 0 <= top < bottom):
        raise InputError(f"the box {(left, top, right, bottom)} holds no pixel: pass (left, top, right, bottom)")
    return Corners(left, top, right, bottom)
