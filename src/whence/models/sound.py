"""Models that hear: classes of sounds, and what is said in them. Relevance is read at samples or at a spectrum.

Features are pieces of time: the frames that the model cuts a wave into; of a spectrum, pieces of time and frequency.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.batch import Source
from whence.errors import EmptyInputError, InputError, InputTooLongError, ModelError, OptionError
from whence.models.adapter import AbstractAdapter, Companion, Kind
from whence.models.choosing import ImageMatcher
from whence.models.encoded import EncodedRow, encoded_rows
from whence.models.example import Example, ExampleBatch, Features
from whence.models.image import cells_of, pixels_of
from whence.models.listening import Sound, drawn_spectrum, drawn_wave, heard
from whence.models.targets import AbstractTarget, Term, View, field_of
from whence.models.telling import DECODER, Telling
from whence.results import Prediction
from whence.results.prediction import time_span

__all__ = ["INPUTS", "TIME", "AudioClassifier", "AudioMatcher", "Hearing", "SpeechLM", "SpeechRecogniser", "Spoken"]

INPUTS = ("input_features", "input_values")
NAME = "audio"
"""What an input calls its sound, where it has a name for it."""
RATE = 16000
"""Samples in a second, where nobody says otherwise."""
STEP = 0.02
"""Seconds of a piece of a wave, where the model does not cut it into frames."""
HOP = 0.01
"""Seconds from one column of a spectrum to the next, where the extractor does not say."""
SIZES = ("feature_size", "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "input_dim")
"""How many frequencies a spectrum has, in the words of extractors and models."""
EARS = ("audio_config", "encoder_config")
FILLS = ("silence", "mask", "pad", "unk")
"""Whatever is asked for where a text would be masked."""
TIME, BANDS = 0.1, 8
"""Of a spectrum: seconds of a piece of time, and pieces of frequency."""


class Hearing(AbstractAdapter):
    """Takes sounds: samples as arrays, (samples, rate), {"array": …, "sampling_rate": …}, files, bytes; or what the
    model's feature extractor made of these.
    """

    kind: ClassVar[Kind] = "sound"
    companion: ClassVar[Companion] = "feature_extractor"
    casts = True

    def __init__(self, module: nn.Module, extractor: Any = None, **options: Any):
        super().__init__(module, **options)
        self.extractor = getattr(extractor, "feature_extractor", extractor)

    @property
    def reads(self) -> str:
        if self.extractor is None:
            return "sounds as its feature extractor makes them (it came without one)"
        return f"sounds ({self.rate:,} samples a second)"

    @property
    def rate(self) -> int:
        return int(getattr(self.extractor, "sampling_rate", None) or RATE)

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        if isinstance(inputs, Mapping) and (name := _main(inputs)) is not None:
            value = torch.as_tensor(inputs[name])
            rows = encoded_rows(inputs, name, dims=value.dim() - 1)
            return list(rows), len(rows) == 1
        pair = isinstance(inputs, tuple) and len(inputs) == 2 and any(_is_number(part) for part in inputs)
        many = isinstance(inputs, (list, tuple)) and not pair and not (inputs and _is_number(inputs[0]))
        if many and not inputs:
            raise EmptyInputError("the list of sounds is empty")
        if isinstance(inputs, (Tensor, np.ndarray)) and inputs.ndim == 2 and min(inputs.shape) > 2:
            raise InputError(
                f"an array {tuple(inputs.shape)} may be several sounds, or one of many channels: pass a list of sounds"
            )
        return (list(inputs), False) if many else ([inputs], True)

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        if isinstance(item, EncodedRow):
            name = _main(item.inputs)
            assert name is not None
            inputs = {k: v for k, v in item.inputs.items() if k in self._accepted}
            return self._heard(name, inputs, None, item.shared)
        if isinstance(item, Mapping) and NAME in item:
            self.check_keys(item, NAME)
            item = item[NAME]
        return self._heard(*self._extracted(item, truncate))

    def _extracted(self, item: Any, truncate: bool = False) -> tuple[str, dict[str, Tensor], Sound]:
        if self.extractor is None:
            raise InputError(
                "this model came without a feature extractor, so it can't read sounds. Load it with one: "
                "whence.load((module, feature_extractor)), or pass what its feature extractor makes"
            )
        samples = heard(item, self.rate)
        name, made, hears = self._features_of(samples)
        if hears is not None and len(samples) / self.rate > hears + TIME:
            if not truncate:
                raise InputTooLongError(
                    f"the sound is {len(samples) / self.rate:.1f} s long, and the model hears {hears:.1f} s of it. "
                    "Pass truncate=True to explain the beginning, or cut it"
                )
            samples = samples[: int((hears - self._hop()) * self.rate)]  # the last frame hears beyond what is asked for
            name, made, _ = self._features_of(samples)
        inputs = {k: v[0] for k, v in made.items() if isinstance(v, Tensor) and k in self._accepted}
        return name, inputs, samples

    def _features_of(self, samples: Sound) -> tuple[str, Mapping[str, Any], float | None]:
        """What the feature extractor makes of a sound, with its name; of how many seconds, where it is a spectrum."""
        made = self.extractor(samples, sampling_rate=self.rate, return_tensors="pt")
        name = _main(made)
        if name is None:
            raise InputError(f"the feature extractor makes {sorted(made)} of a sound, none of which is explained")
        value = made[name][0]
        return name, made, None if value.dim() == 1 else self._upright(value).shape[1] * self._hop()

    def _heard(
        self, name: str, inputs: dict[str, Tensor], samples: Sound | None, shared: Mapping[str, Any] | None = None
    ) -> Example:
        value = inputs[name]
        if value.dim() == 1:
            count = self._frames(value.shape[0])
            seconds = value.shape[0] / self.rate / count
            names = tuple(time_span(n, seconds) for n in range(count))
            part = Features(Source(name, "frame"), (count,), names, seconds=seconds)
            shown = drawn_wave(value.float().numpy(force=True) if samples is None else samples, count)
        else:
            spectrum = self._upright(value)
            step = self._hop()
            count = max(1, round(spectrum.shape[1] * step / TIME))
            part = Features(
                Source(name, "frame"), (min(BANDS, spectrum.shape[0]), count), seconds=spectrum.shape[1] * step / count
            )
            shown = drawn_spectrum(spectrum)
        return Example(inputs, (part,), shared=shared or {}, image=shown)

    def _named(self, part: Features) -> Features:
        """The features of a sound that stand beside others, which have names."""
        bands, columns = part.shape if len(part.shape) == 2 else (1, part.count)
        names = part.names or tuple(
            f"{time_span(n, part.seconds)}, band {bands - row}" for row in range(bands) for n in range(columns)
        )
        return replace(part, names=names, sides=("sound",) * part.count, special=(False,) * part.count)

    def _frames(self, samples: int) -> int:
        """How many frames the model makes of a wave; pieces of 20 ms where it makes none."""
        count = getattr(self.module, "_get_feat_extract_output_lengths", None)
        if count is not None:
            found = int(count(torch.tensor(samples)))
            if found < 1:
                raise InputError(f"the sound is too short: the model makes no frame of {samples} samples")
            return found
        return max(1, round(samples / self.rate / STEP))

    def _upright(self, value: Tensor) -> Tensor:
        """A spectrum as (frequency from high to low, time), however the model wants it."""
        if value.numel() != value.shape[-2:].numel():
            raise InputError(
                f"the feature extractor makes several spectra of one sound, {tuple(value.shape)}, which are not "
                "explained: have it make one (truncation='rand_trunc')"
            )
        flat = value.reshape(value.shape[-2:])
        return (flat.T if self._time_first(flat.shape) else flat).flip(0)

    def _time_first(self, shape: Sequence[int]) -> bool:
        """Whether the second axis is that of frequencies: by what the extractor says, or the model; or the shorter."""
        for holder, times in ((self.extractor, self._stride), (self.config, 1), (self._ear, 1)):
            known = {n * times for n in _sizes(holder)}
            found = [size in known for size in shape]
            if found[0] != found[1]:
                return found[1]
        return shape[1] <= shape[0]

    def _hop(self) -> float:
        """Seconds from one column of a spectrum to the next."""
        hop = getattr(self.extractor, "hop_length", None)
        return (hop / self.rate if isinstance(hop, int) and hop > 0 else HOP) * self._stride

    @property
    def _stride(self) -> int:
        """Frames that the extractor puts into one: it says so, or the model wants as many times its frequencies."""
        said = getattr(self.extractor, "stride", None)
        if said:
            return int(said)
        makes, wants = _sizes(self.extractor), _sizes(self._ear)
        return wants[0] // makes[0] if makes and wants and not wants[0] % makes[0] else 1

    @property
    def _ear(self) -> Any:
        """The configuration of the part that hears, where a model has several."""
        return next((held for name in EARS if (held := getattr(self.config, name, None)) is not None), None)

    # -- running ---------------------------------------------------------------------------------------------

    def apart(self, example: Example) -> Hashable:
        """Sounds of other lengths are run apart: padding changes what many of these models hear."""
        return tuple((k, v.shape) for k, v in example.inputs.items() if k != DECODER.name)

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        if part.source.kind != "frame":
            return relevance
        if relevance.dim() == 1:
            return cells_of(relevance.float()[None], (1, part.count)).reshape(-1)
        return cells_of(self._upright(relevance.float()), part.shape).reshape(-1)

    def check_fill(self, fill: str) -> None:
        if fill not in FILLS:
            raise OptionError(f"unknown fill {fill!r}. What is taken from a sound is silent: fill='silence'")

    def masked(self, example: Example, keep: np.ndarray, fill: str = "silence") -> Example:
        """Pieces of a sound made silent: 0 in a wave, as low as anything in a spectrum."""
        self.check_fill(fill)
        part = example.parts[0]
        value = example.inputs[part.source.name]
        return replace(example, inputs={**example.inputs, part.source.name: self._silenced(part, value, keep)})

    def _silenced(self, part: Features, value: Tensor, keep: np.ndarray) -> Tensor:
        marks = torch.from_numpy(np.ascontiguousarray(keep, dtype=bool)).to(value.device)
        if value.dim() == 1:
            return torch.where(pixels_of(marks[None], (1, value.shape[0]))[0], value, 0.0)
        flat = value.reshape(value.shape[-2:])
        size = flat.T.shape if self._time_first(flat.shape) else flat.shape
        whole = pixels_of(marks.reshape(part.shape), size).flip(0)
        whole = whole.T if self._time_first(flat.shape) else whole
        return torch.where(whole.reshape(value.shape), value, value.min())

    def _hushed(self, example: Example, part: Features, gone: np.ndarray) -> Example:
        """A sound that stands beside a text, without some of its pieces."""
        name, keep = part.source.name, np.ones(part.count, dtype=bool)
        keep[gone] = False
        return replace(example, inputs={**example.inputs, name: self._silenced(part, example.inputs[name], keep)})


def _sizes(holder: Any) -> list[int]:
    """How many frequencies something says there are."""
    return [n for n in (getattr(holder, name, None) for name in SIZES) if isinstance(n, int) and n > 1]


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, np.number))


def _main(inputs: Mapping[str, Any]) -> str | None:
    return next((name for name in INPUTS if name in inputs), None)


class AudioClassifier(Hearing):
    task = "audio-classification"


@dataclass(frozen=True)
class Spoken(AbstractTarget):
    """What a model of frames spells (CTC): in every frame that says a letter that letter rather than the runner-up.

    All of it, or one of its words.
    """

    blank: int
    word: str | None = None

    def terms(self, view: View) -> tuple[list[Term], str]:
        logits = view.outputs("logits")
        best = logits.argmax(-1).tolist()
        letters = [n for n, i in enumerate(best) if i != self.blank]
        if not letters:
            raise InputError("the model hears nothing in this sound: all its frames are blank. Pass target=lambda …")
        chosen = letters if self.word is None else self._of_word(view, best)
        runners = logits[chosen].topk(2).indices.tolist()
        terms = []
        for frame, (first, second) in zip(chosen, runners, strict=True):
            rival = second if first == best[frame] else first
            terms += [Term((frame, best[frame])), Term((frame, rival), -1.0)]
        return terms, view.read(best) if self.word is None else self.word

    def _of_word(self, view: View, best: list[int]) -> list[int]:
        """The frames that spell a word."""
        spelled, frames = "", []
        last = self.blank
        for frame, i in enumerate(best):
            if i != self.blank:
                piece = "" if i == last else view.spell(i)
                spelled += piece
                frames += [[frame]] * len(piece) if piece else []
                if not piece and frames:
                    frames[-1] = [*frames[-1], frame]
            last = i
        place = f" {spelled} ".lower().find(f" {(self.word or '').strip().lower()} ")
        if place < 0:
            raise InputError(f"the model does not hear {self.word!r}: it hears {view.read(best)!r}")
        return sorted({frame for own in frames[place : place + len((self.word or "").strip())] for frame in own})


class SpeechRecogniser(Hearing):
    """Spells what is said, frame by frame. A word as target is one that it hears."""

    task = "ctc"
    companion = "processor"
    speaks = True

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, processor, **options)
        self.tokenizer = getattr(processor, "tokenizer", None)

    @property
    def _blank(self) -> int:
        held = getattr(self.config, "pad_token_id", None)
        blank = getattr(self.tokenizer, "pad_token_id", None) if held is None else held
        return int(blank or 0)

    def default_target(self, example: Example) -> AbstractTarget:
        return Spoken(self._blank)

    def target(self, choice: Any) -> AbstractTarget:
        return Spoken(self._blank, choice) if isinstance(choice, str) else super().target(choice)

    def spell(self, index: int) -> str:
        if self.tokenizer is None:
            return f"token {index}"
        piece = str(self.tokenizer.convert_ids_to_tokens(index))
        if piece == getattr(self.tokenizer, "word_delimiter_token", "|"):  # which some count among the special ones
            return " "
        return "" if piece in self.tokenizer.all_special_tokens else piece.replace("▁", " ")

    def read(self, ids: Sequence[int]) -> str:
        kept = [i for n, i in enumerate(ids) if i != self._blank and (n == 0 or i != ids[n - 1])]
        return ("" if self.tokenizer else " ").join(map(self.spell, kept)).strip()

    def predictions(self, outputs: Any, batch: ExampleBatch) -> list[Prediction]:
        logits = field_of(outputs, "logits").detach().float()
        best = logits.max(-1)
        says = [self.read(row) for row in best.indices.tolist()]
        return [
            Prediction((text,), (float(score),), ()) for text, score in zip(says, best.values.mean(-1), strict=True)
        ]


class SpeechLM(Hearing, Telling):
    """Hears, and writes what was said: `continuation=` is a text that was written elsewhere."""

    task = "automatic-speech-recognition"
    companion = "processor"
    kind: ClassVar[Kind] = "sound"
    reads_apart = "a sound in other pieces than its features are"

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        if not getattr(getattr(module, "config", None), "is_encoder_decoder", True):
            raise ModelError(
                f"{type(module).__name__} reads sounds among the tokens of a text: load it without task=, and pass "
                "{'audio': …, 'text': …}"
            )
        Telling.__init__(self, module, getattr(processor, "tokenizer", None), **options)
        self.extractor = getattr(processor, "feature_extractor", processor)

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        return Hearing.split(self, inputs)

    def perceived(self, item: Any, truncate: bool = False) -> Example:
        sound = Hearing.encode_one(self, item, truncate=truncate)
        return replace(sound, parts=(self._named(sound.parts[0]),))

    def encode_one(self, item: Any, **options: Any) -> Example:
        return Telling.encode_one(self, item, **options)

    def masked(self, example: Example, keep: np.ndarray, fill: str = "mask") -> Example:
        sound, text = example.slices()
        return self.untold(Hearing.masked(self, example, keep[sound]), keep[text], fill)

    def check_fill(self, fill: str) -> None:
        if fill not in FILLS:
            Telling.check_fill(self, fill)


class AudioMatcher(ImageMatcher, Hearing):
    """Takes `{"audio": …, "labels": [ … ]}`: a sound is matched with each label (CLAP)."""

    task = "zero-shot-audio-classification"
    kind: ClassVar[Kind] = "text"
    companion: ClassVar[Companion] = "processor"
    other = "audio"
    seen_as = INPUTS

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, processor, **options)
        self.extractor = getattr(processor, "feature_extractor", None)

    def _other(self, item: Any, truncate: bool) -> tuple[dict[str, Tensor], np.ndarray | None]:
        name, inputs, samples = self._extracted(item, truncate)
        return inputs, self._heard(name, inputs, samples).image

    def _squares(self, name: str, value: Tensor) -> Features:
        return self._named(self._heard(name, {name: value}, None).parts[0])

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        return Hearing.by_feature(self, part, relevance)

    def _without(self, example: Example, part: Features, gone: np.ndarray, fill: str) -> Example:
        if part.source.kind != "frame":
            return super()._without(example, part, gone, fill)
        return self._hushed(example, part, gone)
