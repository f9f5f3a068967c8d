"""What a model asks of its tensors when it is rehearsed, and what it is told when it is recorded."""

from __future__ import annotations

import operator
import threading

import pytest
import torch
from torch import Tensor

from tests.core.helpers import Refusing
from whence.core.questions import Questions

X = torch.tensor([[3, 1, 2]])


def told(body):
    """What the body gives when it is rehearsed with an input, then recorded with another; and the questions."""
    questions = Questions()
    with questions.heard():
        first = body(X)
    with questions.answered():
        second = body(X.flip(1))
    return first, second, questions


def _data(held: Tensor, x: Tensor) -> Tensor:
    held.data = x
    return held


def _each_added(held: Tensor, x: Tensor) -> Tensor:
    torch._foreach_add_([held], [x.float()])
    return held


def in_one_piece(x: Tensor) -> bool:
    """As transformers looks for several texts in one row."""
    places = torch.arange(x.shape[1]).unsqueeze(0).expand(len(x), -1)
    steps = torch.diff(places, prepend=places[:, :1] - 1, dim=-1)
    return bool(((steps != 1).cumsum(-1)[:, -1] == 0).all())


def test_what_follows_from_shapes_is_answered_without_a_look():
    first, _, questions = told(in_one_piece)
    assert first
    assert not questions.open
    assert len(questions.answers) == 1
    with Refusing(), questions.answered():
        assert in_one_piece(X)
    with Refusing(), pytest.raises(RuntimeError, match="in a recording"):
        in_one_piece(X)


@pytest.mark.parametrize(
    "asks",
    [
        lambda x: bool((x == 3).any()),
        lambda x: (x + torch.arange(3))[0, 0].item(),
        lambda x: torch.where(x == 3, torch.zeros(1, 3), torch.ones(1, 3)).tolist(),
        lambda x: float(torch.zeros(3).index_fill_(0, x[0, :1] % 3, 1.0)[0]),
        lambda x: float(torch.zeros(1, 3).copy_(x)[0, 0]),
        lambda x: len((x == 3).nonzero()[0]),
        lambda x: float(torch.rand_like(torch.ones(3))[0]),
        lambda x: bool(torch.full_like(torch.ones(3), 1.0).mul_(x[0]).all()),
        lambda x: bool(operator.ior(torch.zeros(1, 3, dtype=torch.bool), x == 3)[0, 0]),
        lambda x: bool(operator.iand(torch.ones(1, 3, dtype=torch.bool), x == 3)[0, 0]),
        lambda x: bool(operator.ixor(torch.ones(1, 3, dtype=torch.bool), x == 3)[0, 0]),
        lambda x: operator.ifloordiv(torch.ones(1, 3), x).tolist(),
        lambda x: operator.imod(torch.ones(1, 3), x).tolist(),
        lambda x: _data(torch.zeros(1, 3), x).tolist(),
        lambda x: _each_added(torch.zeros(1, 3), x).tolist(),
        lambda x: torch.add(x, 1, out=torch.zeros(1, 3)).tolist(),
        lambda x: torch.zeros(1, 3).data_ptr(),
    ],
)
def test_what_follows_from_the_input_is_asked(asks):
    *_, questions = told(asks)
    assert questions.open
    with questions.answered():
        pass


def test_a_view_that_was_written_into_is_known_no_longer():
    def asks(x):
        held = torch.zeros(1, 3)
        held[:, 1:].copy_(x[:, 1:])
        return float(held.sum())

    first, second, questions = told(asks)
    assert questions.open
    assert (first, second) == (3, 4)


def test_sizes_of_inputs_are_sizes():
    first, second, questions = told(lambda x: (torch.ones_like(x).sum().item(), x.new_zeros(2).tolist()))
    assert first == second == (3, [0, 0])
    assert not questions.open


def test_who_asks_otherwise_gets_its_own_answer():
    questions = Questions()
    with questions.heard():
        torch.arange(3).sum().item()
    with questions.answered():
        assert bool(torch.arange(3).any())


def test_nobody_notices_a_recording(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    capturing = torch.cuda.is_current_stream_capturing
    _, _, questions = told(in_one_piece)
    elsewhere = []
    with questions.answered():
        assert not torch.cuda.is_current_stream_capturing()
        other = threading.Thread(target=lambda: elsewhere.append(torch.cuda.is_current_stream_capturing()))
        other.start()
        other.join()
    assert elsewhere == [True]
    assert torch.cuda.is_current_stream_capturing is capturing
    with pytest.raises(ZeroDivisionError), questions.answered():
        raise ZeroDivisionError
    assert torch.cuda.is_current_stream_capturing is capturing


def test_who_asks_of_the_input_is_told_that_it_is_recorded(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    questions = Questions()
    with questions.heard():
        X.sum().item()
    with questions.answered():
        assert torch.cuda.is_current_stream_capturing()


def test_casts_are_no_questions():
    _, _, questions = told(lambda x: x.float().bool().int().to(torch.float64).sum())
    assert not questions.open
    assert not questions.answers


def test_shapes_are_no_questions():
    _, _, questions = told(lambda x: (x.shape, x.dim(), len(x), x.numel(), x.stride(), x.dtype, x.split(1), x.device))
    assert not questions.open
    assert not questions.answers


@pytest.mark.parametrize("asks", [lambda x: 3 in x, lambda x: f"{x}", lambda x: x.numpy(), lambda x: x.sum() > 5 or 1])
def test_all_that_says_what_a_tensor_holds_is_a_question(asks):
    _, _, questions = told(asks)
    assert questions.open
