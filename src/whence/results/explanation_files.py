"""Explanations to files that are exact, and back."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence import cancel
from whence.errors import InputError
from whence.results.conservation import Conservation
from whence.results.prediction import Part, Prediction
from whence.results.stored import opened, packed, refuse_bomb, spelled
from whence.results.verdict import verdict

if TYPE_CHECKING:
    from whence.results.explanation import Explanation

__all__ = ["from_dict", "load", "to_dict", "to_json", "to_npz", "to_wire"]

FORMAT = 2


def to_dict(exp: Explanation) -> dict[str, Any]:
    data = {
        f.name: getattr(exp, f.name)
        for f in fields(exp)
        if f.name not in ("scores", "image", "conservation", "prediction", "parts")
    }
    return {
        "format": FORMAT,
        **{k: list(v) if isinstance(v, tuple) else v for k, v in data.items()},
        "scores": exp.scores.tolist(),
        "parts": [{**asdict(part), "shape": list(part.shape)} for part in exp.parts],
        "prediction": {f.name: list(getattr(exp.prediction, f.name)) for f in fields(exp.prediction)},
        "conservation": exp.conservation.to_dict() if exp.conservation else None,
    }


def from_dict(cls: type[Explanation], data: dict[str, Any], image: np.ndarray | None = None) -> Explanation:
    if "explanations" in data:
        raise InputError("this file holds a comparison: read it with whence.Comparison.load")
    if data.get("format") != FORMAT:
        raise InputError(f"this file has format {data.get('format')!r}; this version of whence reads format {FORMAT}")
    known = {f.name for f in fields(cls)}
    values = {k: v for k, v in data.items() if k in known}
    for name in ("tokens", "word_ids", "special", "sides"):
        values[name] = tuple(values[name])
    values["offsets"] = tuple((a, b) for a, b in values["offsets"])
    values["scores"] = np.asarray(values["scores"], dtype=np.float32)
    if values.get("target_score") is None:  # a page writes null for what is no number
        values["target_score"] = float("nan")
    shown = values.pop("image", None)
    if image is None and isinstance(shown, str):
        image = _from_data_url(shown)
    values["parts"] = tuple(Part(**{**part, "shape": tuple(part["shape"])}) for part in data["parts"])
    values["prediction"] = Prediction(**{k: tuple(v) for k, v in data["prediction"].items()})
    values["conservation"] = Conservation.from_dict(c) if (c := data["conservation"]) else None
    return cls(**values, image=image)


def to_json(exp: Explanation) -> str:
    return spelled(to_dict(exp))


def to_wire(exp: Explanation) -> dict[str, Any]:
    """What browsers get: `to_dict` with image, words and verdict, in values that any JSON parser reads.

    NaN and infinity become null, and what JSON does not know is spelled out.
    """
    cancel.check()
    words = [w._asdict() for w in exp.words()] if exp.word_ids and exp.tokens else None
    said = [piece._asdict() for piece in verdict(exp)]
    added = {"image": _data_url(exp.image), "words": words, "verdict": said}
    wire: dict[str, Any] = _plain({**to_dict(exp), **added})
    return wire


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return str(value)


def _data_url(image: np.ndarray | None) -> str | None:
    """The image as PNG in a data URL."""
    if image is None:
        return None
    from PIL import Image  # only pictures need it, and it is slow to import

    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _from_data_url(text: str) -> np.ndarray:
    """The image that `_data_url` wrote."""
    from PIL import Image

    held = base64.b64decode(text.partition(",")[2])
    try:
        picture = Image.open(io.BytesIO(held))
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from None
    refuse_bomb(3 * picture.width * picture.height, len(held))
    return np.asarray(picture.convert("RGB"))


def to_npz(exp: Explanation) -> bytes:
    image = {} if exp.image is None else {"image": exp.image}
    return packed({**to_dict(exp), "scores": []}, {"scores": exp.scores, **image})


def load(cls: type[Explanation], path: str | Path) -> Explanation:
    with opened(path, "whence.Explanation", ".json", ".npz") as (data, arrays):
        image = arrays.pop("image", None)
        return from_dict(cls, {**data, **arrays}, image)
