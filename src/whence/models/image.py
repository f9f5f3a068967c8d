"""Models that read a picture, and image classifiers. Relevance is read at the pixels and summed over patches."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.batch import Source
from whence.errors import InputError, OptionError, nearest
from whence.models.adapter import AbstractAdapter, Companion, Kind
from whence.models.encoded import EncodedRow, encoded_rows
from whence.models.example import Example, Features
from whence.options import Count, check

__all__ = [
    "PIXELS",
    "AbstractImageReader",
    "ImageClassifier",
    "cells_of",
    "grid_of",
    "opened",
    "patch_of",
    "pixels_of",
    "seen",
    "shown_as",
    "squares",
]

PIXELS = "pixel_values"
NAME = "image"
"""What an input calls its picture, where it has a name for it."""
FILE = ("bytes", "path")
"""What the tables of data sets keep of a picture."""
FILLS = ("black", "mean", "zero")
CELLS = (16, 8, 4, 2)
"""Widths of cells, in pixels, for models without patches: the first that leaves enough of them."""
FEWEST = 7
WANTED = "pass a path, bytes, a PIL image, an array or a tensor"


class AbstractImageReader(AbstractAdapter):
    """Reads one picture, whatever it says of it: paths, bytes, PIL images, arrays and tensors, with the channels first
    or last.

    Tensors of floats are taken as they are: already normalised. Everything else goes through the processor: one of
    transformers, or any function from a picture to such a tensor (a transform of torchvision or timm).
    """

    kind: ClassVar[Kind] = "image"
    companion: ClassVar[Companion] = "image_processor"
    casts = True

    def __init__(self, module: nn.Module, processor: Any = None, *, cell: int | None = None, **options: Any):
        super().__init__(module, **options)
        self.processor = processor
        self.cell = check("cell", cell, Count | None, "load")

    @property
    def reads(self) -> str:
        return "images" if self.processor is not None else "images as normalised tensors (it came without a processor)"

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        if _is_named(inputs):
            return [inputs], True
        if isinstance(inputs, Mapping):
            rows = encoded_rows(_with_batch(inputs, 3), PIXELS, dims=3)
            return list(rows), len(rows) == 1
        if isinstance(inputs, (Tensor, np.ndarray)) and inputs.ndim == 4:
            return list(inputs), False
        single = not isinstance(inputs, (list, tuple))
        items = [inputs] if single else list(inputs)
        if not items:
            raise InputError("the list of images is empty")
        return items, single

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        if isinstance(item, EncodedRow):
            return self._tensor(item)
        if isinstance(item, Tensor) and item.dtype != torch.uint8:
            return self._tensor(EncodedRow({PIXELS: item}, {}))
        if isinstance(item, Mapping) and NAME in item:
            self.check_keys(item, NAME)
            return self.encode_one(item[NAME], truncate=truncate)
        return self._picture(item)

    def forward(self, inputs: dict[str, Any]) -> Any:
        if PIXELS in self._accepted:
            return super().forward(inputs)
        with self.running():
            return self.module(inputs[PIXELS])

    def _tensor(self, row: EncodedRow) -> Example:
        pixels = row.inputs[PIXELS]
        if pixels.dim() != 3:
            raise InputError(f"an image tensor has shape (channels, height, width), not {tuple(pixels.shape)}")
        if not pixels.is_floating_point():
            raise InputError(f"a tensor holds normalised pixels, not {pixels.dtype}: pass an array or a PIL image")
        return self._of_pixels(row, shown_as(pixels.float().numpy(force=True)))

    def _picture(self, item: Any) -> Example:
        image = opened(item)
        if self.processor is None:
            raise InputError(
                "this model came without an image processor. Pass a normalised tensor (channels, height, width), "
                "or load it with one, or with a transform: whence.load((module, processor))"
            )
        if not hasattr(self.processor, "from_pretrained"):
            return self._transformed(image)
        channels = getattr(self.config, "num_channels", 3)
        image = image.convert("L" if channels == 1 else "RGB")
        array = np.asarray(image)
        array = array[..., None] if array.ndim == 2 else array
        encoded = self.processed(array)
        marks = {k: v[0] for k, v in encoded.items() if isinstance(v, Tensor) and k != PIXELS and k in self._accepted}
        pixels = encoded[PIXELS][0]
        return self._of_pixels(EncodedRow({PIXELS: pixels, **marks}, {}), seen(pixels, self.processor))

    def processed(self, array: np.ndarray) -> Mapping[str, Any]:
        """What the model's processor makes of a picture (row, column, channel)."""
        made: Mapping[str, Any] = self.processor(images=array, return_tensors="pt", input_data_format="channels_last")
        return made

    def _transformed(self, image: Any) -> Example:
        made = self.processor(image.convert("RGB"))
        if not isinstance(made, Tensor) or not made.is_floating_point() or made.dim() not in (3, 4) or (
            made.dim() == 4 and len(made) != 1
        ):  # fmt: skip
            shape = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise InputError(
                f"the transform makes {shape} of a picture, not a tensor (channels, height, width) of floats"
            )
        pixels = made[0] if made.dim() == 4 else made
        return self._of_pixels(EncodedRow({PIXELS: pixels}, {}), seen(pixels, self.processor))

    def _of_pixels(self, row: EncodedRow, shown: np.ndarray) -> Example:
        pixels = row.inputs[PIXELS]
        rows, columns = self._grid(pixels.shape[-2:])
        patches = (rows, columns) != tuple(pixels.shape[-2:])
        source = Source(PIXELS, "patch" if patches else "pixel")
        return Example(row.inputs, (Features(source, (rows, columns)),), shared=row.shared, image=shown)

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        """Pixel relevance, summed over channels and over the patches that the model cuts the image into."""
        return cells_of(relevance.float().sum(0), part.shape)

    def features_among(self, example: Example, tokens: int) -> slice | None:
        """Patches stand behind the tokens of other kinds: class, distillation, registers."""
        part = example.parts[0]
        patch = patch_of(self.module, self.config)
        height, width = example.inputs[PIXELS].shape[-2:]
        own = None if patch is None else (height // patch[0], width // patch[1])
        return slice(tokens - part.count, tokens) if part.shape[-2:] == own and tokens >= part.count else None

    def masked(self, example: Example, keep: np.ndarray, fill: str = "black") -> Example:
        """Patches replaced by `black`, by the image's `mean` colour, or by `zero` (the processor's mean colour)."""
        pixels = example.inputs[PIXELS]
        rows, columns = example.parts[0].shape
        marks = torch.from_numpy(np.ascontiguousarray(keep, dtype=bool)).reshape(rows, columns)
        changed = torch.where(
            pixels_of(marks, pixels.shape[-2:]).to(pixels.device), pixels, self._colour(pixels, fill).to(pixels)
        )
        return replace(example, inputs={**example.inputs, PIXELS: changed})

    def check_fill(self, fill: str) -> None:
        known = (*FILLS, "mask", "pad", "unk")
        if fill not in known:
            raise OptionError(f"unknown fill {fill!r}.{nearest(fill, FILLS)} Known for images: {', '.join(FILLS)}")

    def _colour(self, pixels: Tensor, fill: str) -> Tensor:
        self.check_fill(fill)
        if fill == "mean":
            return pixels.mean((1, 2), keepdim=True)
        known = _normalisation(self.processor)
        if fill == "zero" or known is None:
            return torch.zeros(pixels.shape[0], 1, 1)
        mean, std = (torch.as_tensor(v, dtype=torch.float32) for v in known)
        black = -mean / std
        return black.reshape(-1, 1, 1).expand(pixels.shape[0], 1, 1)

    def _grid(self, size: Sequence[int]) -> tuple[int, int]:
        if self.cell is not None:
            return max(1, round(size[0] / self.cell)), max(1, round(size[1] / self.cell))
        return grid_of(size, patch_of(self.module, self.config))


class ImageClassifier(AbstractImageReader):
    """Says which class a picture has."""

    task = "image-classification"


def _is_named(item: Any) -> bool:
    return isinstance(item, Mapping) and PIXELS not in item and any(name in item for name in (NAME, *FILE))


def _with_batch(inputs: Mapping[str, Any], dims: int) -> Mapping[str, Any]:
    """What was encoded for one picture without a batch, with one: its masks have other first axes than its pixels."""
    pixels = inputs.get(PIXELS)
    if not isinstance(pixels, Tensor) or pixels.dim() != dims:
        return inputs
    return {k: v[None] if isinstance(v, Tensor) and v.dim() else v for k, v in inputs.items()}


def patch_of(module: nn.Module, config: Any) -> tuple[int, int] | None:
    """Height and width of the patches that a model cuts images into; None where it has none."""
    first = next((m for m in module.modules() if isinstance(m, nn.Conv2d)), None)
    if first is not None and first.stride == first.kernel_size and max(first.stride) > 1:
        return first.stride[0], first.stride[1]
    given = getattr(config, "patch_size", None)
    return (given, given) if isinstance(given, int) else None


def grid_of(size: Sequence[int], patch: tuple[int, int] | None) -> tuple[int, int]:
    """Rows and columns of squares: patches; where there are none that tile the image, about 16 pixels wide."""
    height, width = size
    if patch is not None and not height % patch[0] and not width % patch[1]:
        return height // patch[0], width // patch[1]
    cell = next((c for c in CELLS if min(height, width) >= FEWEST * c), 1)
    return round(height / cell), round(width / cell)


def squares(name: str, shape: tuple[int, ...]) -> Features:
    """The squares of pictures that stand beside a text, by their places: (row, column), before them the picture."""
    names = tuple(f"[{', '.join(str(i + 1) for i in place)}]" for place in np.ndindex(*shape))
    count = len(names)
    return Features(Source(name, "patch"), shape, names, special=(False,) * count, sides=("picture",) * count)


def cells_of(pixels: Tensor, grid: Sequence[int]) -> Tensor:
    """Numbers of pixels (row, column), summed over the cells of a grid."""
    down, across = (_cells(size, count).to(pixels.device) for size, count in zip(pixels.shape, grid, strict=True))
    by_row = torch.zeros(grid[0], pixels.shape[1], device=pixels.device).index_add_(0, down, pixels)
    return torch.zeros(*grid, device=pixels.device).index_add_(1, across, by_row)


def pixels_of(cells: Tensor, size: Sequence[int]) -> Tensor:
    """What holds for cells (…, row, column), for each pixel of a picture of a size."""
    down, across = (_cells(n, count) for n, count in zip(size, cells.shape[-2:], strict=True))
    return cells[..., down, :][..., across]


def seen(pixels: Tensor, processor: Any) -> np.ndarray:
    """The picture as the model sees it, cut and scaled, with its colours back."""
    values, known = pixels.float(), _normalisation(processor)
    if known is None:
        return shown_as(values.numpy(force=True))
    mean, std = (torch.as_tensor(v, dtype=torch.float32).reshape(-1, 1, 1) for v in known)
    values = values.cpu() * std + mean
    if not getattr(getattr(processor, "image_processor", processor), "do_rescale", True):
        values = values / 255
    return _in_bytes((values.clamp(0, 1) * 255).round().numpy(force=True))


def _cells(size: int, count: int) -> Tensor:
    """Which of `count` cells each of `size` pixels belongs to.

    >>> _cells(5, 2).tolist()
    [0, 0, 0, 1, 1]
    """
    return torch.arange(size) * count // size


def _normalisation(processor: Any) -> tuple[Any, Any] | None:
    """Mean and deviation by which a processor normalises; None where it does not, or does not say."""
    processor = getattr(processor, "image_processor", processor)
    if getattr(processor, "do_normalize", True) is False:
        return None
    steps = getattr(processor, "transforms", ())
    for holder in (processor, *(steps if isinstance(steps, (list, tuple)) else ())):
        for mean, std in (("image_mean", "image_std"), ("mean", "std")):
            found = getattr(holder, mean, None), getattr(holder, std, None)
            if found[0] is not None and found[1] is not None:
                return found
    return None


def opened(item: Any) -> Any:
    """A PIL image."""
    from PIL import Image, UnidentifiedImageError  # slow to import, and text models never need it

    if isinstance(item, Image.Image):
        return item
    if isinstance(item, Mapping) and set(item) <= set(FILE):
        return opened(next((item[name] for name in FILE if item.get(name) is not None), None))
    if isinstance(item, Tensor):
        item = item.numpy(force=True)
    if isinstance(item, np.ndarray):
        array = _channels_last(item)
        if array.dtype != np.uint8:
            raise InputError(
                f"an image array holds uint8 values from 0 to 255, not {array.dtype}. A picture that is normalised "
                "goes in as a tensor where the model reads pictures alone, and encoded where it reads text as well"
            )
        if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in (3, 4)):
            raise InputError(f"an image array has shape (height, width, 3), not {item.shape}; pass several as a list")
        return Image.fromarray(array)
    if not isinstance(item, (str, Path, bytes, bytearray)):
        raise InputError(f"can't read an image from {type(item).__name__}: {WANTED}")
    try:
        image = Image.open(io.BytesIO(item) if isinstance(item, (bytes, bytearray)) else item)
        image.load()
        return image
    except FileNotFoundError:
        raise InputError(f"no such image: {str(item)!r}, which is taken for a path; {WANTED}") from None
    except (UnidentifiedImageError, OSError) as error:
        what = f"{len(item)} bytes" if isinstance(item, (bytes, bytearray)) else repr(str(item))
        why = "no format that is known" if isinstance(error, UnidentifiedImageError) else str(error)
        raise InputError(f"{what} can't be read as an image: {why}; {WANTED}") from None


def _channels_last(array: np.ndarray) -> np.ndarray:
    """(height, width) or (height, width, channels), whichever of the layouts it came in."""
    colours = (1, 3, 4)
    if array.ndim == 3 and array.shape[0] in colours and array.shape[-1] not in colours:
        array = np.moveaxis(array, 0, -1)
    return array.squeeze(-1) if array.ndim == 3 and array.shape[-1] == 1 else array


def shown_as(pixels: np.ndarray) -> np.ndarray:
    """Normalised pixels stretched to 0…255 for people."""
    low, high = float(pixels.min()), float(pixels.max())
    return _in_bytes((pixels - low) / (high - low or 1) * 255)


def _in_bytes(pixels: np.ndarray) -> np.ndarray:
    """(channel, row, column) from 0 to 255 as a picture of three colours."""
    image = np.moveaxis(pixels.astype(np.uint8), 0, -1)
    return np.repeat(image, 3, -1) if image.shape[-1] == 1 else image[..., :3]
