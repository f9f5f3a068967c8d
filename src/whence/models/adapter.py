"""What every kind of model offers to methods: encode inputs, lay them out in batches, choose targets, shape results."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from whence.core.batch import Source
from whence.core.numerics import sent
from whence.errors import InputError, InputTooLongError, ModelError, WhenceError
from whence.models import padding
from whence.models.attending import hidden_attention
from whence.models.example import Example, ExampleBatch, Features
from whence.models.inspecting import Shell, in_short
from whence.models.outputs import NamedOutputs
from whence.models.targets import AbstractTarget, Class, Custom, Predicted
from whence.results import Explanation, Part

__all__ = ["AbstractAdapter", "Companion", "Kind"]

Kind = Literal["text", "image", "video", "sound", "module"]
"""What a model reads."""
Companion = Literal["tokenizer", "image_processor", "feature_extractor", "processor"]


class AbstractAdapter(NamedOutputs, ABC):
    """A model with what is needed to speak to it. The module itself is never changed."""

    kind: ClassVar[Kind]
    writes: ClassVar[bool] = False
    """Whether it goes on writing: `generate=` and `continuation=` are for these."""
    companion: ClassVar[Companion] = "tokenizer"
    """What reads its inputs for it."""
    tokenizer_will_do: ClassVar[bool] = False
    """Whether there are models of this kind that come without a processor, for their tokenizer is enough."""
    casts: ClassVar[bool] = False
    """Whether pictures and sounds go in with the precision of its weights, as most models of these demand."""
    reads_apart: ClassVar[str] = ""
    """What it reads one by one, in words, where no attention is over all its features."""
    unread: ClassVar[tuple[str, ...]] = ()
    """How the names of weights begin that it makes no use of."""

    # -- what a kind of model must say -----------------------------------------------------------------------

    @abstractmethod
    def encode_one(self, item: Any, *args: Any, **options: Any) -> Example:
        """One input, encoded."""

    @abstractmethod
    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        """The inputs one by one, for `encode_one`, and whether a single one was passed."""

    def default_target(self, example: Example) -> AbstractTarget:
        return Predicted()

    @property
    def chats(self) -> bool:
        """Whether it takes messages of a conversation: it comes with a chat template."""
        return False

    @property
    def limit(self) -> int | None:
        """The most tokens the model takes, where there is a limit."""
        return None

    # -- encoding --------------------------------------------------------------------------------------------

    def encode(self, inputs: Any, **options: Any) -> tuple[list[Example], bool]:
        """Examples, and whether a single one was passed. A list with something wrong in it says where."""
        found, single = self.attempt(inputs, **options)
        for n, made in enumerate(found):
            if isinstance(made, WhenceError):
                raise made if single else made.of_input(n) from None
        return [made for made in found if isinstance(made, Example)], single

    def attempt(self, inputs: Any, **options: Any) -> tuple[list[Example | WhenceError], bool]:
        """`encode`, with the error in the place of an input that can't be encoded."""
        items, single = self.split(inputs)
        made: list[Example | WhenceError] = []
        try:
            together = self.encode_some(items, **options)
        except Exception:  # one of them may be at fault: they are then encoded one by one
            together = [None] * len(items)
        for item, known in zip(items, together, strict=True):
            if known is not None:
                made.append(known)
                continue
            try:
                made.append(item if isinstance(item, Example) else self.within_limit(self.encode_one(item, **options)))
            except WhenceError as error:
                made.append(error)
            except Exception as error:  # of a tokenizer, a template, a processor: whatever it is, it is this input's
                failed = InputError(f"can't be encoded: {type(error).__name__}: {error}")
                failed.__cause__ = error
                made.append(failed)
        return made, single

    def encode_some(self, items: Sequence[Any], **options: Any) -> list[Example | None]:
        """Inputs that are encoded quicker together; None for those that `encode_one` is to look at."""
        return [None] * len(items)

    def within_limit(self, example: Example) -> Example:
        """The example, or an error where it has more tokens than the model takes."""
        words = [part.source.name for part in example.parts if part.source.kind == "token"]
        longest = max((example.inputs[name].shape[0] for name in words), default=0) if self.limit else 0
        if self.limit is not None and longest > self.limit:
            raise InputTooLongError(f"{longest} tokens, and the model takes at most {self.limit}: shorten the input")
        return example

    def check_keys(self, item: Mapping[str, Any], *known: str) -> None:
        """An error for what an input holds and nobody would read."""
        useless = next((key for key, value in item.items() if value is not None and key not in known), None)
        if useless is not None:
            names = ", ".join(map(repr, known))
            raise InputError(f"{useless!r} is of no use to {self.called}, which takes {self.reads}, named {names}")

    def needs_weights(self, options: Mapping[str, Any]) -> bool:
        """Whether encoding runs the model."""
        return options.get("generate") is not None

    def without_weights(self) -> AbstractAdapter:
        """An adapter that can encode and no more."""
        light = copy.copy(self)
        light.module = Shell(self.config)
        return light

    @property
    def blank(self) -> str | None:
        """What stands in a text where a word is to be filled in, where the model does that."""
        return None

    @property
    def separator(self) -> str | None:
        """The token that stands between texts, where the model reads any."""
        return None

    def tokens_in(self, text: str, pair: str | None = None) -> int | None:
        """How many tokens a text has; None where the model reads none."""
        return None

    # -- batches ---------------------------------------------------------------------------------------------

    @property
    def attends_across(self) -> bool:
        """Whether one sequence attends to another: an encoder and a decoder."""
        return self.kind == "text" and bool(getattr(self.config, "is_encoder_decoder", False))

    def fill(self) -> dict[str, int]:
        """What stands in the padding, per input."""
        return {}

    def goes_with(self, name: str, sources: Sequence[Source]) -> Source:
        """The source that an input belongs to: it is that, or marks or numbers its places."""
        return sources[0]

    def apart(self, example: Example) -> Hashable:
        """Examples for which this differs never stand in one batch."""
        return None

    def placed(self, name: str, value: Tensor) -> Tensor:
        """An input of a batch where the model is, and in its precision where it demands that."""
        casts = self.casts and value.is_floating_point()
        return sent(value.to(self.dtype) if casts else value, self.device)

    def beside(self, examples: Sequence[Example]) -> padding.Beside:
        """How examples like these, with the same inputs, may stand beside each other. The model is asked once."""
        differ = len({e.shape_key for e in examples}) > 1
        what = f"beside, lengths {differ}, {sorted(examples[0].inputs)}"
        beside: padding.Beside = self.once(what, lambda: padding.measured(self, examples))
        return beside

    def collate(
        self, examples: Sequence[Example], targets: Sequence[Any] | None = None, *, even: bool = False
    ) -> ExampleBatch:
        """A batch on the model's device; for `targets` alone, of which a model may give fewer outputs.

        `even` lengths are those of many other batches: with more padding than needed, where the model allows any.
        """
        differ = len({e.shape_key for e in examples}) > 1
        side = self.beside(examples) if differ else "right"
        if side not in ("right", "left"):
            raise ModelError("examples of different lengths can't stand in one batch of this model: padding changes it")
        if even and not differ:
            longer = padding.lengthened(examples[0])
            fits = longer is not None and (self.limit is None or longer.cost <= self.limit)
            found = self.beside([examples[0], longer]) if fits and longer is not None else "alone"
            even, side = found in ("right", "left"), found if found == "left" else "right"
        return self.narrowed(padding.padded(examples, self, side, even=even), targets)

    def narrowed(self, batch: ExampleBatch, targets: Sequence[Any] | None) -> ExampleBatch:
        """The batch, with no more outputs than the targets read."""
        return batch

    # -- perturbing ------------------------------------------------------------------------------------------

    def masked(self, example: Example, keep: np.ndarray, fill: str = "mask") -> Example:
        """`example` with every feature whose `keep` is False replaced. What `fill` may be depends on the model."""
        raise InputError(f"inputs of {self.called} can't be perturbed feature by feature")

    def check_fill(self, fill: str) -> None:
        """An error for a fill that can't be had here."""

    # -- targets ---------------------------------------------------------------------------------------------

    def target(self, choice: Any) -> AbstractTarget:
        """What the user passed as `target=`, as a target."""
        if isinstance(choice, AbstractTarget):
            return choice
        if callable(choice):
            return Custom(choice)
        if isinstance(choice, (int, str, np.integer)) and not isinstance(choice, bool):
            return Class(choice if isinstance(choice, str) else int(choice))
        raise InputError(
            f"can't explain target {choice!r}: pass a class index, a label, "
            "whence.contrast(a, b), whence.span(), or a function of the outputs"
        )

    def aim(self, example: Example, choice: Any) -> tuple[Example, AbstractTarget]:
        """The target for one example. A language model that is asked about words may need them in its input."""
        return example, self.default_target(example) if choice is None else self.target(choice)

    # -- results ---------------------------------------------------------------------------------------------

    def scores_of(self, relevance: Mapping[str, Tensor], batch: ExampleBatch, n: int) -> np.ndarray:
        """Scores of the features of example `n`, flat, from the relevance of a batch; padding is cut away."""
        parts = batch.features(n, relevance)
        made = [self.by_feature(part, r) for part, r in zip(batch.rows[n].parts, parts, strict=True)]
        return np.concatenate([m.float().cpu().numpy().reshape(-1) for m in made])

    def all_scores(self, relevance: Mapping[str, Tensor], batch: ExampleBatch) -> list[np.ndarray]:
        """`scores_of` every example."""
        plain = type(self).by_feature is AbstractAdapter.by_feature and len(batch.sources) == 1
        held = batch.places.get(batch.names[0], ())
        ranges = [places for places in held if isinstance(places, range)]
        if not plain or len(ranges) != len(held):
            return [self.scores_of(relevance, batch, n) for n in range(batch.examples)]
        rows = relevance[batch.names[0]].float().cpu().numpy()
        if not ranges:
            return [row.reshape(-1) for row in rows]
        return [row[own.start : own.stop].reshape(-1) for row, own in zip(rows, ranges, strict=True)]

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        """The relevance of one source's elements, summed over what belongs to one feature."""
        return relevance

    def features_among(self, example: Example, tokens: int) -> slice | None:
        """Which of the tokens that attention is over are the features, in their order; None where that is unknown."""
        return slice(0, tokens) if tokens == example.count else None

    def about(self, example: Example) -> dict[str, Any]:
        """What an explanation of `example` says of it, whatever the scores."""
        parts = example.parts
        return {
            "parts": tuple(Part(p.source.name, p.source.kind, p.source.side, p.shape, p.seconds) for p in parts),
            "tokens": example.tokens,
            "offsets": _joined(parts, "offsets"),
            "word_ids": _joined(parts, "word_ids"),
            "special": example.marks if example.tokens else (),
            "sides": _joined(parts, "sides"),
            "text": example.text,
            "image": example.image,
        }

    def explanation(
        self, example: Example, *, scores: Any, about: dict[str, Any] | None = None, **values: Any
    ) -> Explanation:
        """An explanation of `example`. Scores are flat; they get the shape of the features."""
        shape = example.parts[0].shape if len(example.parts) == 1 else -1
        return Explanation(np.asarray(scores).reshape(shape), **(about or self.about(example)), **values)

    def __repr__(self) -> str:
        """What was understood of a model."""
        few = ", ".join(self.labels[:4]) + (", …" if len(self.labels) > 4 else "")
        says = [f"{len(self.labels)} labels ({few})"] if self.labels else []
        says.append(f"reads {self.reads}")
        says.append(f"{in_short(self.size)} weights, {str(self.dtype).removeprefix('torch.')} on {self.device}")
        if hidden := hidden_attention(self.config):
            says.append(f"attends by torch in place of {hidden} while it is explained")
        named = "" if self.name == type(self.module).__name__ else f" {self.name!r}"
        return f"<{type(self.module).__name__}{named} for {self.task}: {'; '.join(says)}>"

    @property
    def reads(self) -> str:
        """What goes in, in words."""
        return "tensors"


def _joined(parts: Sequence[Features], name: str) -> tuple[Any, ...]:
    """A property of all features, where every source has it."""
    if len(parts) == 1:
        return tuple(getattr(parts[0], name))
    held = [getattr(part, name) for part in parts]
    return tuple(item for part in held for item in part) if all(held) else ()
