"""`whence.attention`: the maps themselves."""

from __future__ import annotations

from typing import Any

from whence.methods.attention.attention_method import check_maps, cropped
from whence.methods.attention.last import AttentionLast
from whence.models.loading import load
from whence.results.maps import AttentionMaps

__all__ = ["attention"]


def attention(model: Any, inputs: Any, *, truncate: bool = False) -> Any:
    """Attention maps (layer, head, query, key) of any model, fused attention included; a list for a list.

    >>> import whence
    >>> whence.attention("sentiment", "a gem").array.shape[-2:]
    (4, 4)
    """
    adapter = load(model)
    examples, single = adapter.encode(inputs, truncate=truncate)
    method = AttentionLast()
    results = []
    for example in examples:
        captured, _, _ = method.collect(adapter, [example], [adapter.target(None)])
        check_maps(captured.maps, "attention")
        layers = cropped(adapter, [example], 0, captured, None)
        source = sum(side != "decoder" for side in example.sides) if example.sides else len(example.tokens)
        results.append(
            AttentionMaps(
                maps=tuple(layer.attention.cpu().numpy() for layer in layers),
                streams=tuple(layer.stream for layer in layers),
                tokens=example.tokens[:source],
                decoder_tokens=example.tokens[source:],
                text=example.text,
                provenance=adapter.provenance(),
            )
        )
    return results[0] if single else results
