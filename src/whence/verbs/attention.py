"""`whence.attention`: the maps themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whence.data.frames import column
from whence.methods.attention.attention_method import check_maps, cropped, refuse_apart
from whence.methods.attention.last import AttentionLast
from whence.models.loading import load
from whence.results.maps import AttentionMaps
from whence.stamp import versions

__all__ = ["attention"]


def attention(model: Any, inputs: Any, *, text: str | int | Sequence[str] | None = None, truncate: bool = False) -> Any:
    """Attention maps (layer, head, query, key) of any model, fused attention included; a list for a list.

    `text` names the column of a frame, as in `whence.explain`.

    >>> import whence
    >>> whence.attention("sentiment", "a gem").array.shape[-2:]
    (4, 4)
    """
    adapter = load(model)
    examples, single = adapter.encode(column(inputs, text), truncate=truncate)
    refuse_apart(adapter, "attention")
    method = AttentionLast()
    results = []
    for example in examples:
        batch = adapter.collate([example])
        captured, _, _ = method.collect(adapter, batch, [adapter.aim(example, adapter.default_target(example))[1]])
        check_maps(captured.maps, "attention")
        layers = cropped(batch, 0, captured)
        tokens = [part.names for part in example.parts]
        results.append(
            AttentionMaps(
                maps=tuple(layer.attention.cpu().numpy() for layer in layers),
                streams=tuple(layer.stream for layer in layers),
                tokens=tokens[0],
                decoder_tokens=tokens[1] if len(tokens) > 1 else (),
                text=example.text,
                stamp={**adapter.facts(), **versions()},
            )
        )
    return results[0] if single else results
