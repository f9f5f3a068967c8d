"""Models that read pictures with a text and write: tokens and patches are explained together, in one receipt."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.batch import Source
from whence.errors import InputError
from whence.models.adapter import AbstractAdapter, Companion
from whence.models.chat import Chat, is_chat
from whence.models.encoded import EncodedRow
from whence.models.example import Example, Features
from whence.models.generating import Continuation, Generate
from whence.models.image import PIXELS, cells_of, grid_of, opened, patch_of, pixels_of, seen, squares
from whence.models.targets import AbstractTarget, Predicted
from whence.models.telling import DECODER, Telling
from whence.models.text import IDS, TextAdapter
from whence.models.tokens import special_in
from whence.models.writing import CausalLM

__all__ = ["ImageTextClassifier", "ImageTextLM", "ImageTextTeller"]

FILES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".wav", ".flac", ".mp3", ".ogg")
"""How the names of pictures and sounds end, which nobody means as a text."""
FLAT = "_flat"
"""Names the inputs whose first axis runs over the pictures of all examples, or their patches, one after the other."""
PLACEHOLDERS = tuple(f"{what}_token_{number}" for what in ("image", "video", "audio") for number in ("id", "index"))


class ImageTextLM(CausalLM):
    """Takes `{"image": …, "text": …}` (or `"images": [ … ]`), messages of a chat with pictures in them, or what the
    model's processor made of these. Pictures are paths, bytes, PIL images or arrays.

    Where pictures stand in the text there are tokens that only hold their place; these are no features.
    """

    task = "image-text-to-text"
    companion: ClassVar[Companion] = "processor"
    casts = True
    other: ClassVar[str] = "image"
    """What goes with a text, in inputs and in messages."""
    noun: ClassVar[str] = "picture"
    """The same in a sentence."""
    keys: ClassVar[tuple[str, ...]] = ("image", "images")
    """What an input calls one of it, and several."""
    seen_as: ClassVar[tuple[str, ...]] = (PIXELS,)
    """What the model may call it."""

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, getattr(processor, "tokenizer", processor), **options)
        self.processor: Any = processor if hasattr(processor, "tokenizer") else None
        named = [getattr(holder, name, None) for holder in (self.config, processor) for name in PLACEHOLDERS]
        self._placeholders = frozenset(i for i in named if isinstance(i, int))
        self._mark = str(getattr(self.processor, f"{self.other}_token", None) or "")
        """What holds the place of a picture in a text."""
        self._shared: dict[frozenset[str], dict[str, Any]] = {}

    @property
    def reads(self) -> str:
        return "pictures with text" if self.processor is not None else "encoded pictures (it came without a processor)"

    def fill(self) -> dict[str, int]:
        return {IDS.name: super().fill()[IDS.name]}

    # -- encoding --------------------------------------------------------------------------------------------

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        if isinstance(inputs, Mapping) and any(key in inputs for key in self.keys):
            return [inputs], True
        return super().split(inputs)

    def unreadable(self, item: Any) -> InputError:
        if item is None:
            return super().unreadable(item)
        return InputError(f"can't read {type(item).__name__}: this model takes {self._form}, or a text")

    def encode_one(
        self,
        item: Any,
        *,
        truncate: bool = False,
        continuation: Continuation | None = None,
        generate: Generate | None = None,
    ) -> Example:
        chat = is_chat(item) and self.processor is not None
        if not chat and not isinstance(item, (EncodedRow, Mapping)):  # text alone
            if (
                isinstance(item, str) and item.lower().endswith(FILES) and os.path.isfile(item)
            ):  # Path fails on long texts
                raise InputError(f"{item!r} is a file, and would be read as a text: this model takes {self._form}")
            self._check_places(item.count(self._mark) if isinstance(item, str) and self._mark else 0, 0)
            return super().encode_one(item, truncate=truncate, continuation=continuation, generate=generate)
        prompt = self._from_row(item) if isinstance(item, EncodedRow) else self._prompt(item)
        prompt = replace(prompt, rows=(prompt.parts[0].count - 1,))
        if continuation is not None:
            return self.continued(prompt, continuation)
        return self.with_written(prompt, self.write(prompt, generate)) if generate else prompt

    def _prompt(self, item: Any) -> Example:
        if self.processor is None:
            raise InputError(
                "this model came without a processor. Pass what its processor makes, {'input_ids': …, "
                f"{self.seen_as[0]!r}: …}}, or load it with one: whence.load((module, processor))"
            )
        tools = None
        if is_chat(item):
            said, tools = Chat.of(item)
            messages, held = self._conversation(said)
        else:
            self.check_keys(item, *self.keys, "text")
            messages, held = self._asked(item)
        pictures = [self._opened(one) for one in held]
        texts = [] if tools else [_without_template(messages, self._mark)]
        if tools or getattr(self.processor, "chat_template", None):
            texts.insert(0, Chat(messages, tools).rendered(self.processor))
        for text in texts:  # a template that knows no pictures leaves no place for them
            made = self._processed(text, pictures)
            if not pictures or not self._placeholders or self._placeholders & set(made[IDS.name][0].tolist()):
                break
        else:
            raise InputError(
                f"the model's processor left no place for the {self.noun} in the text: encode both yourself"
            )
        alone = {k: v[0] for k, v in made.items() if v.dim() and v.shape[0] == 1}
        return self._joint(alone, {k: v for k, v in made.items() if k not in alone}, pictures)

    def _asked(self, item: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[Any]]:
        """A message with pictures, and these: they stand before its text, or where the text itself has their mark."""
        given = [item[key] for key in self.keys if item.get(key) is not None]
        if len(given) > 1:
            raise InputError(f"pass {' or '.join(map(repr, self.keys))}, not both")
        many = bool(given) and self._are_several(given[0])
        pictures = list(given[0]) if many else given
        text = item.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"a {self.noun} comes with a text: {self._form}")
        lacking = next((key for key in self.keys if key in item and item[key] is None), None)
        if lacking is not None and not given:
            raise InputError(f"the {self.noun} is missing ({lacking!r} is None): pass {self._form}, or the text alone")
        said = text.split(self._mark) if self._mark else [text]
        if len(said) == 1:
            said = [*[""] * len(pictures), text]
        self._check_places(len(said) - 1, len(pictures))
        content: list[dict[str, str]] = [{"type": "text", "text": said[0]}] if said[0] else []
        for part in said[1:]:
            content += [{"type": self.other}, *([{"type": "text", "text": part}] if part else [])]
        return [{"role": "user", "content": content}], pictures

    @property
    def _form(self) -> str:
        return f"{{{self.other!r}: …, 'text': 'What is this?'}}"

    def _are_several(self, held: Any) -> bool:
        return isinstance(held, (list, tuple))

    def _check_places(self, places: int, held: int) -> None:
        if places != held:
            raise InputError(
                f"the text has {places} of the marks {self._mark!r}, which hold the place of a {self.noun}, for {held} "
                f"{self.noun}s. Leave them out, then {self.noun}s stand before the text; or write one for each"
            )

    def _conversation(self, item: Any) -> tuple[list[dict[str, Any]], list[Any]]:
        """Messages with a mark where each picture stands, and the pictures."""
        messages, found = [], []
        for message in item:
            content = message.get("content")
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            parts = []
            for part in content or ():
                if part.get("type") == self.other:
                    held = next((part[k] for k in (self.other, "path", "url") if part.get(k) is not None), None)
                    if held is None:
                        raise InputError(
                            f"a part of type {self.other!r} holds its {self.noun}: "
                            f"{{'type': {self.other!r}, {self.other!r}: …}}"
                        )
                    found.append(held)
                    parts.append({"type": self.other})
                elif part.get("type", "text") == "text" and isinstance(part.get("text"), str):
                    self._check_places(part["text"].count(self._mark) if self._mark else 0, 0)
                    parts.append({"type": "text", "text": part["text"]})
                else:
                    raise InputError(
                        f"a message holds parts of type 'text' and {self.other!r}, not {part.get('type')!r}: "
                        f"{{'type': {self.other!r}, {self.other!r}: …}}"
                    )
            messages.append({**message, "content": parts})
        return messages, found

    def _opened(self, item: Any) -> Any:
        """A picture as the processor takes it."""
        return opened(item).convert("RGB")

    def _processed(self, text: str, pictures: Sequence[Any]) -> dict[str, Tensor]:
        given = {"images": pictures} if pictures else {}
        return self._taken(self.processor(text=[text], **given, return_tensors="pt"))

    def _taken(self, made: Mapping[str, Any]) -> dict[str, Tensor]:
        """What the model takes of what its processor made."""
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
        inputs = {**alone, **flat}
        name = next((name for name in self.seen_as if name in inputs), None)
        holders = self._placeholders if name is not None else ()
        places = [n for n in real if n == real[-1] or int(ids[n]) not in holders]  # at the last it is asked what comes
        shown = [int(ids[n]) for n in places]
        text = Features(
            IDS, (len(shown),), self._names(shown), special=special_in(self.tokenizer, shown),
            sides=("text",) * len(shown), places=None if len(places) == len(ids) else tuple(places),
        )  # fmt: skip
        key = frozenset(flat)
        shared = self._shared.setdefault(key, {FLAT: key}) if flat else {}
        lost = next((k for k, v in inputs.items() if k != name and v.is_floating_point() and v.dim() > 1), None)
        if lost is not None:
            wanted = self.seen_as[0]
            raise InputError(f"{lost!r} would have no scores: of what is no text, {wanted!r} alone is explained")
        if name is None:
            return Example(inputs, (text,), shared=shared)
        other, drawn = self._beside(name, inputs, pictures)
        return Example(inputs, (text, other), shared=shared, image=drawn)

    def _beside(
        self, name: str, inputs: Mapping[str, Tensor], pictures: Sequence[Any]
    ) -> tuple[Features, np.ndarray | None]:
        """What stands beside the text: its features, and what it looks like."""
        part = self._patches(inputs)
        return part, self._shown(inputs[name], part, pictures)

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
        return squares(PIXELS, shape)

    @property
    def sees_apart(self) -> bool:
        """Whether pictures go through a model of their own, whose attention has other tokens than the text's."""
        return self._vision is not None

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


class ImageTextTeller(ImageTextLM, Telling):
    """Reads pictures with a text in an encoder, and writes in a decoder (Florence-2): all three are explained."""

    task = "image-text-to-text2text"
    reads_apart = "pictures, a text and what it wrote each with an attention of its own"
    aim = AbstractAdapter.aim
    needs_weights = Telling.needs_weights
    default_target = Telling.default_target

    @property
    def follows(self) -> str | None:
        return DECODER.name

    def fill(self) -> dict[str, int]:
        return dict.fromkeys((IDS.name, DECODER.name), self._pad_id or 0)

    def goes_with(self, name: str, sources: Sequence[Source]) -> Source:
        return DECODER if name.startswith("decoder_") else super().goes_with(name, sources)

    def encode_one(self, item: Any, **options: Any) -> Example:
        return Telling.encode_one(self, item, **options)

    def perceived(self, item: Any, truncate: bool = False) -> Example:
        if isinstance(item, EncodedRow):
            return self._from_row(item)
        return (
            self._prompt(item) if isinstance(item, Mapping) else TextAdapter.encode_one(self, item, truncate=truncate)
        )


class ImageTextClassifier(ImageTextLM):
    """Takes `{"image": …, "text": …}` and answers with one of its classes (ViLT)."""

    task = "visual-question-answering"
    writes = False
    speaks = False
    aim, spell, read, find = AbstractAdapter.aim, AbstractAdapter.spell, AbstractAdapter.read, AbstractAdapter.find

    @property
    def follows(self) -> str | None:
        return None

    def default_target(self, example: Example) -> AbstractTarget:
        return Predicted()

    def encode_one(self, item: Any, *, truncate: bool = False, **options: Any) -> Example:
        if not isinstance(item, (EncodedRow, Mapping)):
            raise InputError(f"can't read {type(item).__name__}: pass {{'image': picture, 'text': 'What is this?'}}")
        return self._from_row(item) if isinstance(item, EncodedRow) else self._prompt(item)


def _without_template(messages: Sequence[Mapping[str, Any]], mark: str) -> str:
    """What is said, one message after the other, for models that know no roles."""
    said = (part["text"] if part["type"] == "text" else mark for message in messages for part in message["content"])
    return "".join(said)
