"""Models that read pictures with a text and write: tokens and patches are explained together, in one receipt."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.batch import Source
from whence.errors import InputError
from whence.models.encoded import EncodedRow
from whence.models.example import Example, Features
from whence.models.image import PIXELS, cells_of, grid_of, opened, patch_of, pixels_of, seen
from whence.models.text import IDS
from whence.models.tokens import special_in
from whence.models.writing import CausalLM, is_chat

__all__ = ["ImageTextLM"]

FLAT = "_flat"
"""Names the inputs whose first axis runs over the pictures of all examples, or their patches, one after the other."""
PLACEHOLDERS = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")


class ImageTextLM(CausalLM):
    """Takes `{"image": …, "text": …}` (or `"images": [ … ]`), messages of a chat with pictures in them, or what the
    model's processor made of these. Pictures are paths, bytes, PIL images or arrays.

    Where pictures stand in the text there are tokens that only hold their place; these are no features.
    """

    task = "image-text-to-text"
    companion = "processor"

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, getattr(processor, "tokenizer", processor), **options)
        self.processor: Any = processor if hasattr(processor, "tokenizer") else None
        named = [getattr(holder, name, None) for holder in (self.config, processor) for name in PLACEHOLDERS]
        self._placeholders = frozenset(i for i in named if isinstance(i, int))
        self._shared: dict[frozenset[str], dict[str, Any]] = {}

    @property
    def reads(self) -> str:
        return "pictures with text" if self.processor is not None else "encoded pictures (it came without a processor)"

    def fill(self) -> dict[str, int]:
        return {IDS.name: super().fill()[IDS.name]}

    # -- encoding --------------------------------------------------------------------------------------------

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        if isinstance(inputs, Mapping) and ("image" in inputs or "images" in inputs):
            return [inputs], True
        return super().split(inputs)

    def encode_one(
        self, item: Any, *, truncate: bool = False, continuation: str | None = None, generate: int | None = None
    ) -> Example:
        chat = is_chat(item) and self.processor is not None
        if not chat and not isinstance(item, (EncodedRow, Mapping)):  # text alone
            return super().encode_one(item, truncate=truncate, continuation=continuation, generate=generate)
        prompt = self._from_row(item) if isinstance(item, EncodedRow) else self._prompt(item)
        prompt = replace(prompt, rows=(prompt.parts[0].count - 1,))
        if continuation is not None:
            return self.continued(prompt, continuation)
        return self._with_written(prompt, self._generated(prompt, generate)) if generate else prompt

    def _prompt(self, item: Any) -> Example:
        if self.processor is None:
            raise InputError(
                "this model came without a processor. Pass what its processor makes, {'input_ids': …, "
                "'pixel_values': …}, or load it with one: whence.load((module, processor))"
            )
        messages, pictures = _conversation(item)
        spoken = _without_template(messages, getattr(self.processor, "image_token", None) or "")
        texts = [spoken]
        if getattr(self.processor, "chat_template", None):
            texts.insert(0, self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        for text in texts:  # a template that knows no pictures leaves no place for them
            made = self._processed(text, pictures)
            if not pictures or not self._placeholders or self._placeholders & set(made[IDS.name][0].tolist()):
                break
        else:
            raise InputError("the model's processor left no place for the picture in the text: encode both yourself")
        alone = {k: v[0] for k, v in made.items() if v.dim() and v.shape[0] == 1}
        return self._joint(alone, {k: v for k, v in made.items() if k not in alone}, pictures)

    def _processed(self, text: str, pictures: Sequence[Any]) -> dict[str, Tensor]:
        made = self.processor(text=[text], **({"images": pictures} if pictures else {}), return_tensors="pt")
        return {k: v for k, v in made.items() if isinstance(v, Tensor) and (k in self._accepted or k == IDS.name)}

    def _from_row(self, row: EncodedRow) -> Example:
        flat = {k: v for k, v in row.shared.items() if isinstance(v, Tensor) and v.dim()}
        rest = {k: v for k, v in row.shared.items() if k not in flat}
        if rest:
            raise InputError(f"{', '.join(map(repr, rest))} can't go with encoded pictures: pass tensors alone")
        return self._joint(row.inputs, flat, ())

    def _joint(self, alone: dict[str, Tensor], flat: dict[str, Tensor], pictures: Sequence[Any]) -> Example:
        ids = alone[IDS.name].cpu()
        alone = {**alone, IDS.name: ids}
        if IDS.mask in self._accepted:
            alone.setdefault("attention_mask", torch.ones_like(ids))
        mask = alone.get("attention_mask", torch.ones_like(ids)).cpu()
        real = torch.nonzero(mask).flatten().tolist()
        if not real:
            raise InputError("there are no tokens to explain")
        holders = self._placeholders if PIXELS in alone or PIXELS in flat else ()
        places = [n for n in real if n == real[-1] or int(ids[n]) not in holders]  # at the last it is asked what comes
        shown = [int(ids[n]) for n in places]
        text = Features(
            IDS, (len(shown),), self._names(shown), special=special_in(self.tokenizer, shown),
            sides=("text",) * len(shown), places=None if len(places) == len(ids) else tuple(places),
        )  # fmt: skip
        key = frozenset(flat)
        shared = self._shared.setdefault(key, {FLAT: key}) if flat else {}
        inputs = {**alone, **flat}
        lost = next((k for k, v in inputs.items() if k != PIXELS and v.is_floating_point() and v.dim() > 1), None)
        if lost is not None:
            raise InputError(f"{lost!r} would have no scores: of what is no text, {PIXELS!r} alone is explained")
        if PIXELS not in inputs:
            return Example(inputs, (text,), shared=shared)
        picture = self._patches(inputs)
        return Example(inputs, (text, picture), shared=shared, image=self._shown(inputs[PIXELS], picture, pictures))

    def _patches(self, inputs: Mapping[str, Tensor]) -> Features:
        """Squares of the pictures: (row, column) of one, (picture, row, column) of several, or patches in a line."""
        pixels = inputs[PIXELS]
        if pixels.dim() < 3:
            grid = inputs.get("image_grid_thw")
            shape: tuple[int, ...] = (pixels.shape[0],)
            if grid is not None and grid.numel() == 3 and int(grid.reshape(-1)[0]) == 1:
                shape = tuple(int(n) for n in grid.reshape(-1)[1:])
        else:
            count = pixels.shape[:-3].numel()
            rows, columns = grid_of(pixels.shape[-2:], patch_of(self.module, self._vision))
            shape = (rows, columns) if count == 1 else (count, rows, columns)
        names = tuple(f"[{', '.join(str(i + 1) for i in place)}]" for place in np.ndindex(*shape))
        sides = ("picture",) * len(names)
        return Features(Source(PIXELS, "patch"), shape, names, special=(False,) * len(names), sides=sides)

    @property
    def _vision(self) -> Any:
        return getattr(self.config, "vision_config", None)

    def _shown(self, pixels: Tensor, part: Features, pictures: Sequence[Any]) -> np.ndarray | None:
        """All pictures side by side, as the model sees them."""
        if pixels.dim() >= 3:
            reader = getattr(self.processor, "image_processor", None)
            tiles = [seen(tile, reader) for tile in pixels.reshape(-1, *pixels.shape[-3:])]
            return np.concatenate(tiles, 1)
        if len(pictures) == 1 and len(part.shape) == 2:
            size = getattr(self._vision, "patch_size", 14)
            return np.asarray(pictures[0].resize((part.shape[1] * size, part.shape[0] * size)))
        return None

    # -- running ---------------------------------------------------------------------------------------------

    def forward(self, inputs: dict[str, Any]) -> Any:
        flat = inputs.get(FLAT, ())
        given = {k: v.flatten(0, 1) if k in flat else v for k, v in inputs.items() if k != FLAT}
        return super().forward(given)

    def placed(self, name: str, value: Tensor) -> Tensor:
        return value.to(self.device, self.dtype) if value.is_floating_point() else value.to(self.device)

    def goes_with(self, name: str, sources: Sequence[Source]) -> Source:
        return next((s for s in sources if s.name == name), sources[0])

    def apart(self, example: Example) -> Hashable:
        length = example.inputs[IDS.name].shape[0]
        return tuple((k, v.shape) for k, v in example.inputs.items() if v.shape != (length,))

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        if part.source.name != PIXELS or relevance.numel() == part.count == 0:
            return relevance
        if relevance.dim() < 3:
            by_patch = relevance.float().reshape(part.count, -1).sum(1)
            return self._in_rows(by_patch, part.shape).reshape(-1)
        pixels = relevance.float().sum(-3).reshape(-1, *relevance.shape[-2:])
        return torch.stack([cells_of(p, part.shape[-2:]) for p in pixels]).reshape(-1)

    def _in_rows(self, patches: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Patches that stand together because the model merges them, row by row."""
        if len(shape) != 2:
            return patches
        size = int(getattr(self._vision, "spatial_merge_size", 1))
        blocks = patches.reshape(shape[0] // size, shape[1] // size, size, size)
        return blocks.transpose(1, 2)

    def _without(self, example: Example, part: Features, gone: np.ndarray, fill: str) -> Example:
        if part.source.name != PIXELS:
            return super()._without(example, part, gone, fill)
        pixels = example.inputs[PIXELS]
        keep = torch.ones(part.count, dtype=torch.bool)
        keep[torch.from_numpy(gone)] = False
        if pixels.dim() < 3:
            order = self._in_rows(torch.arange(part.count), part.shape).reshape(-1)
            marks = torch.empty_like(keep)
            marks[order] = keep
            changed = torch.where(marks[:, None].to(pixels.device), pixels, 0.0)
        else:
            tiles = pixels_of(keep.reshape(-1, *part.shape[-2:]), pixels.shape[-2:])
            marks = tiles.reshape(*pixels.shape[:-3], 1, *pixels.shape[-2:])
            changed = torch.where(marks.to(pixels.device), pixels, 0.0)
        return replace(example, inputs={**example.inputs, PIXELS: changed})

    def to_go_on_from(self, prompt: Example) -> dict[str, Any]:
        flat = prompt.shared.get(FLAT, ())
        row = {k: self.placed(k, v if k in flat else v[None]) for k, v in prompt.inputs.items()}
        return {**row, "suppress_tokens": sorted(self._placeholders) or None}  # it writes, and draws nothing


def _conversation(item: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    """Messages with a mark where each picture stands, and the pictures."""
    if isinstance(item, Mapping):
        pictures = item.get("images", item.get("image"))
        pictures = list(pictures) if isinstance(pictures, (list, tuple)) else [] if pictures is None else [pictures]
        text = item.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InputError("a picture comes with a text: {'image': picture, 'text': 'What is on the table?'}")
        content = [{"type": "image"} for _ in pictures] + [{"type": "text", "text": text}]
        return [{"role": "user", "content": content}], [_rgb(p) for p in pictures]
    messages, found = [], []
    for message in item:
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        parts = []
        for part in content or ():
            if part.get("type") == "image":
                held = next((part[k] for k in ("image", "path", "url") if part.get(k) is not None), None)
                if held is None:
                    raise InputError("a part of type 'image' holds its picture: {'type': 'image', 'image': picture}")
                found.append(_rgb(held))
                parts.append({"type": "image"})
            else:
                parts.append(dict(part))
        messages.append({**message, "content": parts})
    return messages, found


def _rgb(picture: Any) -> Any:
    return opened(picture).convert("RGB")


def _without_template(messages: Sequence[Mapping[str, Any]], mark: str) -> str:
    """What is said, one message after the other, for models that know no roles."""
    said = (mark if part["type"] == "image" else part["text"] for message in messages for part in message["content"])
    return "".join(said)
