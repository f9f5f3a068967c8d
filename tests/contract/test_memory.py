"""Nothing of a forward pass outlives its explanation, without the help of the garbage collector."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import whence
from tests import small
from whence.core.interception import Interception


@pytest.fixture
def leaves(monkeypatch):
    """Weak references to every leaf: as long as one node of the graph lives, so does its leaf."""
    seen: list[weakref.ref] = []
    original = Interception.leaf

    def leaf(self, *args, **options):
        out = original(self, *args, **options)
        seen.append(weakref.ref(self.leaves[-1].tensor))
        return out

    monkeypatch.setattr(Interception, "leaf", leaf)
    return seen


@pytest.mark.parametrize("method", whence.methods)
def test_the_graph_is_freed(method, leaves):
    model = whence.load((small.classifier(), small.wordpiece()))
    gc.collect()
    gc.disable()
    try:
        whence.explain(model, ["a good movie", "bad"], method)
        alive = [ref for ref in leaves if ref() is not None]
    finally:
        gc.enable()
    assert not alive


def test_the_test_can_fail(leaves):
    """A graph that hangs on to itself through a hook is noticed."""
    kept = []
    model = small.by_hand()
    whence.explain(model, torch.tensor([[1, 2]]), target=lambda out: kept.append(out) or out[:, 0])
    assert any(ref() is not None for ref in leaves)
