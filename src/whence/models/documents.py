"""Questions about pages: words with the boxes they stand in, and the page as a picture where the model sees it."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from whence.core.batch import Source
from whence.errors import InputError, InputTooLongError
from whence.models.adapter import Companion
from whence.models.beside import BesidePicture
from whence.models.encoded import EncodedRow
from whence.models.example import Example, ExampleBatch
from whence.models.image import PIXELS, grid_of, opened, patch_of, seen, squares
from whence.models.targets import field_of
from whence.models.text import IDS, QuestionAnswering

__all__ = ["BOXES", "DocumentQuestionAnswering"]

BOXES = "bbox"
"""What models call the boxes of tokens."""
SEEN_AS = (PIXELS, "image")
"""What they call the page."""
SIZE = 1000
"""Height and width of every page, in the numbers of boxes."""

Box = list[int]


class DocumentQuestionAnswering(BesidePicture, QuestionAnswering):
    """Takes `{"text": question, "words": [ … ], "boxes": [[left, top, right, bottom], … ]}`, and `"image"`, the page,
    where the model sees it; or what its processor made of these. An answer is a span of the words.

    Boxes are in thousandths of the page. Where words are not given, the model's processor may read them from the page.
    """

    task = "document-question-answering"
    companion: ClassVar[Companion] = "processor"
    tokenizer_will_do = True
    casts = True

    def __init__(self, module: nn.Module, processor: Any = None, **options: Any):
        super().__init__(module, getattr(processor, "tokenizer", processor), **options)
        self._eye: Any = getattr(processor, "image_processor", None)
        self._sees = next((name for name in SEEN_AS if name in self._accepted), None)

    @property
    def reads(self) -> str:
        page = "'image': …, " if self._sees else ""
        return f"{{{page}'text': …, 'words': [ … ], 'boxes': [ … ]}}"

    # -- encoding --------------------------------------------------------------------------------------------

    def split(self, inputs: Any) -> tuple[list[Any], bool]:
        return ([inputs], True) if _is_page(inputs) else super().split(inputs)

    def _rows_in(self, item: Any) -> list[Any]:
        return [item] if _is_page(item) else super()._rows_in(item)

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        if isinstance(item, EncodedRow):
            return self._from_row(item)
        if not isinstance(item, Mapping):
            raise InputError(f"can't read {type(item).__name__}: this model takes {self.reads}")
        self.check_keys(item, "image", "text", "words", "boxes")
        question = item.get("text")
        if not isinstance(question, str) or not question.strip():
            raise InputError(f"'text', the question, is missing: this model takes {self.reads}")
        given = [item.get("words"), item.get("boxes")]
        read = all(part is None for part in given)
        page = self._seen(item.get("image"), read)
        if read:
            if "words" not in page:
                raise InputError(f"'words' and 'boxes' are missing: this model takes {self.reads}")
            given = [page["words"][0], page["boxes"][0]]
        example = self._asked(question.split(), *_checked(*given), truncate)
        if self._sees is None:
            return example
        pixels = page[PIXELS][0]
        return self._beside(example, pixels, seen(pixels, self._eye))

    def _seen(self, image: Any, read: bool) -> Mapping[str, Any]:
        """What the image processor makes of a page: pixels, and where it is to `read` them, words with boxes."""
        reads = read and bool(getattr(self._eye, "apply_ocr", False))
        if image is None:
            if self._sees:
                raise InputError(f"'image', the page, is missing: this model takes {self.reads}")
            return {}
        if not self._sees and not reads:
            raise InputError(f"this model sees no pictures, and nothing here reads words from them: pass {self.reads}")
        if self._eye is None:
            raise InputError(
                "this model came without an image processor, so it can't see the page. Load it with one: "
                "whence.load((module, processor)), or pass what its processor makes"
            )
        options = {"apply_ocr": reads} if hasattr(self._eye, "apply_ocr") else {}
        page = opened(image).convert("RGB")
        try:
            made: Mapping[str, Any] = self._eye(images=page, return_tensors="pt", **options)
        except ImportError as error:
            if not reads:
                raise
            raise InputError(
                "'words' and 'boxes' are missing. The model's processor would read them from the page with Tesseract, "
                f"which is not there (pip install pytesseract, and the program itself); or pass {self.reads}"
            ) from error
        return made

    def _asked(self, question: list[str], words: list[str], boxes: list[Box], truncate: bool) -> Example:
        """Question and words as tokens, each with a box."""
        tokenizer = self._reader
        if not getattr(tokenizer, "is_fast", False):
            raise InputError("this tokenizer does not say which word a token is of. Load the model with a fast one")
        given: dict[str, Any]
        if "boxes" in inspect.signature(tokenizer.__call__).parameters:
            given = {"text": " ".join(question), "text_pair": words, "boxes": boxes}
        else:
            given = {"text": question, "text_pair": words, "is_split_into_words": True}
        encoding = tokenizer(**given, verbose=False)
        count = len(encoding[IDS.name])
        if self.limit is not None and count > self.limit:
            if not truncate:
                raise InputTooLongError(
                    f"the question and the words have {count} tokens and the model takes at most {self.limit}. "
                    f"Pass truncate=True to explain the first {self.limit}, or pass fewer words."
                )
            encoding = tokenizer(**given, truncation="only_second", max_length=self.limit, verbose=False)
        (backend,) = encoding.encodings
        made = dict(encoding)
        if BOXES not in made:
            made[BOXES] = _boxes_of(backend, made[IDS.name], boxes, tokenizer.sep_token_id)
        return self._read(made, backend, [question, words])

    def _from_row(self, row: EncodedRow) -> Example:
        page = row.inputs.get(self._sees or "")
        text = super()._from_row(EncodedRow({k: v for k, v in row.inputs.items() if k != self._sees}, row.shared))
        return text if page is None else self._beside(text, page, None)

    def _beside(self, example: Example, pixels: Tensor, shown: np.ndarray | None) -> Example:
        """The question and the words with the page."""
        assert self._sees is not None
        pixels = pixels if pixels.is_floating_point() else pixels.float()
        part = squares(self._sees, grid_of(pixels.shape[-2:], patch_of(self.module, self.config)))
        words = tuple(range(part.count))  # a square is what a word is: not to be taken apart
        part = replace(part, offsets=((0, 0),) * part.count, word_ids=words)
        return replace(
            example, inputs={**example.inputs, self._sees: pixels}, parts=(*example.parts, part), image=shown
        )

    # -- running ---------------------------------------------------------------------------------------------

    def goes_with(self, name: str, sources: Sequence[Source]) -> Source:
        return Source(name, "patch") if name == self._sees else sources[0]

    def apart(self, example: Example) -> Hashable:
        page = example.inputs.get(self._sees or "")
        return None if page is None else page.shape

    def own_output(self, outputs: Any, batch: ExampleBatch, n: int, field: str) -> Tensor:
        """Of a model that gives logits for the patches too, which stand behind the tokens and are no answer."""
        tokens = batch.inputs[IDS.name].shape[1]
        cut = SimpleNamespace(**{name: field_of(outputs, name)[:, :tokens] for name in self.fields})
        return super().own_output(cut, batch, n, field)


def _is_page(item: Any) -> bool:
    """Whether it is no batch of a tokenizer: the boxes and the page in it may be tensors as well."""
    return isinstance(item, Mapping) and IDS.name not in item


def _checked(words: Any, boxes: Any) -> tuple[list[str], list[Box]]:
    """Words and boxes as they go into a tokenizer: as many of these as of those."""
    words = words.tolist() if hasattr(words, "tolist") else words
    boxes = boxes.tolist() if hasattr(boxes, "tolist") else boxes
    if isinstance(words, str) or not isinstance(words, Sequence) or not all(isinstance(w, str) for w in words):
        raise InputError("'words' is a list of the words on the page, in the order in which they are read")
    if not any(word.strip() for word in words):
        raise InputError("there are no words on the page: 'words' is empty")
    if not isinstance(boxes, Sequence) or len(boxes) != len(words):
        count = len(boxes) if isinstance(boxes, Sequence) else "no"
        raise InputError(f"{len(words)} words and {count} boxes: there is one box for each word")
    return list(words), [_box(box, word) for box, word in zip(boxes, words, strict=True)]


def _box(box: Any, word: str) -> Box:
    try:
        numbers = [float(n) for n in box]
        left, top, right, bottom = numbers
    except (TypeError, ValueError):
        raise InputError(f"the box of {word!r} is {box!r}, not four numbers [left, top, right, bottom]") from None
    whole = all(n.is_integer() for n in numbers)
    if not whole or not 0 <= left <= right <= SIZE or not 0 <= top <= bottom <= SIZE:
        raise InputError(
            f"the box of {word!r} is {list(box)}: boxes are [left, top, right, bottom] in whole numbers from 0 to "
            f"{SIZE}, thousandths of the page: {SIZE} * x / width, {SIZE} * y / height"
        )
    return [int(n) for n in numbers]


def _boxes_of(backend: Any, ids: Sequence[int], boxes: Sequence[Box], separator: int | None) -> list[Box]:
    """A box for each token, as LayoutLM was trained: nowhere for the question, the far corner for what ends a text."""
    places = zip(backend.sequence_ids, backend.word_ids, ids, strict=True)
    return [
        list(boxes[word]) if text == 1 else [SIZE if i == separator else 0] * 4 for text, word, i in places
    ]  # fmt: skip
