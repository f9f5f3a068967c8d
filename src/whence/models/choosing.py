"""Models that choose among texts: multiple choice, labels tried on a text, and pictures or sounds matched with labels.

The texts of one example are one sequence of tokens here, each token with the number of its text; `forward` lays them
out as rows. So tokens are named, masked, deleted and padded as everywhere else, and padding is never a feature.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.batch import Source
from whence.errors import InputError, ModelError
from whence.models.adapter import Companion
from whence.models.beside import BesidePicture
from whence.models.example import Example, Features
from whence.models.image import PIXELS, grid_of, opened, patch_of, seen, shown_as, squares
from whence.models.targets import field_of
from whence.models.text import IDS, TextAdapter

__all__ = ["Chooser", "ImageMatcher", "MultipleChoice", "TextMatcher"]

NUMBER = "text_number"
"""Which text a token belongs to; none in padding."""
ALONG = (IDS.name, "token_type_ids")
"""Inputs with a number for each token."""
ROWS = (*ALONG, "attention_mask")
TEMPLATE = "This example is {}."


class Chooser(TextAdapter):
    """Gives one score for each of several texts."""

    texts: ClassVar[str]
    """What the texts are called in an input."""
    others: ClassVar[tuple[str, ...]] = ("text",)
    """What else an input may hold."""
    reads_apart = "each of the texts by itself"

    def __init__(self, module: nn.Module, tokenizer: Any = None, **options: Any):
        super().__init__(module, tokenizer, **options)
        self.classes, self.labels = self.labels, ()
        """What the model itself calls its outputs; what is chosen from comes with each input."""

    @property
    def reads(self) -> str:
        return f"{{'text': …, '{self.texts}': [ … ]}}"

    def fill(self) -> dict[str, int]:
        return {**super().fill(), NUMBER: -1}

    def apart(self, example: Example) -> Hashable:
        return len(example.labels)

    # -- encoding --------------------------------------------------------------------------------------------

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        if isinstance(inputs, Mapping):
            return [inputs], True
        if isinstance(inputs, (list, tuple)) and inputs and all(isinstance(i, (Mapping, Example)) for i in inputs):
            return list(inputs), False
        raise InputError(f"can't read {type(inputs).__name__}: this model takes {self.reads}, or a list of these")

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        texts = self._texts(item)
        self.check_keys(item, self.texts, *self.others)
        text = item.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"'text' is missing: this model takes {self.reads}")
        pairs = [self._tokenized(pair, False, truncate) for pair in self.rows_of(item, texts)]
        return self._joined(pairs, texts)

    def within_limit(self, example: Example) -> Example:
        return example  # which is of each text, and was seen to when it was read

    def _texts(self, item: Any) -> tuple[str, ...]:
        """The texts to choose from."""
        found: Any = item.get(self.texts) if isinstance(item, Mapping) else None
        found = found.tolist() if hasattr(found, "tolist") else found
        if isinstance(found, str) or not isinstance(found, Sequence) or not all(isinstance(t, str) for t in found):
            raise InputError(f"{self.texts!r} is missing, or no list of texts: this model takes {self.reads}")
        if not found or not all(t.strip() for t in found):
            raise InputError(f"{self.texts!r} is empty, or has a text that is: there is nothing to choose")
        return tuple(found)

    def rows_of(self, item: Mapping[str, Any], texts: Sequence[str]) -> list[list[str]]:
        """What the model reads for each of the texts: one text, or two."""
        raise NotImplementedError

    def _joined(self, read: Sequence[Example], texts: tuple[str, ...]) -> Example:
        """What the tokenizer made of each text, as one example."""
        names = [name for name in read[0].inputs if name != IDS.mask]
        inputs = {name: torch.cat([e.inputs[name] for e in read]) for name in names}
        parts = [e.parts[0] for e in read]
        inputs[NUMBER] = torch.cat([torch.full((part.count,), n) for n, part in enumerate(parts)])
        words, before = [], 0
        for part in parts:
            words += [None if w is None else w + before for w in part.word_ids]
            before += 1 + max((w for w in part.word_ids if w is not None), default=-1)
        joined = Features(
            IDS,
            (len(inputs[NUMBER]),),
            tuple(name for part in parts for name in part.names),
            word_ids=tuple(words) if all(part.word_ids for part in parts) else (),
            special=tuple(flag for part in parts for flag in (part.special or (False,) * part.count)),
            sides=tuple(text for text, part in zip(texts, parts, strict=True) for _ in range(part.count)),
        )
        return Example(inputs, (joined,), labels=texts)

    # -- running ---------------------------------------------------------------------------------------------

    def laid_out(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Every input with a number for each token as (example, text, token), and a mask of the same shape."""
        numbers = inputs[NUMBER]
        examples, length = numbers.shape
        own = numbers[:, None] == torch.arange(int(numbers.max()) + 1, device=numbers.device)[None, :, None]
        lengths, begin = own.sum(-1, keepdim=True), own.long().argmax(-1, keepdim=True)
        steps = torch.arange(int(lengths.max()), device=numbers.device)
        real = steps < lengths
        index = torch.where(real, begin + steps, length).flatten(1)
        fill, made = self.fill(), dict(inputs)
        del made[NUMBER]
        for name, value in inputs.items():
            if name in ALONG:
                filled = torch.cat([value, value.new_full((examples, 1), fill.get(name, 0))], 1)
                made[name] = filled.gather(1, index).view(real.shape)
        if IDS.mask in self._accepted:
            made["attention_mask"] = real.long()
        return made


class MultipleChoice(Chooser):
    """Takes `{"text": …, "choices": [ … ]}`: the text with each of the choices."""

    task = "multiple-choice"
    classifies = False
    texts = "choices"

    def rows_of(self, item: Mapping[str, Any], texts: Sequence[str]) -> list[list[str]]:
        return [[item["text"], choice] for choice in texts]

    def forward(self, inputs: dict[str, Any]) -> Any:
        return super().forward(self.laid_out(inputs))


class TextMatcher(Chooser):
    """Takes `{"text": …, "labels": [ … ]}`: a model of entailment is asked for each label whether the text says it.

    `"template"` is what it is asked, with {} for the label.
    """

    task = "zero-shot-classification"
    texts = "labels"
    others = ("text", "template")

    def __init__(self, module: nn.Module, tokenizer: Any = None, **options: Any):
        super().__init__(module, tokenizer, **options)
        found = [n for n, label in enumerate(self.classes) if label.lower().startswith("entail")]
        if not found:
            raise ModelError(
                f"labels are tried on a text by a model of entailment, and this one says {', '.join(self.classes)}. "
                'Name its classes: whence.load(…, labels=["contradiction", "neutral", "entailment"])'
            )
        self._entails = found[0]

    def rows_of(self, item: Mapping[str, Any], texts: Sequence[str]) -> list[list[str]]:
        template = item.get("template", TEMPLATE)
        if not isinstance(template, str) or "{}" not in template:
            raise InputError(f"the template is a text with {{}} for the label, such as {TEMPLATE!r}, not {template!r}")
        return [[item["text"], template.replace("{}", label)] for label in texts]

    def forward(self, inputs: dict[str, Any]) -> Any:
        laid = self.laid_out(inputs)
        shape = laid[IDS.name].shape
        rows = {k: v.flatten(0, 1) if k in ROWS else v for k, v in laid.items()}
        logits = field_of(super().forward(rows), "logits")
        return SimpleNamespace(logits=logits.view(*shape[:2], -1)[..., self._entails], all_logits=logits)


class ImageMatcher(BesidePicture, Chooser):
    """Takes `{"image": …, "labels": [ … ]}`: a picture is matched with each label (CLIP, SigLIP, ALIGN)."""

    task = "zero-shot-image-classification"
    classifies = False
    companion: ClassVar[Companion] = "processor"
    texts = "labels"
    other: ClassVar[str] = "image"
    """What the texts are matched with."""
    seen_as: ClassVar[tuple[str, ...]] = (PIXELS,)
    """What the model may call it."""
    casts = True
    reads_apart = "each label by itself, and what it is matched with"

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, getattr(processor, "tokenizer", processor), **options)
        self.processor: Any = processor if hasattr(processor, "tokenizer") else None

    @property
    def reads(self) -> str:
        return f"{{'{self.other}': …, 'labels': [ … ]}}"

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        if isinstance(item, Mapping) and isinstance(item.get(IDS.name), Tensor):
            return self._encoded(item)
        texts = self._texts(item)
        self.check_keys(item, self.texts, self.other)
        if item.get(self.other) is None:
            raise InputError(f"{self.other!r} is missing: this model takes {self.reads}")
        if self.processor is None:
            raise InputError(
                "this model came without a processor, so it can't read what it is given. Load it with one: "
                "whence.load((module, processor)), or pass what its processor makes"
            )
        labels = self._joined([self.read_label(text, truncate) for text in texts], texts)
        return self._beside(labels, *self._other(item[self.other], truncate))

    def rows_of(self, item: Mapping[str, Any], texts: Sequence[str]) -> list[list[str]]:
        return [[label] for label in texts]

    def read_label(self, text: str, truncate: bool) -> Example:
        """One label. Models that know no mask read the padding too, always as much of it (SigLIP)."""
        tokenizer = self._reader
        if IDS.mask in tokenizer.model_input_names:
            return self._tokenized([text], False, truncate)
        made = tokenizer(text, padding="max_length", truncation=True, verbose=False)
        backend = made.encodings[0] if getattr(tokenizer, "is_fast", False) else None
        return self._read(dict(made), backend, [text])

    def _other(self, item: Any, truncate: bool) -> tuple[dict[str, Tensor], np.ndarray | None]:
        """What a picture is to the model, and to people."""
        if isinstance(item, Tensor) and item.is_floating_point():  # normalised already
            return {PIXELS: item}, shown_as(item.float().numpy(force=True))
        picture = opened(item).convert("RGB")
        made = self.processor.image_processor(images=picture, return_tensors="pt")
        inputs = {k: v[0] for k, v in made.items() if isinstance(v, Tensor) and k in self._accepted}
        shown = inputs[PIXELS].dim() >= 3
        return inputs, seen(inputs[PIXELS], self.processor.image_processor) if shown else np.asarray(picture)

    def _encoded(self, item: Mapping[str, Any]) -> Example:
        """What a processor made of one picture and several labels."""
        ids, mask = item[IDS.name], item.get(IDS.mask or "")
        rest = {k: v for k, v in item.items() if isinstance(v, Tensor) and k not in (IDS.name, IDS.mask)}
        other = {k: v[0] for k, v in rest.items() if k in self._accepted and k in self.seen_as}
        name = next(iter(other), None)
        if name is None or ids.dim() != 2 or rest[name].shape[0] != 1:
            raise InputError(f"encoded inputs are for one {self.other} and several labels; pass others one by one")
        along = {k: v for k, v in rest.items() if k in ALONG and k in self._accepted}
        other |= {k: v[0] for k, v in rest.items() if k in self._accepted and k not in along and k != name}
        real = torch.ones_like(ids) if mask is None else mask
        read, texts = [], []
        for n, row in enumerate(real.bool()):
            kept = {IDS.name: ids[n][row], **{k: v[n][row] for k, v in along.items()}}
            read.append(Example(kept, (self._features(IDS, kept),)))
            names, special = read[-1].parts[0].names, read[-1].parts[0].special
            said = "".join(t for t, s in zip(names, special or (False,) * len(names), strict=True) if not s).strip()
            texts.append(said or f"text {n + 1}")
        return self._beside(self._joined(read, tuple(texts)), other, None)

    def _beside(self, labels: Example, other: dict[str, Tensor], shown: np.ndarray | None) -> Example:
        """Labels and what they are matched with."""
        name = next(name for name in self.seen_as if name in other)
        part = self._squares(name, other[name])
        return replace(labels, inputs={**labels.inputs, **other}, parts=(*labels.parts, part), image=shown)

    def _squares(self, name: str, value: Tensor) -> Features:
        if value.dim() < 3:
            shape: tuple[int, ...] = (value.shape[0],)
        else:
            shape = grid_of(value.shape[-2:], patch_of(self._tower, getattr(self.config, "vision_config", None)))
        return squares(name, shape)

    @property
    def _tower(self) -> nn.Module:
        return getattr(self.module, "vision_model", self.module)

    # -- running ---------------------------------------------------------------------------------------------

    def forward(self, inputs: dict[str, Any]) -> Any:
        laid = self.laid_out(inputs)
        examples, count, _ = laid[IDS.name].shape
        outputs = super().forward({k: v.flatten(0, 1) if k in ROWS else v for k, v in laid.items()})
        name = f"logits_per_{self.other}"
        match = field_of(outputs, name).view(examples, examples, count)
        own = torch.arange(examples, device=match.device)  # each with the labels of its own example
        logits = match[own, own]
        others = {
            k: v.unflatten(0, (examples, count)) if k.startswith("text") else v
            for k, v in outputs.items()
            if isinstance(v, Tensor) and not k.startswith("logits_per_")
        }
        return SimpleNamespace(**others, **{"logits": logits, name: logits})

    def goes_with(self, name: str, sources: Sequence[Source]) -> Source:
        return next((s for s in sources if s.name == name), sources[0])

    def apart(self, example: Example) -> Hashable:
        others = tuple((k, v.shape) for k, v in example.inputs.items() if k not in (*ALONG, NUMBER))
        return super().apart(example), others
