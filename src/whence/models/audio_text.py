"""Models that read a sound among the tokens of a text, and write: tokens and pieces of the sound in one receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from whence.errors import InputError, InputTooLongError
from whence.models.adapter import Companion
from whence.models.example import Example, Features
from whence.models.listening import heard
from whence.models.sound import INPUTS, TIME, Hearing
from whence.models.together import ImageTextLM

__all__ = ["AudioTextLM"]


class AudioTextLM(ImageTextLM, Hearing):
    """Takes `{"audio": …, "text": …}`, messages of a chat with a sound in them, or what the model's processor made of
    these. A sound is samples, (samples, rate), {"array": …, "sampling_rate": …}, a file, or bytes.
    """

    task = "audio-text-to-text"
    companion: ClassVar[Companion] = "processor"
    other = "audio"
    noun = "sound"
    keys = ("audio",)
    seen_as = INPUTS

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, processor, **options)
        readers = (getattr(self.processor, name, None) for name in ("feature_extractor", "audio_processor"))
        self.extractor = next((reader for reader in readers if reader is not None), None)

    @property
    def reads(self) -> str:
        return "sounds with text" if self.processor is not None else "encoded sounds (it came without a processor)"

    def _are_several(self, held: Any) -> bool:
        return False  # a list is samples

    def _opened(self, item: Any) -> Any:
        return heard(item, self.rate)

    def _processed(self, text: str, pictures: Sequence[Any]) -> dict[str, Tensor]:
        sounds = {"audio": list(pictures), "audio_kwargs": {"sampling_rate": self.rate}} if pictures else {}
        return self._taken(self.processor(text=[text], **sounds, return_tensors="pt"))

    def _beside(
        self, name: str, inputs: Mapping[str, Tensor], pictures: Sequence[Any]
    ) -> tuple[Features, np.ndarray | None]:
        value, samples = inputs[name], pictures[0] if len(pictures) == 1 else None
        if value.dim() > 2 and len(value) > 1:
            raise InputError(
                f"the processor makes {len(value)} pieces of this, and one is explained: pass a shorter sound"
            )
        sound = self._heard(name, {name: value}, samples)
        hears = sound.parts[0].shape[-1] * sound.parts[0].seconds
        if samples is not None and value.dim() > 1 and len(samples) / self.rate > hears + TIME:
            raise InputTooLongError(
                f"the sound is {len(samples) / self.rate:.1f} s long, and the model hears {hears:.1f} s of it: cut it"
            )
        return self._named(sound.parts[0]), sound.image

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        return Hearing.by_feature(self, part, relevance)

    def _without(self, example: Example, part: Features, gone: np.ndarray, fill: str) -> Example:
        if part.source.kind != "frame":
            return super()._without(example, part, gone, fill)
        return self._hushed(example, part, gone)
