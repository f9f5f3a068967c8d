"""An explanation: one score per feature, and all that is needed to read, check, save and draw it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from whence.errors import InputError, UnknownNameError
from whence.results import explanation_files as files
from whence.results.conservation import Conservation
from whence.results.prediction import Corners, Part, Prediction, Word, time_span
from whence.results.showing import Drawn, Writers
from whence.results.units import Units, by_unit
from whence.results.verdict import verdict

__all__ = ["Explanation"]


PICTURES = ("patch", "pixel", "frame")
"""Kinds of features that lie on a picture: of what was seen, or a drawing of what was heard."""


@dataclass(frozen=True, eq=False)
class Explanation(Drawn):
    """Scores of the features of one input for one target.

    >>> exp = Explanation(scores=np.array([0.1, 0.9]), tokens=("a", "gem"), target="positive", method="lrp")
    >>> exp.top(1)
    [('gem', 0.9)]
    """

    scores: np.ndarray
    """One number per token, or per patch (rows, columns) of an image. Those of several inputs follow each other."""
    tokens: tuple[str, ...] = ()
    """The tokens as they read in the text; empty for images."""
    target: str = ""
    """What is explained, in words."""
    target_score: float = float("nan")
    method: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    prediction: Prediction = field(default_factory=Prediction)
    conservation: Conservation | None = None
    text: str | None = None
    offsets: tuple[tuple[int, int], ...] = ()
    """Where each token stands in the text; (0, 0) for special tokens."""
    word_ids: tuple[int | None, ...] = ()
    """Which word each token belongs to; None for special tokens."""
    special: tuple[bool, ...] = ()
    sides: tuple[str, ...] = ()
    """For inputs of several parts: "source", "decoder", "first", "second", "continuation", … per token."""
    image: np.ndarray | None = None
    """The image as shown to people (height, width, 3), uint8."""
    class_specific: bool = True
    left_out: float = 0.0
    """Relevance of features that were left out of `scores`."""
    parts: tuple[Part, ...] = ()
    """One for each input of the model that is explained; together they are `scores`."""
    stamp: dict[str, Any] = field(default_factory=dict)
    """Model, versions, options: what it takes to do this again."""

    def __post_init__(self) -> None:
        scores = np.array(self.scores, dtype=np.float32)  # a copy: the caller's array stays as it is
        scores.setflags(write=False)
        object.__setattr__(self, "scores", scores)
        if self.tokens and len(self.tokens) != scores.shape[0]:
            raise ValueError(f"{len(self.tokens)} tokens but {scores.shape[0]} scores")
        if self.parts and sum(part.count for part in self.parts) != scores.size:
            raise ValueError(f"parts of {[part.count for part in self.parts]} features but {scores.size} scores")

    def __len__(self) -> int:
        return int(self.scores.size)

    @property
    def is_image(self) -> bool:
        return self.scores.ndim == 2

    def part(self, source: str) -> np.ndarray:
        """The scores of one input, in the shape of its features.

        >>> exp = Explanation(np.arange(6.0), parts=(Part("ids", shape=(2,)), Part("pixels", "patch", shape=(2, 2))))
        >>> exp.part("pixels").tolist()
        [[2.0, 3.0], [4.0, 5.0]]
        """
        part, own = self._place_of(source)
        return self.scores.reshape(-1)[own].reshape(part.shape)

    def _place_of(self, source: str) -> tuple[Part, slice]:
        start = 0
        for part in self.parts:
            if part.source == source:
                return part, slice(start, start + part.count)
            start += part.count
        raise UnknownNameError("part", source, [part.source for part in self.parts])

    def only(self, source: str) -> Explanation:
        """One input alone, as an explanation: its tokens, or its picture with a score for each square.

        Several pictures stand side by side. What the other inputs have is in `left_out`; the receipt is of the whole.

        >>> exp = Explanation(np.arange(6.0), parts=(Part("ids", shape=(2,)), Part("pixels", "patch", shape=(2, 2))))
        >>> exp.only("pixels").scores.tolist(), exp.only("pixels").left_out
        ([[2.0, 3.0], [4.0, 5.0]], 1.0)
        """
        own = self.part(source)
        part, place = self._place_of(source)
        if part.kind == "frame" and own.ndim == 1:
            own = own[None]
        is_picture = part.kind in PICTURES and own.ndim > 1
        if is_picture and own.ndim == 3:
            own = np.concatenate(list(own), 1)

        def pick(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return () if is_picture else values[place]

        rest = float(self.scores.sum(dtype=np.float64) - own.sum(dtype=np.float64))
        return replace(
            self,
            scores=own,
            tokens=pick(self.tokens),
            offsets=pick(self.offsets),
            word_ids=pick(self.word_ids),
            special=pick(self.special),
            sides=pick(self.sides),
            text=None if is_picture else self.text,
            image=self.image if is_picture else None,
            parts=(replace(part, shape=own.shape),),
            left_out=self.left_out + rest,
        )

    def apart(self) -> list[Explanation]:
        """What is shown one after the other: text and pictures of one explanation; else the explanation itself."""
        kinds = {part.kind in PICTURES for part in self.parts}
        return [self.only(part.source) for part in self.parts] if len(kinds) > 1 else [self.laid_out()]

    @property
    def times(self) -> np.ndarray:
        """Of a sound: where its pieces begin, in seconds, and where the last one ends.

        >>> Explanation(np.ones(3), parts=(Part("input_values", "frame", shape=(3,), seconds=0.5),)).times.tolist()
        [0.0, 0.5, 1.0, 1.5]
        """
        part = next((part for part in self.parts if part.kind == "frame"), None)
        if part is None:
            raise InputError("this explanation is of no sound: its features are no pieces of time")
        return np.arange(part.shape[-1] + 1) * part.seconds

    def laid_out(self) -> Explanation:
        """A film as one picture, its frames in rows; a wave as a picture of one row; anything else as it is.

        >>> exp = Explanation(np.ones((3, 1, 1)), parts=(Part("pixels", "patch", shape=(3, 1, 1)),))
        >>> exp.laid_out().scores.tolist()
        [[1.0, 1.0], [1.0, 0.0]]
        """
        if len(self.parts) == 1 and self.parts[0].kind == "frame" and self.scores.ndim == 1:
            return self.only(self.parts[0].source)
        if self.scores.ndim != 3 or len(self.parts) != 1:
            return self
        scores, frames = _in_rows(self.scores, 0), None
        if self.image is not None:
            frames = _in_rows(np.stack(np.split(self.image, len(self.scores), 1)), 255)
        return replace(self, scores=scores, image=frames, parts=(replace(self.parts[0], shape=scores.shape),))

    @property
    def box(self) -> Corners | None:
        """Where in the picture the target lies, in pixels of `image`, where it is a box."""
        return Corners.in_name(self.target)

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        """The explanation in one sentence: what the model says, what speaks for it, and what against."""
        return "".join(piece.text for piece in verdict(self))

    def top(self, n: int = 5) -> list[tuple[str, float]]:
        """The `n` features that speak most for the target, strongest first."""
        flat = self.scores.reshape(-1)
        best = np.argsort(-flat, kind="stable")[:n]
        return [(self.feature(int(i)), float(f"{flat[i]:.6g}")) for i in best]

    def feature(self, index: int) -> str:
        """The name of a feature."""
        if self.tokens:
            return self.tokens[index]
        if self.scores.ndim == 3:
            return "frame {}, patch {},{}".format(*np.unravel_index(index, self.scores.shape))
        row, column = divmod(index, self.scores.shape[1]) if self.is_image else (index, 0)
        if self.parts and self.parts[0].kind == "frame":
            band = f", band {len(self.scores) - row}" if self.is_image and len(self.scores) > 1 else ""
            return time_span(column, self.parts[0].seconds) + band
        return f"patch {row},{column}" if self.is_image else f"feature {index}"

    def words(self, merge: Literal["sum", "max"] = "sum") -> list[Word]:
        """Tokens merged to words: their scores summed, or the one of largest size."""
        if not self.word_ids:
            beside = any(part.kind != "token" for part in self.parts)
            why = "pictures, sounds and numbers have none, and tokens beside them are not put together" if beside else (
                "the input came without a tokenizer that knows them"
            )  # fmt: skip
            raise InputError(f"this explanation has no words: {why}")
        groups: list[list[int]] = []
        last: tuple[str, int | None] | None = None
        for i, word in enumerate(self.word_ids):
            key = (self.sides[i] if self.sides else "", word)
            if word is not None and key == last:
                groups[-1].append(i)
            else:
                groups.append([i])
            last = key
        return [Word(self._word_text(g), self._merged(g, merge), tuple(g)) for g in groups]

    def _word_text(self, group: list[int]) -> str:
        spans = [self.offsets[i] for i in group] if self.offsets and self.text is not None else []
        if self.text is not None and spans and spans[0] != (0, 0):
            return self.text[spans[0][0] : spans[-1][1]].strip()
        return "".join(self.tokens[i] for i in group).strip()

    def _merged(self, group: list[int], merge: str) -> float:
        values = self.scores[group]
        return float(values.sum() if merge == "sum" else values[np.abs(values).argmax()])

    def by(self, unit: Units) -> Explanation:
        """The same over larger units: "word", "sentence", "message", "document", or stretches of the text of your own.

        Scores of the tokens of a unit are summed. Stretches are given by what they read or as (first character, end),
        in a list or with names; tokens in none of them stay as they are.

        >>> exp = Explanation(np.array([0.1, 0.9, -0.5]), tokens=("Fine", ".", " Not"))
        >>> exp.by("sentence").top(2), exp.by({"praise": "Fine."}).tokens
        ([('Fine.', 1.0), ('Not', -0.5)], ('praise', 'Not'))
        """
        return by_unit(self, unit)

    def without_special(self) -> Explanation:
        """The same without special tokens; `left_out` says how much they had."""
        if not any(self.special):
            return self
        return self._kept([not s for s in self.special])

    def without_first(self) -> Explanation:
        """The same without the first token, which causal models use as a place to rest; see `left_out`."""
        if not self.tokens:
            raise InputError("this explanation has no tokens, so there is no first one to leave out")
        return self._kept([i > 0 for i in range(len(self.tokens))])

    def _kept(self, keep: list[bool]) -> Explanation:
        chosen = [i for i, k in enumerate(keep) if k]

        def pick(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(values[i] for i in chosen) if values else values

        left_out = float(self.scores.sum(dtype=np.float64) - self.scores[chosen].sum(dtype=np.float64))
        return replace(
            self,
            scores=self.scores[chosen],
            tokens=pick(self.tokens),
            offsets=pick(self.offsets),
            word_ids=pick(self.word_ids),
            special=pick(self.special),
            sides=pick(self.sides),
            parts=self._parts_of(keep),
            left_out=self.left_out + left_out,
        )

    def _parts_of(self, keep: list[bool]) -> tuple[Part, ...]:
        made, start = [], 0
        for part in self.parts:
            left = sum(keep[start : start + part.count])
            made.append(part if left == part.count else replace(part, shape=(left,)))
            start += part.count
        return tuple(made)

    # -- saving and showing ----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Everything but the image, as plain values."""
        return files.to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Explanation:
        return files.from_dict(cls, data)

    def _writers(self) -> Writers:
        return {".json": lambda: files.to_json(self), ".npz": lambda: files.to_npz(self)}

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Read what `save` wrote as .json or .npz."""
        return files.load(cls, Path(path))

    def __repr__(self) -> str:
        return f"<Explanation of {self.target!r} by {self.method}: {len(self)} features, top {self.top(3)}>"


def _in_rows(frames: np.ndarray, blank: int) -> np.ndarray:
    """Frames (frame, row, column, …) beside and below each other, about as many in a row as there are rows."""
    across = math.ceil(math.sqrt(len(frames)))
    down = math.ceil(len(frames) / across)
    whole = np.full((down * across, *frames.shape[1:]), blank, frames.dtype)
    whole[: len(frames)] = frames
    rows = [np.concatenate(list(whole[n * across : (n + 1) * across]), 1) for n in range(down)]
    return np.concatenate(rows, 0)
