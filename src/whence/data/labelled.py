"""Rows with what people know about them: an input, a label, a rationale, a mask. And sentences of our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from whence.data.dataset import BROKEN, AbstractDataset
from whence.data.frames import FrameDataset, is_frame, is_series, listed, values_of
from whence.data.opening import open_files
from whence.errors import EmptyInputError, InputError

__all__ = ["LabelledRow", "film_sentences", "labelled", "opinions", "read"]

INPUTS = ("text", "sentence", "image", "img", "audio", "sound", "input", "inputs", "path")
TOGETHER = ("text", "image", "images", "audio", "labels", "choices", "template")
"""What one input may have several of: a picture and a question, a sound and the labels to choose from."""
PAIRS = (
    ("text", "text_pair"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("question", "context"),
    ("question1", "question2"),
)
"""Columns that hold two texts of one input."""
LABELS = ("label", "labels", "target", "class")
EXTRA = ("rationale", "mask")
SOUND = ("array", "path", "bytes", "sampling_rate")
"""What a sound may be in several columns."""
SHOWN = 8
"""Classes that are named."""
SLOWEST = 1000
"""Samples in a second of a sound; a smaller number beside it is a label."""


@dataclass(frozen=True, eq=False)
class LabelledRow:
    """One row of a data set. A label is what the data says, a class number or a name; None where there is none."""

    input: Any
    label: Any = None
    rationale: Any = None
    mask: Any = None


def labelled(data: Any, classes: Iterable[str] = (), *, sounds: bool = False) -> list[LabelledRow]:
    """Rows from texts; pairs (input, label); dicts; a dict of columns; a frame; or the `Path` of a file.

    `classes` are the names of the model's classes: a pair of texts is an input, unless the second is one of them. Of
    `sounds`, samples with a number are (samples, rate), unless there is a class of that number.

    >>> labelled([("a gem", "positive")], ["positive"])[0].label
    'positive'
    """
    named = tuple(classes)
    known = {name.lower() for name in named}
    if isinstance(data, Path):
        return read(data)
    if isinstance(data, AbstractDataset) or is_frame(data):
        data = list((data if isinstance(data, AbstractDataset) else FrameDataset(data)).records())
    elif is_series(data):
        data = values_of(data)
    if isinstance(data, Mapping):
        data = _transposed(data)
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise InputError(
            f"can't read a data set from {type(data).__name__} {str(data)[:60]!r}: pass a list of texts, of pairs "
            "(text, label), of dicts with 'text' and 'label', a frame, or a pathlib.Path of a file"
        )
    if sounds:
        data = [_sound(item, max(SLOWEST, len(known))) for item in data]
    data = list(data)
    _refuse_other_labels(data, named, known)
    made = [_row(item, known) for item in data]
    if not made:
        raise EmptyInputError("the data set is empty")
    return made


def read(path: str | Path) -> list[LabelledRow]:
    """A file: .tsv, .csv, .jsonl, .parquet, or a text per line; .gz of the text formats.

    A line is a text, or label TAB text where every line is. Empty lines are skipped.
    """
    path = Path(path)
    data = open_files([path], str(path), otherwise="text", strict=True, once=(*INPUTS, *LABELS))
    records = list(data.records())
    broken = next((r[BROKEN] for r in records if BROKEN in r), None)
    if broken is not None:
        raise InputError(broken)
    rows = [_from_dict({str(k).strip().lower(): v for k, v in r.items() if k is not None}) for r in records]
    missing = next((n for n, row in enumerate(rows, 1) if row.input is None), None)
    if missing is not None:
        raise InputError(f"row {missing} of {path.name!r} has no text: a .tsv file holds label TAB text")
    rows = [row for row in rows if not isinstance(row.input, str) or row.input.strip()]
    if not rows:
        raise EmptyInputError(f"there is no text in {str(path)!r}")
    if data.is_text:
        rows = _split_at_tabs(rows, path.name)
    return rows


def _split_at_tabs(rows: list[LabelledRow], name: str) -> list[LabelledRow]:
    """label TAB text, where lines have a tab at all."""
    tabs = [str(row.input).count("\t") for row in rows]
    if not any(tabs):
        return [LabelledRow(row.input.strip()) for row in rows]
    wrong = next((n for n, count in enumerate(tabs, 1) if count != 1), None)
    if wrong is not None:
        raise InputError(f"text {wrong} of {name!r} is not label<TAB>text, and other lines are: write all of them so")
    pairs = [row.input.split("\t") for row in rows]
    return [LabelledRow(text.strip(), label.strip()) for label, text in pairs]


def opinions() -> list[LabelledRow]:
    """Sixty sentences of our own about films, books, meals and machines; half of them positive."""
    return read(Path(str(resources.files("whence") / "data" / "opinions.tsv")))


def film_sentences() -> list[LabelledRow]:
    """Forty short sentences of our own about films, half of them positive.

    >>> film_sentences()[0].input
    'a warm and funny film that stays with you for days'
    """
    return read(Path(str(resources.files("whence") / "data" / "film_sentences.tsv")))


def _transposed(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    single = next((k for k, v in columns.items() if isinstance(v, (str, bytes)) or not isinstance(v, Iterable)), None)
    if single is not None:
        raise InputError(f"{single!r} is one value, not a column: pass a list of rows, [{{'text': …, 'label': …}}]")
    held = {k: listed(v) for k, v in columns.items()}
    if len({len(v) for v in held.values()}) != 1:
        raise InputError(f"columns of different length: { {k: len(v) for k, v in held.items()} }")
    return [dict(zip(held, row, strict=True)) for row in zip(*held.values(), strict=True)]


def _sound(item: Any, slowest: int) -> Any:
    """(samples, rate), (samples, rate, label) and columns with a rate as one sound each; anything else as it is."""
    if isinstance(item, Mapping) and "sampling_rate" in item and "audio" not in item:
        audio = {k: item[k] for k in SOUND if item.get(k) is not None}
        return {**{k: v for k, v in item.items() if k not in SOUND}, "audio": audio}
    if not isinstance(item, tuple) or not 2 <= len(item) <= 3 or isinstance(item[0], (str, bytes, Path, tuple)):
        return item
    is_rate = isinstance(item[1], (int, float, np.number)) and item[1] >= slowest
    return LabelledRow(item[:2], *item[2:]) if is_rate else item


def _row(item: Any, classes: set[str]) -> LabelledRow:
    if isinstance(item, LabelledRow):
        return item
    if isinstance(item, Mapping):
        return _from_dict(item)
    if isinstance(item, tuple) and 2 <= len(item) <= 3 and _is_label(item[1], classes):
        return LabelledRow(item[0], item[1], mask=item[2] if len(item) == 3 else None)
    return LabelledRow(item)


def _is_label(value: Any, classes: set[str]) -> bool:
    if isinstance(value, (int, np.integer)) or (hasattr(value, "ndim") and value.ndim == 0):
        return True
    word = value.strip().lower() if isinstance(value, str) else ""
    return word in classes or (word.isdecimal() and len(word) < 10 and int(word) < len(classes))


def _refuse_other_labels(data: list[Any], classes: tuple[str, ...], known: set[str]) -> None:
    """Where the second text of every pair is one word, and some are no classes, they are labels of another kind."""
    pairs = [item for item in data if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)]
    words = [second for _, second in pairs if isinstance(second, str)]
    other = next((word for word in words if not _is_label(word, known)), None)
    if classes and other is not None and all(len(word.split()) < 2 for word in words):
        more = " …" if len(classes) > SHOWN else ""
        raise InputError(
            f"unknown label {other!r}: the classes are {', '.join(map(repr, classes[:SHOWN]))}{more}. "
            "Two texts of one input are {'text': …, 'text_pair': …}"
        )


def _from_dict(item: Mapping[str, Any]) -> LabelledRow:
    choices = isinstance(item.get("labels"), (list, tuple)) or "choices" in item
    label = next((item[k] for k in LABELS if k in item and not (choices and k == "labels")), None)
    extra = {k: item.get(k) for k in EXTRA}
    pair = next((names for names in PAIRS if all(k in item for k in names)), None)
    if pair is not None:
        return LabelledRow(tuple(item[k] for k in pair), label, **extra)
    several = {k: item[k] for k in TOGETHER if k in item and item[k] is not None}
    if choices or len([k for k in several if k not in ("labels", "template")]) > 1:
        return LabelledRow(several, label, **extra)
    name = next((k for k in INPUTS if k in item), None)
    named = None if name is None else item[name]
    if name is None:
        named = {k: v for k, v in item.items() if hasattr(v, "numpy") and k not in (*LABELS, *EXTRA)}  # tensors
        if not named:
            raise InputError(f"a row with {sorted(map(str, item))} has no input: name a column 'text' or 'image'")
    return LabelledRow(named, label, **extra)
