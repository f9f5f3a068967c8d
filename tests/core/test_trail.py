"""Relevance is booked at the token whose id was looked up, wherever the model moved the id."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.core.helpers import CLOSE, explain_ids, normal, summed
from whence.core.batch import Batch
from whence.core.propagation import propagate
from whence.core.recipe import recipes
from whence.core.trail import begin, trail_of

TABLE = normal(50, 4, seed=1)
IDS = torch.tensor([[3, 7, 7, 1], [9, 3, 4, 8]])
WEIGHT = normal(20, 4, seed=2)


def score(looked_up: Tensor) -> Tensor:
    """One score per example: a weight for each place and channel."""
    flat = looked_up.flatten(1)
    return flat @ WEIGHT.reshape(-1)[: flat.shape[1]]


def shifted(ids: Tensor) -> Tensor:
    """As encoder-decoder models shift their labels to the right."""
    out = ids.new_zeros(ids.shape)
    out[:, 1:] = ids[:, :-1].clone()
    out[:, 0] = 2
    out.masked_fill_(out == -100, 1)
    return out


def hashed(ids: Tensor) -> Tensor:
    """Canine looks every id up in several tables by a hash."""
    return ((ids + 1) * 31) % 47


# Name: the ids that are looked up, and for each of them the place in its example that it came from (-1: none).
MOVES: dict[str, tuple[Callable[[Tensor], Tensor], list[int]]] = {
    "as they are": (lambda ids: ids, [0, 1, 2, 3]),
    "shifted": (shifted, [-1, 0, 1, 2]),
    "rolled": (lambda ids: ids.roll(1, 1), [3, 0, 1, 2]),
    "hashed": (hashed, [0, 1, 2, 3]),
    "flipped": (lambda ids: ids.flip(1), [3, 2, 1, 0]),
    "sliced": (lambda ids: ids[:, 1:], [1, 2, 3]),
    "with a start token": (lambda ids: torch.cat([torch.full((2, 1), 5), ids], 1), [-1, 0, 1, 2, 3]),
    "twice": (lambda ids: torch.cat([ids, ids], dim=1)[:, :5], [0, 1, 2, 3, 0]),
    "padded": (lambda ids: F.pad(ids, (0, 1), value=6), [0, 1, 2, 3, -1]),
    "flattened and back": (lambda ids: ids.view(-1).reshape(2, -1), [0, 1, 2, 3]),
    "cast": (lambda ids: ids.int().long(), [0, 1, 2, 3]),
    "gathered": (lambda ids: ids.gather(1, torch.tensor([[2, 0], [2, 0]])), [2, 0]),
    "ignored ones replaced": (lambda ids: ids.masked_fill(ids == 7, 0), [0, 1, 2, 3]),
    "clamped": (lambda ids: ids.clamp(max=6), [0, 1, 2, 3]),
    "split": (lambda ids: torch.cat(ids.split(2, 1)[::-1], 1), [2, 3, 0, 1]),
    "where": (lambda ids: torch.where(ids > 3, ids, 0), [0, 1, 2, 3]),
    "renumbered by a table": (lambda ids: torch.arange(50).flip(0)[ids], [0, 1, 2, 3]),
    "cast like another": (lambda ids: ids.int().type_as(ids), [0, 1, 2, 3]),
    "expanded like another": (lambda ids: ids[:, :1].expand_as(ids), [0, 0, 0, 0]),
    "in two rows": (lambda ids: torch.stack([ids, ids.flip(1)], 1)[:, 1], [3, 2, 1, 0]),
}


@pytest.mark.parametrize("lookup", ["F.embedding", "nn.Embedding", "index", "index_select"])
@pytest.mark.parametrize("move", MOVES)
def test_relevance_goes_to_the_token_that_was_looked_up(move: str, lookup: str) -> None:
    change, places = MOVES[move]
    embedding = nn.Embedding.from_pretrained(TABLE, freeze=False)
    look_up = {
        "F.embedding": lambda ids: F.embedding(ids, TABLE),
        "nn.Embedding": embedding,
        "index": lambda ids: TABLE[ids],
        "index_select": lambda ids: TABLE.index_select(0, ids.reshape(-1)).view(*ids.shape, 4),
    }[lookup]
    done = explain_ids(lambda ids: look_up(change(ids)), IDS, target=score)
    moved = change(IDS)
    expected, rest = torch.zeros(2, 4, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    for b in range(2):
        for n, place in enumerate(places):
            amount = TABLE[moved[b, n]] @ WEIGHT[n]
            if place >= 0:
                expected[b, place] += amount
            else:
                rest[b] += amount
    torch.testing.assert_close(done.relevance["ids"], expected, **CLOSE)
    torch.testing.assert_close(sum(done.sinks.values(), torch.zeros(2, dtype=torch.float64)), rest, **CLOSE)


@pytest.mark.parametrize(
    "end",
    [
        lambda ids: ids.ne(1).long().cumsum(1),
        lambda ids: torch.ones_like(ids).cumsum(1),
        lambda ids: (ids == 7).long(),
        lambda ids: torch.arange(ids.shape[1]).expand_as(ids),
    ],
)
def test_positions_made_from_ids_are_no_tokens(end: Callable[[Tensor], Tensor]) -> None:
    """RoBERTa counts the ids that are not padding; what it looks up then is a position."""
    words, positions = nn.Embedding(50, 4).double(), nn.Embedding(50, 4).double()
    done = explain_ids(lambda ids: words(ids) + positions(end(ids)), IDS)
    torch.testing.assert_close(done.relevance["ids"], (words(IDS) * normal(4, 4, seed=99)).sum(-1).detach(), **CLOSE)
    few = end(IDS).unique().numel() * 2 <= IDS.shape[1]  # many tokens share an index: a type, not a position
    torch.testing.assert_close(
        done.sinks["constant" if few else "position"], summed(positions(end(IDS))).detach(), **CLOSE
    )


def test_several_lookups_of_the_same_token_add_up() -> None:
    tables = [nn.Embedding(50, 4).double() for _ in range(3)]
    done = explain_ids(lambda ids: sum(t(hashed(ids + n)) for n, t in enumerate(tables)), IDS)
    torch.testing.assert_close(done.relevance["ids"].sum(1), done.target, **CLOSE)
    assert not done.sinks


def test_two_sources_are_told_apart() -> None:
    other = torch.tensor([[1, 2], [5, 6]])
    done = propagate(
        lambda i: torch.cat([F.embedding(i["a"], TABLE), F.embedding(i["b"], TABLE) * 2], 1),
        Batch.of({"a": IDS, "b": other}, "a", "b"),
        target=score,
        recipe=recipes["exact"],
    )
    torch.testing.assert_close(done.relevance["a"], (TABLE[IDS] * WEIGHT[:4]).sum(-1), **CLOSE)
    torch.testing.assert_close(done.relevance["b"], (TABLE[other] * 2 * WEIGHT[4:6]).sum(-1), **CLOSE)


def test_the_layer_of_positions() -> None:
    words, positions = nn.Embedding(50, 4).double(), nn.Embedding(8, 4).double()
    run = lambda ids: words(ids) + positions(torch.arange(4))
    weight = normal(4, 4, seed=99)
    word, place = ((t * weight).sum(-1).detach() for t in (words(IDS), positions(torch.arange(4)).expand(2, 4, 4)))
    for layer, expected in (("word", word), ("embedding", word + place), ("position", place)):
        done = explain_ids(run, IDS, at=layer)
        torch.testing.assert_close(done.relevance["ids"], expected, **CLOSE)
        torch.testing.assert_close(done.inputs + sum(done.sinks.values()), done.target, **CLOSE)


def test_a_trace_knows_every_place() -> None:
    ids = begin("ids", IDS)
    assert torch.equal(ids, IDS)
    trail = trail_of(ids)
    assert trail is not None
    assert trail.source == "ids"
    assert trail.whole
    assert torch.equal(trail.places, torch.arange(8).view(2, 4))
    assert trail_of(IDS) is None


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.sampled_from(["roll", "flip", "hash", "pad", "slice", "view", "shift"]), max_size=5))
def test_any_chain_of_moves(steps: list[str]) -> None:
    """The same moves applied to the places themselves say where each id must have come from."""

    def moved(t: Tensor, *, are_places: bool) -> Tensor:
        for step in steps:
            if step == "roll":
                t = t.roll(1, 1)
            elif step == "flip":
                t = t.flip(1)
            elif step == "hash" and not are_places:
                t = hashed(t)
            elif step == "pad":
                t = F.pad(t, (1, 0), value=-1 if are_places else 11)
            elif step == "slice" and t.shape[1] > 1:
                t = t[:, 1:]
            elif step == "view":
                t = t.reshape(-1).view(t.shape)
            elif step == "shift":
                t = torch.cat([torch.full((t.shape[0], 1), -1 if are_places else 13), t[:, :-1]], 1)
        return t

    done = explain_ids(lambda ids: F.embedding(moved(ids, are_places=False), TABLE), IDS, target=score)
    amounts = (TABLE[moved(IDS, are_places=False)] * WEIGHT[: moved(IDS, are_places=False).shape[1]]).sum(-1)
    places = moved(torch.arange(4).expand(2, 4), are_places=True)
    expected = torch.zeros(2, 4, dtype=torch.float64)
    for place in range(4):
        expected[:, place] = torch.where(places == place, amounts, 0.0).sum(1)
    torch.testing.assert_close(done.relevance["ids"], expected, **CLOSE)
