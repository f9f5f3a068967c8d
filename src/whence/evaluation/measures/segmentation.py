"""Does the explanation lie on the object?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from whence.evaluation.metric import AbstractMetric, Need, Task, metrics
from whence.results.measured import Measurement

__all__ = ["Segmentation", "average_precision"]


@metrics.register("segmentation")
@dataclass(frozen=True, kw_only=True)
class Segmentation(AbstractMetric):
    """The explanation as a segmentation: foreground is what lies above the mean [Chefer 2021].

    `segmentation_pixel_accuracy` and `segmentation_miou` divide sums over the data set (mIoU is the mean over
    foreground and background), `segmentation_map` is the mean over images of the average precision. Scores are brought
    to the size of the mask by bilinear interpolation. Higher is better.
    """

    columns: ClassVar[Mapping[str, str]] = {"pixel_accuracy": "higher", "miou": "higher", "map": "higher"}
    needs: ClassVar[tuple[Need, ...]] = ("image", "mask")
    threshold: Literal["mean"] = "mean"
    precision: Literal["both", "foreground"] = "both"
    """Average precision over the pixels of both classes, as in the authors' code, or of the object alone."""

    def judge(self, task: Task, original: np.ndarray, logits: np.ndarray) -> dict[str, Measurement]:
        truth = np.asarray(task.case.mask, dtype=bool)
        scores = _resized(np.asarray(task.explanation.scores, dtype=np.float64), truth.shape)
        spread = float(scores.max() - scores.min())
        scores = (scores - scores.min()) / spread if spread > 0 else np.zeros_like(scores)
        guess = scores > scores.mean()
        inter = [float((guess & truth).sum()), float((~guess & ~truth).sum())]
        union = [float((guess | truth).sum()), float((~guess | ~truth).sum())]
        return {
            "pixel_accuracy": Measurement((float((guess == truth).sum()),), (float(truth.size),)),
            "miou": Measurement(tuple(inter), tuple(union)),
            "map": Measurement((self._precision(scores, truth),)),
        }

    def _precision(self, scores: np.ndarray, truth: np.ndarray) -> float:
        s, t = scores.reshape(-1), truth.reshape(-1)
        if self.precision == "both":
            s, t = np.concatenate([1 - s, s]), np.concatenate([~t, t])
        return average_precision(t, s)


def _resized(scores: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    if scores.shape == size:
        return scores
    given = torch.from_numpy(np.ascontiguousarray(scores))[None, None]
    return torch.nn.functional.interpolate(given, size=size, mode="bilinear", align_corners=False)[0, 0].numpy()


def average_precision(truth: np.ndarray, scores: np.ndarray) -> float:
    """AP = Σ_n (recall_n - recall_{n-1}) · precision_n over thresholds; equal scores are one threshold."""
    if not truth.any():
        return 0.0
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order])
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    recall = hits[ends] / hits[-1]
    return float((np.diff(recall, prepend=0.0) * hits[ends] / (ends + 1)).sum())
