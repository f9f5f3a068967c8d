"""Models that say more of a picture than one class: boxes, regions, distances, features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from whence.errors import InputError, ModelError
from whence.models.adapter import Kind
from whence.models.example import Example, ExampleBatch, Features
from whence.models.image import FILLS as COLOURS
from whence.models.image import AbstractImageReader, squares
from whence.models.pointing import DEPTH, Box, Region, covered, overlap, things_in
from whence.models.targets import AbstractTarget, Term, field_of
from whence.models.telling import Telling
from whence.results import Prediction

__all__ = ["DepthEstimator", "Detector", "ImageFeatures", "ImageTeller", "Segmenter"]

SHOWN = 10
"""Things that a prediction lists."""


class AbstractSeer(AbstractImageReader):
    """Gives outputs of several forms; which it has shows when it runs."""

    forms: ClassVar[tuple[tuple[str, ...], ...]]
    """Outputs that targets can read together, the most telling first."""

    def forward(self, inputs: dict[str, Any]) -> Any:
        outputs = super().forward(inputs)
        self.once("fields", lambda: self._held(outputs))
        return outputs

    def _held(self, outputs: Any) -> tuple[str, ...]:
        given = [k for k in outputs if isinstance(outputs[k], Tensor)] if isinstance(outputs, Mapping) else ["logits"]
        found = next((form for form in self.forms if set(form) <= set(given)), None)
        if found is None:
            raise ModelError(
                f"{self.called} gives {' or '.join(' and '.join(form) for form in self.forms)}, and "
                f"{type(self.module).__name__} gives {', '.join(given) or 'none of these'}. Explain a module "
                "of yours that calls it with a tensor and returns the numbers in question"
            )
        return found

    @property
    def fields(self) -> tuple[str, ...]:  # type: ignore[override]
        """The outputs that targets read."""
        return self.known.facts.get("fields") or self._findings.last("fields") or self.forms[0]

    def predictions(self, outputs: Any, batch: ExampleBatch) -> list[Prediction]:
        outputs = self.brought_home(outputs)
        return [self.predicted(outputs, batch, n) for n in range(batch.examples)]

    @abstractmethod
    def predicted(self, outputs: Any, batch: ExampleBatch, n: int) -> Prediction:
        """What the model said of example `n`."""

    def _of_things(self, outputs: Any, batch: ExampleBatch, n: int) -> Prediction:
        """The classes of the most certain things."""
        found = things_in(self.view(outputs, batch, n))[:SHOWN]
        logits = self.own_output(outputs, batch, n, self.fields[0]).detach().float()
        return Prediction(
            tuple(self.spell(thing.category) for thing in found),
            tuple(float(logits[thing.query, thing.category]) for thing in found),
            tuple(thing.certainty for thing in found),
        )


def _chosen(choice: Any) -> int | str | None:
    """A class that was passed as a target, by its number or label; None where it is something else."""
    if isinstance(choice, str):
        return choice
    return int(choice) if isinstance(choice, (int, np.integer)) and not isinstance(choice, bool) else None


class Detector(AbstractSeer):
    """Finds things and the boxes they are in. The most certain one is explained: the logit of its class."""

    task = "object-detection"
    forms = (("logits", "pred_boxes"),)

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, processor, **options)
        if "input_ids" in self._accepted:
            raise ModelError(
                f"{type(module).__name__} looks for what a text says, and a picture alone does not say it. Explain a "
                "module of yours that calls it with the text it is to look for"
            )

    def default_target(self, example: Example) -> AbstractTarget:
        return Box()

    def target(self, choice: Any) -> AbstractTarget:
        label = _chosen(choice)
        return super().target(choice) if label is None else Box(label)

    def predicted(self, outputs: Any, batch: ExampleBatch, n: int) -> Prediction:
        return self._of_things(outputs, batch, n)

    def in_place(self, outputs: Any, n: int, terms: Sequence[Term]) -> Sequence[Term]:
        """Models that first look for places number their boxes by how good these are: in a changed picture, the box
        that was explained is the one in its place and not the one of its number."""
        if not any(isinstance(getattr(outputs, k, None), Tensor) for k in ("enc_outputs_class", "enc_topk_logits")):
            return terms
        boxes = field_of(outputs, "pred_boxes")[n].detach().float()
        return [_in_its_place(t, boxes) for t in terms]

    def features_among(self, example: Example, tokens: int) -> slice | None:
        """YOLOS puts a token for each box behind the patches."""
        behind = int(getattr(self.config, "num_detection_tokens", 0))
        return super().features_among(example, tokens - behind)


def _in_its_place(term: Term, boxes: Tensor) -> Term:
    if not term.near:
        return term
    shared = overlap(boxes, term.near)
    query = int(shared.argmax())
    return term if shared[term.place[0]] >= shared[query] else term._replace(place=(query, *term.place[1:]))


class Segmenter(AbstractSeer):
    """Says what every pixel shows, or cuts things out. Explained is the class that covers most, over its pixels; of
    things, the most certain one.
    """

    task = "image-segmentation"
    forms = (("class_queries_logits", "masks_queries_logits"), ("logits", "pred_masks"), ("logits",))

    def default_target(self, example: Example) -> AbstractTarget:
        return Region()

    def target(self, choice: Any) -> AbstractTarget:
        label = _chosen(choice)
        return super().target(choice) if label is None else Region(label)

    def processed(self, array: np.ndarray) -> Mapping[str, Any]:
        if "task_inputs" not in self._accepted:
            return super().processed(array)
        if not hasattr(self.processor, "tokenizer"):
            raise InputError(
                "this model is told in words what to do, which its image processor alone can't encode. Load it with "
                "its whole processor, whence.load((module, processor)), or pass {'pixel_values': …, 'task_inputs': …}"
            )
        made: Mapping[str, Any] = self.processor(images=array, task_inputs=["semantic"], return_tensors="pt")
        return made

    def predicted(self, outputs: Any, batch: ExampleBatch, n: int) -> Prediction:
        if len(self.fields) > 1:
            return self._of_things(outputs, batch, n)
        logits = self.own_output(outputs, batch, n, "logits").detach().float()
        if logits.dim() != 3:
            return Prediction()
        best, shares = logits.argmax(0), logits.softmax(0)
        classes = [index for index, _ in covered(logits)[:SHOWN]]
        means = [(float(v[i][best == i].mean()) for i in classes) for v in (logits, shares)]
        return Prediction(tuple(map(self.spell, classes)), tuple(means[0]), tuple(means[1]))


class DepthEstimator(AbstractSeer):
    """Says how far away every pixel is (or how near: models differ). Explained is the mean."""

    task = "depth-estimation"
    classifies = False
    forms = ((DEPTH,),)

    def default_target(self, example: Example) -> AbstractTarget:
        return Region()

    def target(self, choice: Any) -> AbstractTarget:
        label = _chosen(choice)
        return super().target(choice) if label is None else Region(label)  # which says that there are none

    def predicted(self, outputs: Any, batch: ExampleBatch, n: int) -> Prediction:
        return Prediction(("mean depth",), (float(self.own_output(outputs, batch, n, DEPTH).detach().float().mean()),))


class ImageFeatures(AbstractSeer):
    """Makes numbers of a picture that mean nothing by themselves: whoever asks says which of them to explain."""

    task = "image-feature-extraction"
    classifies = False
    forms = (("pooler_output",), ("image_embeds",), ("last_hidden_state",), ("feature_maps",), ("logits",))

    def default_target(self, example: Example) -> AbstractTarget:
        raise InputError(
            f"{type(self.module).__name__} gives features and predicts nothing: say what to explain, for instance "
            f"target=lambda outputs: outputs.{self.fields[0]}[:, 3], or its likeness to another picture's features"
        )

    def target(self, choice: Any) -> AbstractTarget:
        if _chosen(choice) is not None:
            return self.default_target(Example({}, ()))
        return super().target(choice)

    def predicted(self, outputs: Any, batch: ExampleBatch, n: int) -> Prediction:
        return Prediction()


class ImageTeller(AbstractImageReader, Telling):
    """Writes about one picture (TrOCR, Donut, captions); squares and written tokens are explained together."""

    task = "image-to-text"
    companion = "processor"
    kind: ClassVar[Kind] = "image"
    reads_apart = "a picture, and writes, with attention that is over neither all of it nor both"

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, getattr(processor, "image_processor", processor), **options)
        self.tokenizer = getattr(processor, "tokenizer", None)

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        if isinstance(inputs, Mapping) and inputs.get("image") is not None:
            return [inputs["image"]], True
        return AbstractImageReader.split(self, inputs)

    def perceived(self, item: Any, truncate: bool = False) -> Example:
        picture = AbstractImageReader.encode_one(self, item["image"] if isinstance(item, Mapping) else item)
        (part,) = picture.parts
        return replace(picture, parts=(replace(squares(part.source.name, part.shape), source=part.source),))

    def encode_one(self, item: Any, **options: Any) -> Example:
        return Telling.encode_one(self, item, **options)

    def apart(self, example: Example) -> Hashable:
        return tuple((k, v.shape) for k, v in example.inputs.items() if not k.startswith("decoder_"))

    def by_feature(self, part: Features, relevance: Tensor) -> Tensor:
        if part.source.kind == "token":
            return relevance
        return AbstractImageReader.by_feature(self, part, relevance).reshape(-1)

    def masked(self, example: Example, keep: np.ndarray, fill: str = "mask") -> Example:
        picture, text = example.slices()
        colour, word = (fill, "mask") if fill in COLOURS else ("black", fill)
        return self.untold(AbstractImageReader.masked(self, example, keep[picture], colour), keep[text], word)

    def check_fill(self, fill: str) -> None:
        if fill not in COLOURS:
            Telling.check_fill(self, fill)
