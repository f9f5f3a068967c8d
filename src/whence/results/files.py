"""Explanations to files and back. Formats for people are drawn by `whence.viz`, found when first asked for."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.errors import InputError
from whence.registry import Registry
from whence.results.conservation import Conservation

if TYPE_CHECKING:
    from whence.results.explanation import Explanation

__all__ = ["from_dict", "load", "renderer", "renderers", "save", "to_dict"]

FORMAT = 1

renderers: Registry[Callable[[Any], Any]] = Registry("format")
"""Format name to a function that draws a result. Filled by `whence.viz`."""


def renderer(name: str) -> Callable[[Any], Any]:
    """The function that draws results as `name`. `whence.viz` lies above us and is loaded by name, on demand."""
    importlib.import_module("whence.viz")
    return renderers[name]


def to_dict(exp: Explanation) -> dict[str, Any]:
    data = {
        f.name: getattr(exp, f.name)
        for f in fields(exp)
        if f.name not in ("scores", "image", "conservation", "prediction")
    }
    return {
        "format": FORMAT,
        **{k: list(v) if isinstance(v, tuple) else v for k, v in data.items()},
        "scores": exp.scores.tolist(),
        "prediction": {f.name: list(getattr(exp.prediction, f.name)) for f in fields(exp.prediction)},
        "conservation": exp.conservation.to_dict() if exp.conservation else None,
    }


def from_dict(cls: type[Explanation], data: dict[str, Any], image: np.ndarray | None = None) -> Explanation:
    from whence.results.explanation import Prediction  # a result knows its file format and the format knows it

    if data.get("format") != FORMAT:
        raise InputError(f"this file has format {data.get('format')!r}; this version of whence reads format {FORMAT}")
    known = {f.name for f in fields(cls)}
    values = {k: v for k, v in data.items() if k in known}
    for name in ("tokens", "word_ids", "special", "sides"):
        values[name] = tuple(values[name])
    values["offsets"] = tuple((a, b) for a, b in values["offsets"])
    values["scores"] = np.asarray(values["scores"], dtype=np.float32)
    values["prediction"] = Prediction(**{k: tuple(v) for k, v in data["prediction"].items()})
    values["conservation"] = Conservation.from_dict(c) if (c := data["conservation"]) else None
    return cls(**values, image=image)


def save(exp: Explanation, path: Path) -> Path:
    kind = path.suffix.lower().removeprefix(".")
    if kind == "json":
        content: bytes = json.dumps(to_dict(exp), ensure_ascii=False, default=str).encode()
    elif kind == "npz":
        return _save_npz(exp, path)
    else:
        drawn = renderer("page" if kind == "html" else kind)(exp)
        content = drawn if isinstance(drawn, bytes) else str(drawn).encode()
    _write(path, content)
    return path


def _save_npz(exp: Explanation, path: Path) -> Path:
    meta = json.dumps({**to_dict(exp), "scores": []}, ensure_ascii=False, default=str)
    arrays: Any = {"scores": exp.scores, "meta": np.array(meta)} | (
        {"image": exp.image} if exp.image is not None else {}
    )
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    os.replace(temporary, path)
    return path


def _write(path: Path, content: bytes) -> None:
    """All or nothing: a full disk must not leave half a file behind in the old one's place."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def load(cls: type[Explanation], path: Path) -> Explanation:
    kind = path.suffix.lower()
    if kind == ".json":
        return from_dict(cls, json.loads(path.read_text(encoding="utf-8")))
    if kind == ".npz":
        with np.load(path, allow_pickle=False) as data:
            meta = json.loads(str(data["meta"]))
            image = data["image"] if "image" in data.files else None
            return from_dict(cls, {**meta, "scores": data["scores"]}, image)
    raise InputError(f"can't read {path.name!r}: save as .json or .npz to load again")
