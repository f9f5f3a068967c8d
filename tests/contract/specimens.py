"""A tiny random model of several families for every adapter that is registered, with inputs of every form.

A new adapter is here by itself, as soon as `whence.models.tasks.HEADS` names it: families come from the auto class
that stands beside it. If it reads another kind of thing, `FORMS` says so until it knows what that looks like.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn

from tests import small
from whence.models.adapter import AbstractAdapter
from whence.models.choosing import Chooser
from whence.models.documents import DocumentQuestionAnswering
from whence.models.sound import Hearing
from whence.models.tasks import ADAPTERS, TASKS
from whence.models.telling import Telling
from whence.models.together import ImageTextClassifier
from zoo.build import randomize
from zoo.configs import tiny_config

FAMILIES = "bert roberta xlnet gpt2 llama vit swin convnext".split()
"""Positions counted from the left, from the padding, relative and rotary; encoders and decoders; with and without."""
IN_TWO = "t5 bart".split()
"""Encoder-decoders."""
SEEING = {
    "object-detection": "yolos",
    "image-segmentation": "segformer",
    "depth-estimation": "glpn",
    "video-classification": "videomae vivit",
    "image-feature-extraction": "vit swin convnext",
}
"""Families of tasks that none of these does, or whose auto class is for all."""


class Specimen(NamedTuple):
    adapter: type[AbstractAdapter]
    module: nn.Module
    companion: Any

    @property
    def task(self) -> str:
        return self.adapter.task


def names() -> list[tuple[str, str]]:
    """Task and family of everything that reads one text or picture. The same is asked of those that choose among texts
    in tests/models/test_choosing.py, of those that hear in test_sound.py, of those that read pages in
    test_documents.py, of others in test_seeing.py and test_together.py."""
    found = []
    for adapter in ADAPTERS:
        if issubclass(adapter, (Chooser, DocumentQuestionAnswering, Hearing, Telling, ImageTextClassifier)):
            continue
        auto = TASKS[adapter.task][0] if adapter.task in TASKS else None
        found += [(adapter.task, family) for family in (_families(auto, adapter.task) if auto else ["by hand"])]
    return found


def _families(auto: str, task: str) -> list[str]:
    if task in SEEING:
        return SEEING[task].split()
    known = {config.model_type for config in getattr(transformers, auto)._model_mapping}
    chosen = [f for f in (IN_TWO if "Seq2Seq" in auto else FAMILIES) if f in known]
    return chosen or sorted(known)[:2]


@lru_cache
def specimen(task: str, family: str, dtype: torch.dtype, attention: str) -> Specimen | None:
    """None where the family has no such attention."""
    adapter = next(a for a in ADAPTERS if a.task == task)
    if family == "by hand":
        module = small.ByHand().eval()
        randomize(module, 0)
        return Specimen(adapter, module.to(dtype), None) if attention == "eager" else None
    auto = TASKS[task][0]
    kind = "causal-lm" if auto.endswith("CausalLM") else "classification" if auto.endswith("Classification") else ""
    config = tiny_config(kind, family)
    if attention == "sdpa" and not getattr(transformers, auto)._model_mapping[type(config)]._supports_sdpa:
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = getattr(transformers, auto).from_config(config, attn_implementation=attention).eval()
    randomize(module, 0)
    companion = small.wordpiece() if adapter.kind == "text" else None
    return Specimen(adapter, module.to(dtype), companion)


# -- inputs ------------------------------------------------------------------------------------------------------------

Row = dict[str, torch.Tensor]
WORDS = [
    ["a", "gorgeous", "movie", "it", "is"],
    ["not", "very", "good"],
    ["the", "plot", "is", "dull", "and", "boring"],
]
QUESTIONS = ["is it the plot", "is it good and not bad", "was it"]


class Form(NamedTuple):
    """One way to pass inputs, and the same for a model that is called by hand: tensors of one example each."""

    inputs: Any
    by_hand: list[Row]
    names: list[list[str]] | None = None
    """What the features are called; None where they are not called anything."""


def _words(made: Specimen) -> list[list[str]]:
    fill = [made.companion.mask_token] if made.task == "fill-mask" else []
    return [[*own[:1], *fill, *own[1:]] for own in WORDS]


def _encoded(made: Specimen, *parts: Any, **options: Any) -> Row:
    found = made.companion(*parts, return_tensors="pt", **options)
    return {k: v for k, v in found.items() if k in inspect.signature(made.module.forward).parameters}


def _around(*parts: list[str]) -> list[str]:
    return ["[CLS]", *(w for part in parts for w in (*part, "[SEP]"))]


def texts(made: Specimen) -> Form:
    written = [" ".join(own) for own in _words(made)]
    return Form(written, [_encoded(made, text) for text in written], [_around(own) for own in _words(made)])


def pairs(made: Specimen) -> Form:
    written = [(question, " ".join(own)) for question, own in zip(QUESTIONS, _words(made), strict=True)]
    names = [_around(a.split(), b.split()) for a, b in written]
    return Form(written, [_encoded(made, *pair) for pair in written], names)


def words(made: Specimen) -> Form:
    own = _words(made)
    return Form(own, [_encoded(made, w, is_split_into_words=True) for w in own], [_around(w) for w in own])


def encoded(made: Specimen) -> Form:
    own = _words(made)[0]
    row = _encoded(made, " ".join(own))
    return Form(row, [row], [_around(own)])


def padded(made: Specimen, side: str) -> Form:
    own = _words(made)
    whole = _encoded(made, [" ".join(w) for w in own], padding=True, padding_side=side)
    return Form(
        whole, [{k: v[n : n + 1] for k, v in whole.items()} for n in range(len(own))], [_around(w) for w in own]
    )


def with_a_hole(made: Specimen) -> Form:
    (row,), (names,) = encoded(made).by_hand, encoded(made).names or []
    row["attention_mask"][0, -3] = 0
    return Form(row, [row], [names[:-3] + names[-2:]])


def images(made: Specimen, form: str) -> Form:
    config = made.module.config
    side = getattr(config, "image_size", 64)
    height, width = (side, side) if isinstance(side, int) else side
    frames = (config.num_frames,) if made.adapter.kind == "video" else ()
    pixels = torch.randn(3, *frames, 3, height, width, generator=torch.Generator().manual_seed(1))
    inputs = {"tensor": pixels, "list": list(pixels), "encoded": {"pixel_values": pixels}}[form]
    cast = pixels.to(next(made.module.parameters()).dtype)
    return Form(inputs, [{"pixel_values": cast[n : n + 1]} for n in range(3)])


def ids(made: Specimen, form: str) -> Form:
    numbers = torch.randint(1, 49, (3, 7), generator=torch.Generator().manual_seed(1))
    inputs = numbers if form == "tensor" else {"tokens": numbers}
    names = [[str(i) for i in row] for row in numbers.tolist()]
    return Form(inputs, [{"tokens": numbers[n : n + 1]} for n in range(3)], names)


FORMS: dict[str, dict[str, Callable[[Specimen], Form]]] = {
    "text": {
        "texts": texts,
        "pairs": pairs,
        "words": words,
        "encoded": encoded,
        "padded on the right": partial(padded, side="right"),
        "padded on the left": partial(padded, side="left"),
        "a hole in the mask": with_a_hole,
    },
    "image": {form: partial(images, form=form) for form in ("tensor", "list", "encoded")},
    "video": {form: partial(images, form=form) for form in ("tensor", "list", "encoded")},
    "module": {form: partial(ids, form=form) for form in ("tensor", "encoded")},
}
"""Kind of input to every form that it comes in."""
