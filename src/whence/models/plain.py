"""Any nn.Module: encoded inputs in, a tensor of scores out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence import cancel
from whence.errors import InputError
from whence.models.adapter import AbstractAdapter
from whence.models.examples import Example
from whence.results import Explanation

__all__ = ["PlainModule"]


class PlainModule(AbstractAdapter):
    """A module that takes tensors: by name (a dict) or a single one. Ids are explained through the embedding that
    looks them up, float inputs as they are. A float input (batch, token, hidden) gets one score per token."""

    task = "module"

    def __init__(self, module: Any, **options: Any):
        super().__init__(module, **options)
        self._sources: tuple[str, ...] = ()
        self._positional: str | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        return self._sources

    def encode(self, inputs: Any, **options: Any) -> tuple[list[Example], bool]:
        if isinstance(inputs, Tensor):
            self._positional = next(iter(self._ordered()), "input")
            inputs = {self._positional: inputs}
        if not isinstance(inputs, Mapping) or not any(isinstance(v, Tensor) for v in inputs.values()):
            raise InputError(
                "a plain module takes tensors: a dict such as {'input_ids': ids} or one tensor, with the batch first. "
                f"Got {type(inputs).__name__}."
            )
        tensors = {k: v.detach() for k, v in inputs.items() if isinstance(v, Tensor)}
        self._sources = _explained(tensors)
        count = tensors[self._sources[0]].shape[0]
        examples = [
            self._example({k: v[n] for k, v in tensors.items() if v.dim() and v.shape[0] == count})
            for n in range(count)
        ]
        return examples, count == 1

    def _ordered(self) -> Sequence[str]:
        import inspect

        return list(inspect.signature(self.module.forward).parameters)

    def _example(self, row: dict[str, Tensor]) -> Example:
        first = row[self._sources[0]]
        ids = not first.is_floating_point()
        names = tuple(str(i) for i in first.tolist()) if ids and first.dim() == 1 else ()
        return Example(row, tokens=names, special=(False,) * len(names))

    @property
    def mixes_lengths(self) -> bool:
        return False

    def masked(self, example: Example, keep: np.ndarray, fill: str = "zero") -> Example:
        """Ids become 0, float features 0: a plain module has no mask token of its own."""
        name = self._sources[0]
        value = example.inputs[name]
        marks = torch.from_numpy(np.ascontiguousarray(keep, dtype=bool))
        while marks.dim() < value.dim():
            marks = marks.unsqueeze(-1)
        return replace(example, inputs={**example.inputs, name: torch.where(marks, value, torch.zeros_like(value))})

    def collate(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        return {k: torch.stack([e.inputs[k] for e in examples]).to(self.device) for k in examples[0].inputs}

    def forward(self, batch: dict[str, Any]) -> Any:
        cancel.check()
        if self._positional is not None:
            return self.module(batch[self._positional])
        return self.module(**batch)

    def scores_of(self, relevance: dict[str, Tensor], examples: Sequence[Example], n: int) -> np.ndarray:
        parts = []
        for name in self.sources:
            row = relevance[name][n].float()
            if examples[n].inputs[name].is_floating_point() and row.dim() == 2:
                row = row.sum(-1)  # (token, hidden): one score per token
            parts.append(row.reshape(-1).cpu().numpy())
        return np.concatenate(parts)

    def explanation(self, example: Example, **values: Any) -> Explanation:
        if len(example.tokens) != np.asarray(values["scores"]).shape[0]:
            return Explanation(**values)
        return super().explanation(example, **values)


def _explained(tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Float inputs, or else the ids; masks and types are not explained."""
    ids = tuple(n for n, v in tensors.items() if not v.is_floating_point() and v.dtype != torch.bool)
    floats = tuple(n for n, v in tensors.items() if v.is_floating_point() and "mask" not in n)
    words = tuple(n for n in ids if "mask" not in n and "type" not in n and "position" not in n)
    if "input_ids" in ids:
        return ("input_ids", *(n for n in ids if n == "decoder_input_ids"))
    if not (floats or words):
        raise InputError(f"nothing to explain among the inputs {sorted(tensors)}")
    return floats or words
