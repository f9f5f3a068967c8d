"""Models that give an embedding: what they have in common, and those that are an encoder without a head.

The outputs of each are a mapping with the embedding of the whole input, `EMBEDDING` (example, dimension), and where
there is one for each token, `TOKENS` (example, token, dimension).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from whence.errors import InputError, ModelError
from whence.models.adapter import AbstractAdapter
from whence.models.batching import batches, budget_of
from whence.models.choosing import ImageMatcher
from whence.models.example import Example, ExampleBatch
from whence.models.findings import Findings
from whence.models.image import AbstractImageReader
from whence.models.targets import AbstractTarget, Custom, field_of
from whence.models.text import IDS, TextAdapter

__all__ = [
    "ADVICE",
    "EMBEDDING",
    "MEASURES",
    "TASK",
    "TOKENS",
    "Embeds",
    "Measure",
    "PictureSide",
    "Pooling",
    "Saved",
    "SimilarTo",
    "TextEncoder",
    "TextSide",
    "is_picture",
    "similar_to",
]

TASK = "sentence-embedding"
EMBEDDING, TOKENS = "sentence_embedding", "token_embeddings"
Measure = Literal["cosine", "dot", "maxsim"]
"""How two embeddings are compared."""
MEASURES: tuple[str, ...] = get_args(Measure)
Pooling = Literal["mean", "cls", "last"]
"""How the embeddings of tokens become one: their mean, that of the first, that of the last."""
ADVICE = (
    "pass target=whence.similar_to(other), a number, target=3 (that dimension), or a function of the outputs, "
    f"target=lambda outputs: outputs[{EMBEDDING!r}] @ other"
)
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")


@dataclass(frozen=True)
class SimilarTo:
    """A target: how similar the embedding of an input is to that of another."""

    other: Any
    measure: Measure | None = None
    made: WeakKeyDictionary[Embeds, tuple[int, Custom]] = field(
        default_factory=WeakKeyDictionary, compare=False, repr=False
    )
    """The function for each model that was asked, as it was then. One for all inputs: they stand in one batch."""

    def __reduce__(self) -> tuple[Any, ...]:
        return SimilarTo, (self.other, self.measure)  # another process has other models


def similar_to(other: Any, measure: Measure | None = None) -> SimilarTo:
    """Explain the similarity to another input, which is held constant: one backward pass for each explained input.

    With any method and any number of inputs: `whence.explain(model, texts, "gae", target=whence.similar_to("a cat"))`.
    `whence.similarity` has both sides, and which part of one goes with which of the other.
    """
    return SimilarTo(other, measure)


class Embeds(AbstractAdapter):
    """Gives an embedding. None of its numbers says more than the others, so there is no default target."""

    task = TASK
    fields = (EMBEDDING,)
    classifies = False

    @property
    def dimensions(self) -> int:
        """How long an embedding is."""
        raise NotImplementedError

    @property
    def measure(self) -> str:
        """How the model says that its embeddings are to be compared."""
        return "cosine"

    def side_for(self, item: Any) -> Embeds:
        """What reads an item: this, unless the model has a side for texts and one for pictures."""
        return self

    def vectors(self, outputs: Any, batch: ExampleBatch, n: int, measure: str) -> Tensor:
        """What is compared of an example: its embedding (1, dimension), or for `maxsim` those of its tokens."""
        if measure != "maxsim":
            whole: Tensor = outputs[EMBEDDING][n : n + 1]
            return whole
        if TOKENS not in outputs:
            raise InputError(
                "measure='maxsim' compares the embeddings of tokens, and this model gives one for the whole input: "
                "use 'cosine' or 'dot'"
            )
        return batch.own(batch.names[0], n, outputs[TOKENS])

    def embedded(self, examples: Sequence[Example], measure: str = "dot") -> list[Tensor]:
        """`vectors` of examples, on the CPU, computed in batches without any graph."""
        made: list[Tensor] = [torch.empty(0)] * len(examples)
        for part in batches(self, examples, budget_of(self.device, "score")):
            batch = self.collate([examples[i] for i in part])
            with torch.no_grad():
                outputs = self.run(batch)
            self.check_finite(outputs)
            for n, i in enumerate(part):
                made[i] = self.vectors(outputs, batch, n, measure).cpu()
        return made

    def default_target(self, example: Example) -> AbstractTarget:
        """As good as any other, to measure how long one takes. Nobody is answered with it: see `aim`."""
        return self.target(0)

    def aim(self, example: Example, choice: Any) -> tuple[Example, AbstractTarget]:
        if choice is None:
            raise InputError(f"an embedding has {self.dimensions} numbers, and none of them is its answer: {ADVICE}")
        return super().aim(example, choice)

    def target(self, choice: Any) -> AbstractTarget:
        if isinstance(choice, SimilarTo):
            number, made = choice.made.get(self, (None, None))
            if made is None or number != self.known.number:
                number, made = choice.made[self] = self.known.number, self._similar(choice)
            return made
        if isinstance(choice, (int, np.integer)) and not isinstance(choice, bool):
            number = int(choice)
            if not 0 <= number < self.dimensions:
                raise InputError(f"the embedding has {self.dimensions} dimensions, and none of number {number}")

            def dimension(outputs: Any) -> Any:
                return outputs[EMBEDDING][:, number]

            dimension.__name__ = f"dimension {number}"
            return Custom(dimension)
        if callable(choice) or isinstance(choice, Custom):
            return super().target(choice)
        raise InputError(f"{choice!r} is no target of a {self.task} model: {ADVICE}")

    def _similar(self, choice: SimilarTo) -> Custom:
        measure = self.measure if choice.measure is None else choice.measure
        if measure not in ("cosine", "dot"):
            raise InputError(f"a target is measured by 'cosine' or 'dot', not by {measure!r}: use whence.similarity")
        side = self.side_for(choice.other)
        examples, single = side.encode(choice.other)
        if not single:
            raise InputError(
                f"similar_to takes one input, not a list of {len(examples)}: whence.similar_to(text), for one at a "
                "time, or whence.similarity(model, a, [text, …]) for pairs with each"
            )
        (example,) = examples
        other = side.embedded([example])[0][0]
        if measure == "cosine":
            other = other / torch.linalg.vector_norm(other)

        def similarity(outputs: Any) -> Tensor:
            found: Tensor = outputs[EMBEDDING]
            score = found @ other.to(found)
            return score / torch.linalg.vector_norm(found.detach(), dim=-1) if measure == "cosine" else score

        shown = example.text if example.text is not None else "the picture"
        similarity.__name__ = f"{measure} similarity to {shown!r}"
        return Custom(similarity)


@dataclass(frozen=True)
class Saved:
    """What sentence-transformers wrote beside an encoder."""

    pooling: Pooling = "mean"
    measure: str = "cosine"
    limit: int | None = None


class TextEncoder(Embeds, TextAdapter):
    """An encoder without a head: the embeddings of its tokens, pooled to one."""

    unread = ("pooler",)

    def __init__(self, module: nn.Module, tokenizer: Any = None, *, saved: Saved | None = None, **options: Any):
        super().__init__(module, tokenizer, **options)
        if "decoder_input_ids" in self._accepted:
            raise ModelError(
                f"{type(module).__name__} has an encoder and a decoder, and embeds what it writes. Pass its encoder: "
                "(model.get_encoder(), tokenizer)"
            )
        self.saved = saved or Saved()

    def pooling_by(self, pooling: Pooling) -> TextEncoder:
        """The same encoder with another pooling."""
        made = copy.copy(self)
        made.saved = replace(self.saved, pooling=pooling)
        made.begin_with(Findings())
        return made

    @property
    def measure(self) -> str:
        return self.saved.measure

    @property
    def limit(self) -> int | None:
        known = (super().limit, self.saved.limit)
        return min((n for n in known if n), default=None)

    @property
    def dimensions(self) -> int:
        config = self.config.get_text_config() if hasattr(self.config, "get_text_config") else self.config
        return int(config.hidden_size)

    def forward(self, inputs: dict[str, Any]) -> Any:
        tokens = field_of(super().forward(inputs), "last_hidden_state")
        mask = inputs.get(IDS.mask or "")
        mask = torch.ones(tokens.shape[:2], device=tokens.device) if mask is None else mask
        return {EMBEDDING: pooled(tokens, mask, self.saved.pooling), TOKENS: tokens}


def pooled(tokens: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """Embeddings of tokens (example, token, dimension) as one, wherever padding stands.

    >>> pooled(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[1, 1, 0]]), "mean").tolist()
    [[2.0]]
    """
    real = mask.to(tokens.dtype)
    if pooling == "mean":
        shares = real / real.sum(1, keepdim=True).clamp_min(1)
    else:
        order = real.cumsum(1) if pooling == "cls" else real.flip(1).cumsum(1).flip(1)
        shares = real * (order == 1)
    return (tokens * shares[..., None]).sum(1)


class _Tower(Embeds):
    """One side of a model that matches pictures with texts."""

    feature: ClassVar[str]
    """The function of the model that gives its embedding."""
    matcher: ImageMatcher

    @property
    def dimensions(self) -> int:
        known = (getattr(self.config, "projection_dim", None), getattr(self.config.text_config, "hidden_size", None))
        return int(next(n for n in known if n))

    def side_for(self, item: Any) -> Embeds:
        return (PictureSide if is_picture(item) else TextSide)(self.matcher)

    def forward(self, inputs: dict[str, Any]) -> Any:
        with self.running():
            found = getattr(self.module, self.feature)(**inputs)
        return {EMBEDDING: found if isinstance(found, Tensor) else field_of(found, "pooler_output")}


class TextSide(_Tower, TextAdapter):
    """Reads captions."""

    feature = "get_text_features"

    def __init__(self, matcher: ImageMatcher):
        super().__init__(matcher.module, matcher.tokenizer, name=matcher.name)
        self.matcher = matcher

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        return [inputs["text"] if isinstance(inputs, Mapping) and "text" in inputs else inputs], True

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        if isinstance(item, str) and item.strip():
            return self.matcher.read_label(item, truncate)
        return super().encode_one(item, truncate=truncate)


class PictureSide(_Tower, AbstractImageReader):
    """Reads pictures."""

    feature = "get_image_features"

    def __init__(self, matcher: ImageMatcher):
        reader = getattr(matcher.processor, "image_processor", None)
        super().__init__(matcher.module, reader, name=matcher.name)
        self.matcher = matcher

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        return [inputs["image"] if isinstance(inputs, Mapping) and "image" in inputs else inputs], True


def is_picture(item: Any) -> bool:
    """Whether a model that reads both would take an item for a picture: all but texts, and names of picture files."""
    if isinstance(item, Mapping):
        return "image" in item
    if isinstance(item, str):
        return item.lower().endswith(PICTURES) and Path(item).expanduser().is_file()
    return not isinstance(item, list)
