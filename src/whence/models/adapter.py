"""What every kind of model offers to methods: encode inputs, run a batch, name outputs, shape results."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from whence import cancel
from whence.core import memory, recording
from whence.core.batch import Source
from whence.core.interception import Interception, as_it_is
from whence.core.numerics import all_finite, at_hand, widened
from whence.core.packed import packed_layers, unpacked
from whence.errors import InputError, InputTooLongError, ModelError, NumericsError, WhenceError
from whence.models import padding
from whence.models.attending import hidden_attention, in_the_open
from whence.models.example import Example, ExampleBatch, Features
from whence.models.inspecting import Shell, accepted_by, device_of, in_short, is_spread, labels_of, modules_in
from whence.models.targets import (
    CONSTANT,
    AbstractTarget,
    Class,
    Custom,
    Predicted,
    Term,
    View,
    Weights,
    field_of,
    unknown_label,
)
from whence.results import Explanation, Part, Prediction

__all__ = ["AbstractAdapter", "Companion", "Kind"]

Kind = Literal["text", "image", "video", "sound", "module"]
"""What a model reads."""
Companion = Literal["tokenizer", "image_processor", "feature_extractor", "processor"]


class AbstractAdapter(ABC):
    """A model with what is needed to speak to it. The module itself is never changed."""

    task: ClassVar[str]
    """Its name in `whence.load(task=…)`."""
    kind: ClassVar[Kind]
    writes: ClassVar[bool] = False
    """Whether it goes on writing: `generate=` and `continuation=` are for these."""
    speaks: ClassVar[bool] = False
    """Whether its outputs are tokens of a vocabulary, not classes."""
    companion: ClassVar[Companion] = "tokenizer"
    """What reads its inputs for it."""
    tokenizer_will_do: ClassVar[bool] = False
    """Whether there are models of this kind that come without a processor, for their tokenizer is enough."""
    casts: ClassVar[bool] = False
    """Whether pictures and sounds go in with the precision of its weights, as most models of these demand."""
    classifies: ClassVar[bool] = True
    """Whether its outputs are classes, for `labels=` to name."""
    reads_apart: ClassVar[str] = ""
    """What it reads one by one, in words, where no attention is over all its features."""
    fields: ClassVar[tuple[str, ...]] = ("logits",)
    """The outputs that targets read."""
    unread: ClassVar[tuple[str, ...]] = ()
    """How the names of weights begin that it makes no use of."""

    def __init__(self, module: nn.Module, *, name: str = "", labels: Sequence[str] = ()):
        self.module = module
        self.check_training()
        self.name = name or type(module).__name__
        self.labels = tuple(labels) or (labels_of(module) if self.classifies and not self.speaks else ())
        self._accepted = accepted_by(module)
        self._facts: dict[str, Any] = {}
        self.recordings = recording.Recordings()
        """Passes over small batches, to be played again."""

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
    def called(self) -> str:
        """What it is, in a sentence."""
        return f"{'an' if self.task[0] in 'aeio' else 'a'} {self.task} model"

    @property
    def follows(self) -> str | None:
        """The source whose tokens the outputs follow, one row for each; None where there is one row for all."""
        return None

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

    # -- running ---------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """Where its inputs go."""
        return device_of(self.module)

    @property
    def dtype(self) -> torch.dtype:
        return next((p.dtype for p in self.module.parameters() if p.is_floating_point()), torch.float32)

    @cached_property
    def size(self) -> int:
        """How many weights there are."""
        return sum(p.numel() for p in self.module.parameters())

    @property
    def config(self) -> Any:
        return getattr(self.module, "config", None)

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
        return value.to(self.device, self.dtype) if casts else value.to(self.device)

    def beside(self, examples: Sequence[Example]) -> padding.Beside:
        """How examples like these, with the same inputs, may stand beside each other. The model is asked once."""
        differ = len({e.shape_key for e in examples}) > 1
        what = f"beside, lengths {differ}, {sorted(examples[0].inputs)}"
        beside: padding.Beside = self.once(what, lambda: padding.measured(self, examples))
        return beside

    @property
    def packed(self) -> int:
        """How many linear layers keep their weight packed."""
        return len(packed_layers(self.module))

    @property
    def replays(self) -> bool:
        """Whether passes over small batches are recorded."""
        return self.device.type in recording.DEVICES and not is_spread(self.module) and not self.packed

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

    def forward(self, inputs: dict[str, Any]) -> Any:
        """The model's outputs. Caches are off: they would keep state between layers that no gradient passes."""
        cancel.check()
        extra = {"use_cache": False} if "use_cache" in self._accepted else {}
        with in_the_open(self.module), unpacked(self.module), memory.held(self.module):
            return self.module(**inputs, **extra)

    def run(self, batch: ExampleBatch) -> Any:
        """The outputs for a batch, as the model is."""
        if not batch.looked_up:
            return self.forward(batch.inputs)
        mode = Interception(batch, {}, default=as_it_is)
        with torch.no_grad(), mode:
            return self.forward(mode.prepared())

    def once(self, what: str, find: Callable[[], Any]) -> Any:
        """A fact about the model that is measured once. What could not be found out (None) is tried again."""
        if self._facts.get(what) is None:
            self._facts[what] = find()
        return self._facts[what]

    def check_training(self) -> None:
        """Dropout makes every run another: refuse it, in any part of the model."""
        if any(m.training for m in modules_in(self.module)):
            busy = next(name for name, m in self.module.named_modules() if m.training)
            where = f"its part {busy!r} is" if busy else "the model is"
            raise ModelError(f"{where} in training mode, where dropout makes every run different. Type: model.eval()")

    # -- perturbing ------------------------------------------------------------------------------------------

    def masked(self, example: Example, keep: np.ndarray, fill: str = "mask") -> Example:
        """`example` with every feature whose `keep` is False replaced. What `fill` may be depends on the model."""
        raise InputError(f"inputs of {self.called} can't be perturbed feature by feature")

    def check_fill(self, fill: str) -> None:  # noqa: B027  (where there is one fill only, nothing is checked)
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

    def brought_home(self, outputs: Any) -> Any:
        """The outputs that targets read, on the CPU in one transfer: each number that is asked of a GPU is a wait."""
        if self.device.type == "cpu":
            return outputs
        try:
            return {field: at_hand(field_of(outputs, field)) for field in self.fields}
        except InputError:
            return outputs

    def sum_of_terms(
        self,
        outputs: Any,
        batch: ExampleBatch,
        terms: Sequence[Sequence[Term]],
        examples: Sequence[int] | None = None,
    ) -> Tensor:
        """One score for each list of terms, in few indexing operations.

        `examples` says whose each list is; the n-th is the n-th example's by default.
        """
        owners = range(len(terms)) if examples is None else examples
        terms = [self.in_place(outputs, n, own) for n, own in zip(owners, terms, strict=True)]
        total: Tensor | None = None
        for field in sorted({t.field for own in terms for t in own} - {CONSTANT}):
            value = field_of(outputs, field)
            rows = [(n, t) for n, own in enumerate(terms) for t in own if t.field == field]
            found = self._entries(value, batch, [(owners[n], t) for n, t in rows])
            weights = torch.tensor([t.weight for _, t in rows], device=value.device, dtype=found.dtype)
            picked = found * weights
            owner = torch.zeros(len(terms), len(rows), device=value.device, dtype=found.dtype)
            owner[[n for n, _ in rows], list(range(len(rows)))] = 1
            part = owner @ picked
            total = part if total is None else total + part
        assert total is not None
        constants = [sum(t.weight for t in own if t.field == CONSTANT) for own in terms]
        return total + total.new_tensor(constants) if any(constants) else total

    def in_place(self, outputs: Any, n: int, terms: Sequence[Term]) -> Sequence[Term]:
        """Terms of example `n` in these outputs, where a model numbers them anew for every input."""
        return terms

    def _entries(self, value: Tensor, batch: ExampleBatch, rows: Sequence[tuple[int, Term]]) -> Tensor:
        """The entries of an output that terms name, one for each; the sum over its area where a term has one."""
        places = [(n, *self.placed_in(batch, n, t.place)) for n, t in rows]
        if all(t.over is None for _, t in rows):
            where = tuple(torch.tensor(column, device=value.device) for column in zip(*places, strict=True))
            return widened(value[where])
        if all(isinstance(t.over, Weights) for _, t in rows):  # one by one, each would go back through all outputs
            where = tuple(torch.tensor(column, device=value.device) for column in zip(*places, strict=True))
            weights = np.stack([t.over.held for _, t in rows if isinstance(t.over, Weights)])
            return (widened(value[where]) * torch.from_numpy(weights).to(value.device)).sum(-1)
        entries = [widened(value[place]) for place in places]
        areas = [None if t.over is None else torch.from_numpy(t.over.held).to(value.device) for _, t in rows]
        return torch.stack([e if a is None else (e * a).sum() for e, a in zip(entries, areas, strict=True)])

    def placed_in(self, batch: ExampleBatch, n: int, place: tuple[int, ...]) -> tuple[int, ...]:
        """A place in an example's own output, in the padded output of the batch."""
        if self.follows is None:
            return place
        row = batch.place(self.follows, n, place[0])
        return (row if batch.kept is None else batch.kept_at[row], *place[1:])

    def output_rows(self, outputs: Any, batch: ExampleBatch, n: int, field: str, rows: Sequence[int]) -> Tensor:
        """A field of the output of example `n` at some of its tokens."""
        if batch.kept is None:
            return self.own_output(outputs, batch, n, field)[list(rows)]
        return field_of(outputs, field)[n, [self.placed_in(batch, n, (row,))[0] for row in rows]]

    def own_output(self, outputs: Any, batch: ExampleBatch, n: int, field: str) -> Tensor:
        """A field of the output of example `n`, without padding."""
        if field not in self.fields:
            raise InputError(
                f"{self.called} gives {' and '.join(self.fields)}, not {field}: this target is not for it. "
                "Leave target= out, or pass target=lambda outputs: …"
            )
        value = field_of(outputs, field)
        if self.follows is None:
            return value[n]
        tokens = batch.inputs[self.follows].shape[1]
        if value.shape[1] != tokens:
            raise ModelError(
                f"the model gives {value.shape[1]} rows of {field} for {tokens} tokens: they can't be matched. "
                "Pass target=lambda outputs: … to say what to explain"
            )
        return batch.own(self.follows, n, value)

    def view(self, outputs: Any, batch: ExampleBatch, n: int) -> View:
        return View(
            outputs=lambda field: self.own_output(outputs, batch, n, field).detach().float(),
            at=lambda field, rows: self.output_rows(outputs, batch, n, field, rows).detach().float(),
            labels=batch.rows[n].labels or self.labels,
            spell=partial(self.spelled, batch.rows[n]),
            find=partial(self.found, batch.rows[n]),
            read=self.read if not batch.rows[n].labels else lambda ids: " ".join(batch.rows[n].labels[i] for i in ids),
            example=batch.rows[n],
            fields=self.fields,
            pieces=lambda: self.pieces_written(batch.rows[n]),
        )

    def spelled(self, example: Example, index: int) -> str:
        """An output for an example in words."""
        return example.labels[index] if example.labels else self.spell(index)

    def found(self, example: Example, label: str) -> int:
        """The output for an example of a name."""
        return _place_of(label, example.labels) if example.labels else self.find(label)

    def spell(self, index: int) -> str:
        """An output in words."""
        return self.labels[index] if index < len(self.labels) else f"class {index}"

    def read(self, ids: Sequence[int]) -> str:
        """Several outputs in words, one after the other."""
        return " ".join(map(self.spell, ids))

    def pieces_written(self, example: Example) -> tuple[str, ...]:
        """The tokens that are written in an example, as they read one after the other."""
        return tuple(map(self.spell, example.written))

    def find(self, label: str) -> int:
        """The output of a name."""
        return _place_of(label, self.labels)

    def class_of(self, label: Any, example: Example | None = None) -> int:
        """The class that a label of a data set means: a name, a number, or a number as text."""
        labels = example.labels if example is not None and example.labels else self.labels
        if isinstance(label, str):
            known = {name.lower() for name in labels}
            text = label if self.speaks else label.strip()
            if text.lower() in known or not text.strip().lstrip("-").isdigit():
                return self.find(text) if example is None else self.found(example, text)
        try:
            number = int(label)
        except (TypeError, ValueError):
            number = -1
        if not isinstance(label, str) and (number != label or isinstance(label, bool)):
            raise InputError(f"{label!r} is no class: pass the name of one, or its number")
        if labels and not 0 <= number < len(labels):
            shown = ", ".join(f"{n}: {name}" for n, name in enumerate(labels[:8]))
            raise InputError(f"the model has no class {number}; its classes are {shown}")
        return number

    # -- results ---------------------------------------------------------------------------------------------

    def predictions(self, outputs: Any, batch: ExampleBatch) -> list[Prediction]:
        """What the model said of each example: the classes and their scores, best first (at most ten)."""
        nothing = [Prediction()] * batch.examples
        if "logits" not in self.fields:
            return nothing
        try:
            outputs = self.brought_home(outputs)
            logits = field_of(outputs, "logits").detach().float()
        except InputError:
            return nothing
        if self.follows is not None:
            if not all(e.rows for e in batch.rows):
                return nothing
            rows = [self.output_rows(outputs, batch, n, "logits", e.rows[:1]) for n, e in enumerate(batch.rows)]
            logits = torch.cat(rows).detach().float()
        if logits.dim() != 2:
            return nothing
        top = logits.topk(min(10, logits.shape[1]))
        shares = self.probabilities(logits)
        likely = shares.gather(1, top.indices).tolist() if shares is not None else [()] * batch.examples
        return [
            Prediction(tuple(self.spelled(e, index) for index in best), tuple(scores), tuple(p))
            for e, best, scores, p in zip(batch.rows, top.indices.tolist(), top.values.tolist(), likely, strict=True)
        ]

    @property
    def problem(self) -> Literal["single", "multi", "regression"]:
        """What the outputs are: one class of several, any number of classes, or numbers."""
        kind = getattr(self.config, "problem_type", None)
        if kind == "regression":
            return "regression"
        return "multi" if kind == "multi_label_classification" else "single"

    def probabilities(self, logits: Tensor) -> Tensor | None:
        if self.problem == "regression" or logits.shape[-1] == 1:
            return None
        # softmax(-1) would wake all threads of the CPU for a few numbers
        return logits.sigmoid() if self.problem == "multi" else (logits - logits.logsumexp(-1, keepdim=True)).exp()

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

    def explanation(self, example: Example, **values: Any) -> Explanation:
        """An explanation of `example`. Scores are flat; they get the shape of the features."""
        parts = example.parts
        scores = np.asarray(values.pop("scores"))
        return Explanation(
            scores=scores.reshape(parts[0].shape) if len(parts) == 1 else scores.reshape(-1),
            parts=tuple(Part(p.source.name, p.source.kind, p.source.side, p.shape, p.seconds) for p in parts),
            tokens=example.tokens,
            offsets=_joined(parts, "offsets"),
            word_ids=_joined(parts, "word_ids"),
            special=example.marks if example.tokens else (),
            sides=_joined(parts, "sides"),
            text=example.text,
            image=example.image,
            **values,
        )

    def facts(self) -> dict[str, Any]:
        """What the model is, for the stamp of a result."""
        return {
            "model": self.name,
            "class": type(self.module).__name__,
            "revision": getattr(self.config, "_commit_hash", None),
            "dtype": str(next((p.dtype for p in self.module.parameters()), "")).removeprefix("torch."),
            **({"attention": f"by torch in place of {hidden}"} if (hidden := hidden_attention(self.config)) else {}),
        }

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

    def check_finite(self, outputs: Any) -> None:
        """A clear error for NaN weights and overflow, in place of an explanation made of NaN."""
        try:
            logits = field_of(outputs, self.fields[0])
        except InputError:
            return
        if all_finite(logits) or (torch.isneginf(logits).any() and not torch.isnan(logits).any()):
            return
        broken = next((n for n, p in self.module.named_parameters() if not torch.isfinite(p).all()), None)
        if broken:
            raise NumericsError(f"the model's output is not finite: parameter {broken!r} holds NaN or infinity")
        if logits.dtype == torch.float16:
            raise NumericsError(
                "the model's output overflows in float16. Load it with dtype='bfloat16' or dtype='float32'"
            )
        raise NumericsError("the model's output is not finite, though its weights are: check the input values")


def _place_of(label: str, labels: Sequence[str]) -> int:
    """Where a name stands among others, however it is written."""
    for known, wanted in ((labels, label), ([name.lower() for name in labels], label.lower())):
        if wanted in known:
            return known.index(wanted)
    if not labels:
        raise InputError(
            f"the model has no names for its outputs, so {label!r} is none of them: pass a number, or name "
            "them: whence.load(model, labels=[ … ])"
        )
    raise unknown_label(label, labels)


def _joined(parts: Sequence[Features], name: str) -> tuple[Any, ...]:
    """A property of all features, where every source has it."""
    if len(parts) == 1:
        return tuple(getattr(parts[0], name))
    held = [getattr(part, name) for part in parts]
    return tuple(item for part in held for item in part) if all(held) else ()
