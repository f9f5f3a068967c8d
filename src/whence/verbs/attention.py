"""`whence.attention`: the maps themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whence.data.frames import column
from whence.methods.attention.attention_method import check_maps, cropped, refuse_apart
from whence.methods.attention.last import AttentionLast
from whence.models.loading import load
from whence.models.refusing import in_words
from whence.models.tokens import spell_tokens
from whence.results.maps import AttentionMaps
from whence.stamp import versions
from whence.verbs.explain import explain

__all__ = ["attention"]


def attention(
    model: Any,
    inputs: Any,
    *,
    text: str | int | Sequence[str] | None = None,
    truncate: bool = False,
    relevance: bool = False,
) -> Any:
    """Attention maps (layer, head, query, key) of any model, fused attention included; a list for a list.

    Maps of a text beside a picture or a sound are whole, and `tokens` are those of the text with the ones that hold the
    other's place; where a part of the model sees, its maps are over patches.

    `text` names the column of a frame, as in `whence.explain`. With `relevance`, every head also has its relevance for
    the prediction, and the page can sort heads by it; for another target or method, `maps.with_relevance(inside)`.

    >>> import whence
    >>> whence.attention("sentiment", "a gem").array.shape[-2:]
    (4, 4)
    """
    adapter = load(model)
    examples, single = adapter.encode(column(inputs, text), truncate=truncate)
    refuse_apart(adapter, "attention")
    method = AttentionLast()
    heads = explain(adapter, column(inputs, text), truncate=truncate, at="heads") if relevance else None
    results = []
    for example in examples:
        batch = adapter.collate([example])
        with in_words(adapter, example):
            captured, _, _ = method.collect(adapter, batch, [adapter.aim(example, adapter.default_target(example))[1]])
        check_maps(captured.maps, "attention")
        tokens = [part.names for part in example.parts]
        if len({part.source.kind for part in example.parts}) > 1:  # tokens of both, and patches where pictures are seen
            maps = [m.probabilities[0] for m in captured.maps if m.probabilities is not None]
            ids, reader = example.inputs[example.parts[0].source.name].tolist(), getattr(adapter, "tokenizer", None)
            tokens = [tuple(map(str, ids)) if reader is None else spell_tokens(reader, ids)]
        else:
            maps = [layer.attention for layer in cropped(batch, 0, captured)]
        results.append(
            AttentionMaps(
                maps=tuple(m.float().cpu().numpy() for m in maps),
                streams=tuple(m.stream for m in captured.maps),
                tokens=tokens[0],
                decoder_tokens=tokens[1] if len(tokens) > 1 else (),
                text=example.text,
                in_parts=captured.in_parts,
                stamp={**adapter.facts(), **versions()},
            )
        )
    if heads is not None:
        given = [heads] if single else heads
        results = [maps.with_relevance(own) for maps, own in zip(results, given, strict=True)]
    return results[0] if single else results
