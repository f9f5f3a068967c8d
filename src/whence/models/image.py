"""Image classifiers. Relevance is read at the pixels and summed over patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.batch import Source
from whence.errors import InputError, OptionError, nearest
from whence.models.adapter import AbstractAdapter, Kind
from whence.models.encoded import EncodedRow, encoded_rows
from whence.models.example import Example, Features

__all__ = ["ImageClassifier"]

PIXELS = "pixel_values"
FILLS = ("black", "mean", "zero")


class ImageClassifier(AbstractAdapter):
    """Takes paths, PIL images, arrays (height, width, channels) and tensors (channels, height, width).

    Tensors are taken as they are: already normalised. Everything else goes through the processor.
    """

    task = "image-classification"
    kind: ClassVar[Kind] = "image"

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, **options)
        self.processor = processor

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        if isinstance(inputs, Mapping):
            rows = encoded_rows(inputs, PIXELS, dims=3)
            return list(rows), len(rows) == 1
        if isinstance(inputs, Tensor) and inputs.dim() == 4:
            return list(inputs), False
        single = not isinstance(inputs, (list, tuple))
        items = [inputs] if single else list(inputs)
        if not items:
            raise InputError("the list of images is empty")
        return items, single

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        if isinstance(item, EncodedRow):
            return self._tensor(item)
        return self._tensor(EncodedRow({PIXELS: item}, {})) if isinstance(item, Tensor) else self._picture(item)

    def placed(self, name: str, value: Tensor) -> Tensor:
        """Pixels in the precision of the model, as most image models demand."""
        return value.to(self.device, self.dtype) if value.is_floating_point() else value.to(self.device)

    def _tensor(self, row: EncodedRow) -> Example:
        pixels = row.inputs[PIXELS]
        if pixels.dim() != 3:
            raise InputError(f"an image tensor has shape (channels, height, width), not {tuple(pixels.shape)}")
        if not pixels.is_floating_point():
            raise InputError(f"a tensor holds normalised pixels, not {pixels.dtype}: pass an array or a PIL image")
        return self._example(row, _shown(pixels.float().numpy(force=True)))

    def _seen(self, pixels: Tensor) -> np.ndarray:
        """The picture as the model sees it, cut and scaled, with its colours back."""
        mean, std = (getattr(self.processor, n, None) for n in ("image_mean", "image_std"))
        values = pixels.float()
        if mean is not None and std is not None and getattr(self.processor, "do_normalize", True):
            mean, std = (torch.as_tensor(v, dtype=torch.float32).reshape(-1, 1, 1) for v in (mean, std))
            values = values * std + mean
            if not getattr(self.processor, "do_rescale", True):
                values = values / 255
            return _in_bytes((values.clamp(0, 1) * 255).round().numpy(force=True))
        return _shown(values.numpy(force=True))

    def _picture(self, item: Any) -> Example:
        image = _opened(item)
        if self.processor is None:
            raise InputError(
                "this model came without an image processor. Pass a normalised tensor (channels, height, width), "
                "or load it with one: whence.load((module, processor))"
            )
        channels = getattr(self.config, "num_channels", 3)
        image = image.convert("L" if channels == 1 else "RGB")
        array = np.asarray(image)
        array = array[..., None] if array.ndim == 2 else array
        encoded = self.processor(images=array, return_tensors="pt", input_data_format="channels_last")
        pixels = encoded[PIXELS][0]
        return self._example(EncodedRow({PIXELS: pixels}, {}), self._seen(pixels))

    def _example(self, row: EncodedRow, shown: np.ndarray) -> Example:
        pixels = row.inputs[PIXELS]
        rows, columns = self._grid(pixels.shape[-2:])
        patches = (rows, columns) != tuple(pixels.shape[-2:])
        source = Source(PIXELS, "patch" if patches else "pixel")
        return Example(row.inputs, (Features(source, (rows, columns)),), shared=row.shared, image=shown)

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        """Pixel relevance, summed over channels and over the patches that the model cuts the image into."""
        pixels = relevance.float().sum(0)
        rows, columns = part.shape
        return pixels.reshape(rows, pixels.shape[0] // rows, columns, pixels.shape[1] // columns).sum((1, 3))

    def masked(self, example: Example, keep: np.ndarray, fill: str = "black") -> Example:
        """Patches replaced by `black`, by the image's `mean` colour, or by `zero` (the processor's mean colour)."""
        pixels = example.inputs[PIXELS]
        rows, columns = example.parts[0].shape
        marks = torch.from_numpy(np.ascontiguousarray(keep, dtype=bool)).reshape(rows, columns)
        marks = (
            marks.to(pixels.device)
            .repeat_interleave(pixels.shape[-2] // rows, 0)
            .repeat_interleave(pixels.shape[-1] // columns, 1)
        )
        changed = torch.where(marks, pixels, self._colour(pixels, fill).to(pixels))
        return replace(example, inputs={**example.inputs, PIXELS: changed})

    def check_fill(self, fill: str) -> None:
        known = (*FILLS, "mask", "pad", "unk")
        if fill not in known:
            raise OptionError(f"unknown fill {fill!r}.{nearest(fill, FILLS)} Known for images: {', '.join(FILLS)}")

    def _colour(self, pixels: Tensor, fill: str) -> Tensor:
        self.check_fill(fill)
        if fill == "mean":
            return pixels.mean((1, 2), keepdim=True)
        mean, std = (getattr(self.processor, n, None) for n in ("image_mean", "image_std"))
        if fill == "zero" or mean is None or std is None or not getattr(self.processor, "do_normalize", True):
            return torch.zeros(pixels.shape[0], 1, 1)
        black = -torch.tensor(mean) / torch.tensor(std)
        return black.reshape(-1, 1, 1).expand(pixels.shape[0], 1, 1)

    def _grid(self, size: Sequence[int]) -> tuple[int, int]:
        """Rows and columns of patches; pixels themselves where the model has no patches that tile the image."""
        height, width = size
        first = next((m for m in self.module.modules() if isinstance(m, nn.Conv2d)), None)
        step = first.stride if first is not None and first.stride == first.kernel_size else None
        if step is None:
            given = getattr(self.config, "patch_size", None)
            step = (given, given) if isinstance(given, int) else (1, 1)
        if height % step[0] or width % step[1]:
            return height, width
        return height // step[0], width // step[1]


def _opened(item: Any) -> Any:
    """A PIL image."""
    from PIL import Image, UnidentifiedImageError  # slow to import, and text models never need it

    if isinstance(item, Image.Image):
        return item
    if isinstance(item, np.ndarray):
        array = item.squeeze(-1) if item.ndim == 3 and item.shape[-1] == 1 else item
        if array.dtype != np.uint8:
            raise InputError(
                f"an image array holds uint8 values from 0 to 255, not {array.dtype}; pass a tensor if it is normalised"
            )
        if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in (3, 4)):
            raise InputError(f"an image array has shape (height, width, 3), not {item.shape}; pass several as a list")
        return Image.fromarray(array)
    if not isinstance(item, (str, Path)):
        raise InputError(
            f"can't read an image from {type(item).__name__}: pass a path, a PIL image, an array or a tensor"
        )
    try:
        image = Image.open(item)
        image.load()
        return image
    except FileNotFoundError:
        raise InputError(f"no such image: {str(item)!r}") from None
    except (UnidentifiedImageError, OSError) as error:
        raise InputError(f"{str(item)!r} can't be read as an image: {error}") from None


def _shown(pixels: np.ndarray) -> np.ndarray:
    """Normalised pixels stretched to 0…255 for people."""
    low, high = float(pixels.min()), float(pixels.max())
    return _in_bytes((pixels - low) / (high - low or 1) * 255)


def _in_bytes(pixels: np.ndarray) -> np.ndarray:
    """(channel, row, column) from 0 to 255 as a picture of three colours."""
    image = np.moveaxis(pixels.astype(np.uint8), 0, -1)
    return np.repeat(image, 3, -1) if image.shape[-1] == 1 else image[..., :3]
