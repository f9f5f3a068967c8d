"""Cancelled work stops before its next model pass."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

import whence
from tests import small
from whence import cancel
from whence.methods.attention.flow import max_flow_to_inputs
from whence.progress import track

WORDS = "the movie is not good but it is very witty and the plot is dull and boring".split()
TEXTS = [" ".join(WORDS[n:] + WORDS[:n]) * 2 for n in range(8)]


class Counted:
    """Counts passes of a model and cancels in the middle of one of them."""

    def __init__(self, module: torch.nn.Module, at: int, token: cancel.Token) -> None:
        self.passes, self.at, self.token = 0, at, token
        self.handle = module.register_forward_pre_hook(self)

    def __call__(self, *_):
        self.passes += 1
        if self.passes == self.at:
            self.token.cancel("enough")


@pytest.fixture
def counted():
    made = []

    def count(module, at, token):
        made.append(Counted(module, at, token))
        return made[-1]

    yield count
    for one in made:
        one.handle.remove()


def passes_of(counted, model, work):
    """How many passes the work takes if nobody stops it."""
    counter = counted(model.module, -1, cancel.Token())
    work()
    counter.handle.remove()
    return counter.passes


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("shap", {"fixed_context": None}),
        ("occlusion", {}),
        ("integrated_gradients", {"steps": 64}),
        ("smooth_grad", {"samples": 64}),
    ],
)
def test_slow_methods_stop(counted, method, options):
    model = whence.load((small.classifier(), small.wordpiece()))
    explained = lambda: whence.explain(model, TEXTS, method, **options)
    assert passes_of(counted, model, explained) > 2
    token = cancel.Token()
    counter = counted(model.module, 2, token)
    with cancel.scope(token), pytest.raises(cancel.Cancelled, match="enough"):
        explained()
    assert counter.passes == 2


def test_batches_stop(counted):
    model = whence.load((small.classifier(), small.wordpiece()))
    token = cancel.Token()
    counter = counted(model.module, 3, token)
    with cancel.scope(token), pytest.raises(cancel.Cancelled):
        whence.explain(model, ["a good movie"] * 20, "gi", batch_tokens=1)
    assert counter.passes == 3


def test_plain_modules_stop(counted):
    model = whence.load(small.by_hand())
    token = cancel.Token()
    token.cancel()
    counter = counted(model.module, -1, token)
    with cancel.scope(token), pytest.raises(cancel.Cancelled):
        model.forward({"tokens": torch.ones(1, 3, dtype=torch.long)})
    assert counter.passes == 0


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_generation_stops(counted, family):
    model = whence.load((getattr(small, family)(), small.bytelevel()))
    token = cancel.Token()
    counter = counted(getattr(model.module, "decoder", model.module), 3, token)
    with cancel.scope(token), pytest.raises(cancel.Cancelled):
        whence.explain(model, "a movie", "gi", generate=20)
    assert counter.passes == 3


def test_maximum_flows_stop():
    token = cancel.Token()
    token.cancel()
    with cancel.scope(token), pytest.raises(cancel.Cancelled):
        max_flow_to_inputs([np.eye(3)], 0)


@pytest.mark.parametrize("show", [None, False, True])
def test_loops_stop(show):
    token, seen = cancel.Token(), []

    def work():
        for item in track(range(10), "items", 10, show=show):
            seen.append(item)
            if item == 4:
                token.cancel()

    with cancel.scope(token), pytest.raises(cancel.Cancelled):
        work()
    assert seen == [0, 1, 2, 3, 4]


def test_another_thread_cancels_and_only_its_scope_ends():
    """Two threads work; one is cancelled from outside, the other goes on."""
    tokens = [cancel.Token(), cancel.Token()]
    begun, go_on = [threading.Event(), threading.Event()], threading.Event()
    outcome: list[str | None] = [None, None]

    def work(n):
        with cancel.scope(tokens[n]):
            begun[n].set()
            go_on.wait()
            try:
                cancel.check()
                outcome[n] = "went on"
            except cancel.Cancelled as error:
                outcome[n] = str(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread, event in zip(threads, begun, strict=True):
        thread.start()
        event.wait()
    tokens[0].cancel("the client left")
    tokens[0].cancel("a second reason does not replace the first")
    go_on.set()
    for thread in threads:
        thread.join()
    assert outcome == ["the client left", "went on"]
    cancel.check()


def test_the_scope_around_comes_back():
    outer, inner = cancel.Token(), cancel.Token()
    inner.cancel()
    with cancel.scope(outer):
        with cancel.scope(inner), pytest.raises(cancel.Cancelled):
            cancel.check()
        cancel.check()
        outer.cancel()
        with pytest.raises(cancel.Cancelled):
            cancel.check()


def test_handlers_of_errors_do_not_swallow_it():
    assert not issubclass(cancel.Cancelled, Exception)
