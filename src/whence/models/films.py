"""Video classifiers. A film is its frames; scores are for (frame, row, column), or for what the model cuts it into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.batch import Source
from whence.errors import InputError
from whence.models.adapter import Kind
from whence.models.encoded import EncodedRow, encoded_rows
from whence.models.example import Example, Features
from whence.models.image import PIXELS, AbstractImageReader, cells_of, opened, patch_of, pixels_of, seen, shown_as
from whence.models.inspecting import Shell

__all__ = ["VideoClassifier"]

NAME = "video"
"""What an input calls its film, where it has a name for it."""
FRAMES = "pixel_values_videos"
"""What some models call the pixels of a film."""
FILES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".m4v", ".gif")


class VideoClassifier(AbstractImageReader):
    """Takes the frames of a film: a list of pictures (paths, PIL images, arrays), an array (frame, height, width, 3) of
    `uint8`, or a tensor (frame, channel, height, width) of floats, already normalised. Several films are a list of
    these.
    """

    task = "video-classification"
    kind: ClassVar[Kind] = "video"

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, processor, **options)
        sized = next((m.stride for m in module.modules() if isinstance(m, nn.Conv3d)), None)
        self._cut: tuple[int, ...] = tuple(sized) if sized else (1, *(patch_of(module, self.config) or ()))

    @property
    def reads(self) -> str:
        frames = self._frames
        films = f"films of {frames} frames" if frames else "films"
        return films if self.processor is not None else f"{films} as normalised tensors (it came without a processor)"

    @property
    def _frames(self) -> int | None:
        """How many frames the model was made for."""
        found = getattr(self.config, "num_frames", None) or getattr(self.config, "frames_per_clip", None)
        return found if isinstance(found, int) else None

    # -- encoding --------------------------------------------------------------------------------------------

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        if isinstance(inputs, Mapping) and NAME in inputs:
            return [inputs], True
        if isinstance(inputs, Mapping):
            named = {PIXELS if k == FRAMES else k: v for k, v in inputs.items()}
            rows = encoded_rows(named, PIXELS, dims=4)
            return list(rows), len(rows) == 1
        if isinstance(inputs, (Tensor, np.ndarray)):
            return (list(inputs), False) if inputs.ndim == 5 else ([inputs], True)
        if not isinstance(inputs, (list, tuple)):
            return [inputs], True
        if not inputs:
            raise InputError("the list of frames is empty")
        several = all(isinstance(i, (list, tuple, Mapping, Example)) or getattr(i, "ndim", 0) == 4 for i in inputs)
        return (list(inputs), False) if several else ([list(inputs)], True)

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        if isinstance(item, EncodedRow):
            return self._film(item)
        if isinstance(item, Tensor) and item.dtype != torch.uint8:
            return self._film(EncodedRow({PIXELS: item}, {}))
        if isinstance(item, Mapping) and NAME in item:
            self.check_keys(item, NAME)
            return self.encode_one(item[NAME], truncate=truncate)
        return self._from_pictures(item)

    def _from_pictures(self, item: Any) -> Example:
        if isinstance(item, (str, Path)) and Path(item).suffix.lower() in FILES:
            raise InputError(
                f"{str(item)!r} is the file of a film, and films are not decoded here: pass its frames, "
                "[picture, picture, …] or an array (frame, height, width, 3), as any reader of videos gives them"
            )
        if not isinstance(item, (list, tuple)) and getattr(item, "ndim", 0) != 4:
            raise InputError(
                f"this model reads {self.reads.split(' as ')[0]}, and {_said(item)} is none: pass the frames as a list "
                "of pictures, an array (frame, height, width, 3) or a tensor (frame, channel, height, width)"
            )
        frames = [np.asarray(opened(frame).convert("RGB")) for frame in item]
        if len({frame.shape for frame in frames}) > 1:
            raise InputError("the frames of a film have one size, and these have several")
        if self.processor is None:
            raise InputError(
                "this model came without a processor. Pass a normalised tensor (frame, channel, height, width), or "
                "load it with one: whence.load((module, processor))"
            )
        return self._film(EncodedRow({PIXELS: self._processed(frames)}, {}), self.processor)

    def _processed(self, frames: list[np.ndarray]) -> Tensor:
        if not hasattr(self.processor, "from_pretrained"):
            from PIL import Image

            return torch.stack([self.processor(Image.fromarray(frame)) for frame in frames])
        made = self.processor(frames, return_tensors="pt")
        pixels: Tensor = made[FRAMES if FRAMES in made else PIXELS]
        return pixels[0] if pixels.dim() == 5 else pixels

    def _film(self, row: EncodedRow, processor: Any = None) -> Example:
        pixels = row.inputs[PIXELS]
        if pixels.dim() != 4 or not pixels.is_floating_point():
            raise InputError(
                "a film's tensor holds normalised pixels (frame, channel, height, width), not "
                f"{str(pixels.dtype).removeprefix('torch.')} of shape {tuple(pixels.shape)}"
            )
        count = self._check_length(pixels)
        rows, columns = self._grid(pixels.shape[-2:])
        source = Source(PIXELS, "patch")
        first = pixels[:: len(pixels) // count]
        tiles = [seen(p, processor) for p in first] if processor else [shown_as(_wide(first).numpy(force=True))]
        features = Features(source, (count, rows, columns))
        return Example(row.inputs, (features,), shared=row.shared, image=np.concatenate(tiles, 1))

    def _check_length(self, pixels: Tensor) -> int:
        """How many pieces the frames are cut into; an error where the model can't have so many."""
        count, piece = len(pixels), self._cut[0]
        wanted = self._frames
        fits = count >= piece and not count % piece
        if fits and wanted not in (None, count) and not isinstance(self.module, Shell):
            fits = self.once(f"takes {tuple(pixels.shape)}", lambda: "yes" if self._runs(pixels) else "no") == "yes"
        if not fits:
            n = wanted or f"a multiple of {piece}"
            raise InputError(
                f"{count} frame{'s'[: count != 1]} can't be read by this model: pass {n}, spread over the film "
                "(frames[:: len(frames) // n][:n])"
            )
        return count // piece

    def _runs(self, pixels: Tensor) -> bool:
        try:
            with torch.no_grad():
                self.forward({PIXELS: self.placed(PIXELS, pixels)[None]})
        except (RuntimeError, ValueError, IndexError):
            return False
        return True

    def _grid(self, size: Any) -> tuple[int, int]:
        height, width = size
        own = self._cut[1:]
        if self.cell is None and own and not height % own[0] and not width % own[1]:
            return int(height // own[0]), int(width // own[1])
        return super()._grid(size)

    # -- running ---------------------------------------------------------------------------------------------

    def forward(self, inputs: dict[str, Any]) -> Any:
        if FRAMES not in self._accepted:
            return super().forward(inputs)
        named = {FRAMES if k == PIXELS else k: v for k, v in inputs.items()}
        return super(AbstractImageReader, self).forward(named)

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        pieces = relevance.float().sum(1).reshape(part.shape[0], -1, *relevance.shape[-2:]).sum(1)
        return torch.stack([cells_of(piece, part.shape[1:]) for piece in pieces])

    def features_among(self, example: Example, tokens: int) -> slice | None:
        part, pixels = example.parts[0], example.inputs[PIXELS]
        own = (len(pixels), *pixels.shape[-2:])
        if len(self._cut) < 3 or part.shape != tuple(n // cut for n, cut in zip(own, self._cut, strict=True)):
            return None
        return slice(tokens - part.count, tokens) if tokens >= part.count else None

    def masked(self, example: Example, keep: np.ndarray, fill: str = "black") -> Example:
        """Pieces of the film replaced, as patches of a picture are."""
        pixels, shape = example.inputs[PIXELS], example.parts[0].shape
        marks = torch.from_numpy(np.ascontiguousarray(keep, dtype=bool)).reshape(shape)
        by_frame = pixels_of(marks, pixels.shape[-2:]).repeat_interleave(len(pixels) // shape[0], 0)[:, None]
        colour = self._colour(pixels.transpose(0, 1).flatten(1, 2), fill).reshape(1, -1, 1, 1)
        changed = torch.where(by_frame.to(pixels.device), pixels, colour.to(pixels))
        return replace(example, inputs={**example.inputs, PIXELS: changed})


def _wide(frames: Tensor) -> Tensor:
    """Frames (frame, channel, row, column) side by side, as one picture."""
    return torch.cat(list(frames.float()), -1)


def _said(item: Any) -> str:
    shape = getattr(item, "shape", None)
    return f"{type(item).__name__} of shape {tuple(shape)}" if shape is not None else f"one {type(item).__name__}"
