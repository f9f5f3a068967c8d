"""Activations of layers and gradients of a target by them, for many examples, in batches.

Forward hooks sit on the wanted modules while a batch runs and are gone after it, also after an exception. They act in
the thread that set them only: another thread may use the same model meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from whence.concepts.cache import Cache
from whence.concepts.layers import Layer, hooked
from whence.concepts.pooling import pooled, pooled_gradient
from whence.errors import InputError, ModelError, NumericsError
from whence.models.adapter import AbstractAdapter
from whence.models.asking import TargetScores
from whence.models.batching import batches
from whence.models.example import Example, ExampleBatch
from whence.models.targets import AbstractTarget, field_of
from whence.progress import track

__all__ = ["Answers", "Probe"]


class Answers(NamedTuple):
    """∂target/∂activation per layer (example, feature), and what the model made of the examples."""

    by_layer: dict[str, np.ndarray]
    target: str
    predicted: np.ndarray | None
    """The class with the highest score, per example; None where outputs are not classes."""


class Probe:
    """Reads a model at some of its layers."""

    def __init__(
        self,
        adapter: AbstractAdapter,
        layers: Sequence[Layer],
        pool: str,
        *,
        batch_size: int = 16,
        cache: Cache | None = None,
        progress: bool | None = None,
    ):
        self.adapter, self.layers, self.pool = adapter, list(layers), pool
        self.batch_size, self.cache, self.progress = batch_size, cache, progress

    def activations(self, examples: Sequence[Example], what: str = "activations") -> dict[str, np.ndarray]:
        """Pooled activations (example, feature) float32, by layer name; from the cache where it has them."""
        rows: list[dict[str, np.ndarray] | None] = [self._known(e) for e in examples]
        missing = [n for n, row in enumerate(rows) if row is None]
        for part in self._parts([examples[n] for n in missing], what):
            chosen = [examples[missing[i]] for i in part]
            with torch.no_grad():
                values, mask, _, _ = self._run(chosen, differentiable=False)
                found = {layer: _array(pooled(value, mask, self.pool)) for layer, value in values.items()}
            for row, i in enumerate(part):
                rows[missing[i]] = kept = {layer: array[row] for layer, array in found.items()}
                if self.cache is not None:
                    self.cache.put(examples[missing[i]], self.pool, kept)
        return {
            layer.name: self._stacked([row[layer.name] for row in rows if row], layer.name) for layer in self.layers
        }

    def gradients(self, examples: Sequence[Example], target: AbstractTarget, what: str = "gradients") -> Answers:
        """Gradients of the target's score by the activations of every layer, from one backward pass per batch."""
        rows: list[dict[str, np.ndarray]] = [{} for _ in examples]
        best: list[int | None] = [None] * len(examples)
        name = ""
        for part in self._parts(examples, what):
            chosen = [examples[i] for i in part]
            with torch.inference_mode(False), torch.enable_grad():
                values, mask, outputs, batch = self._run(chosen, differentiable=True)
                scores = TargetScores(self.adapter, batch, [target] * len(chosen))
                found = self._backward(scores(outputs), values)
            name = scores.names[0]
            for row, i in enumerate(part):
                rows[i] = {layer: _array(pooled_gradient(g, mask, self.pool)[row]) for layer, g in found.items()}
                best[i] = _best(outputs, row)
        by_layer = {layer.name: self._stacked([row[layer.name] for row in rows], layer.name) for layer in self.layers}
        predicted = None if any(b is None for b in best) else np.array(best)
        return Answers(by_layer, name, predicted)

    # -- inside ----------------------------------------------------------------------------------------------

    def _parts(self, examples: Sequence[Example], what: str) -> Iterator[list[int]]:
        if not examples:
            return iter(())
        budget = self.batch_size * max(e.cost for e in examples)
        keys = [e.shape_key if self.pool == "flatten" else None for e in examples]
        parts = list(batches(self.adapter, examples, budget, keys))
        return track(parts, what, len(examples), map(len, parts), show=self.progress)

    def _known(self, example: Example) -> dict[str, np.ndarray] | None:
        return self.cache.get(example, self.pool, [la.name for la in self.layers]) if self.cache is not None else None

    def _run(
        self, examples: Sequence[Example], *, differentiable: bool
    ) -> tuple[dict[str, Tensor], Tensor | None, Any, ExampleBatch]:
        batch = self.adapter.collate(examples)
        values: dict[str, Tensor] = {}
        names = {layer.module: layer.name for layer in self.layers}
        mine = threading.get_ident()

        def hook(module: nn.Module, _inputs: Any, output: Any) -> Any:
            if threading.get_ident() != mine:
                return None
            value = _first_tensor(output, names[module])
            if not differentiable:
                values[names[module]] = value
                return None
            # A leaf where nothing before asked for gradients; what goes on is a copy that may be written into.
            value = value if value.requires_grad else value.detach().requires_grad_()
            values[names[module]] = value
            return _replaced(output, value.clone())

        with hooked(names, hook):
            outputs = self.adapter.forward(batch.inputs)
        for layer in self.layers:
            if layer.name not in values:
                raise ModelError(f"layer {layer.name!r} did not run on this input")
            if values[layer.name].shape[0] != len(examples):
                shape = tuple(values[layer.name].shape)
                raise ModelError(f"layer {layer.name!r} gives {shape}: its first axis is not the batch. Choose another")
        return values, _real(batch), outputs, batch

    def _backward(self, score: Tensor, values: dict[str, Tensor]) -> dict[str, Tensor]:
        found: Sequence[Tensor | None] = [None] * len(values)
        if score.requires_grad:
            found = torch.autograd.grad(score.sum(), list(values.values()), allow_unused=True)
        for layer, gradient in zip(values, found, strict=True):
            if gradient is None:
                raise ModelError(f"the target does not depend on layer {layer!r}: choose one that leads to the output")
        return dict(zip(values, found, strict=True))  # type: ignore[arg-type]

    def _stacked(self, rows: list[np.ndarray], layer: str) -> np.ndarray:
        if len({row.shape for row in rows}) > 1:
            raise InputError(
                f"pool={self.pool!r} gives vectors of different lengths at layer {layer!r}, since the inputs differ in "
                "length. Use pool='mean' or pool='cls'"
            )
        stacked = np.stack(rows)
        if not np.isfinite(stacked).all():
            raise NumericsError(f"values at layer {layer!r} are not finite: load the model with dtype='float32'")
        return stacked


def _real(batch: ExampleBatch) -> Tensor | None:
    """1 for the tokens of each example, 0 for padding; None where there is none."""
    source = batch.names[0]
    if source not in batch.places:
        return None
    real = torch.zeros(batch.inputs[source].shape[:2], dtype=torch.long)
    for n in range(batch.examples):
        real[n, batch.places_of(source, n)] = 1
    return real.to(batch.inputs[source].device)


def _array(value: Tensor) -> np.ndarray:
    array: np.ndarray = value.detach().float().cpu().numpy()
    return array


def _best(outputs: Any, row: int) -> int | None:
    logits = field_of(outputs, "logits")[row]
    return int(logits.argmax()) if logits.dim() == 1 and logits.shape[0] > 1 else None


def _first_tensor(output: Any, name: str) -> Tensor:
    items = output.values() if isinstance(output, dict) else output if isinstance(output, (tuple, list)) else [output]
    found = next((v for v in items if isinstance(v, Tensor) and v.is_floating_point()), None)
    if found is None:
        raise ModelError(
            f"layer {name!r} returns no tensor of numbers but {type(output).__name__}: choose another layer"
        )
    return found


def _replaced(output: Any, value: Tensor) -> Any:
    """`output` with its first tensor of numbers exchanged for `value`."""
    if isinstance(output, Tensor):
        return value
    if isinstance(output, dict):
        key = next(k for k, v in output.items() if isinstance(v, Tensor) and v.is_floating_point())
        copied = type(output)(**output)
        copied[key] = value
        return copied
    place = next(n for n, v in enumerate(output) if isinstance(v, Tensor) and v.is_floating_point())
    items = [*output[:place], value, *output[place + 1 :]]
    return type(output)(*items) if hasattr(output, "_fields") else type(output)(items)
