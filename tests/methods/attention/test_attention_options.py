"""Options that make no sense are errors."""

from __future__ import annotations

import pytest

import whence
from tests import small
from whence.errors import InputError, UnknownNameError
from whence.methods.method import make

MODEL = (small.classifier, small.wordpiece)


@pytest.mark.parametrize(
    ("method", "options", "known"),
    [
        ("rollout", {"fusion": "sum"}, "max, mean, min"),
        ("rollout", {"row": "first"}, "auto, cls, column_sum, last, mean"),
        ("attention_flow", {"residual": "add"}, "add_identity, add_identity_then_normalise, none"),
        ("gae", {"variant": "papr"}, "Did you mean 'paper'"),
        ("grad_sam", {"axis": "rows"}, "key, query"),
        ("transformer_attribution", {"ablation": "last"}, "attention, first_block, last_block, none"),
    ],
)
def test_a_misspelled_choice(method, options, known):
    (name,) = options
    with pytest.raises(UnknownNameError, match=f"unknown {name}.*{known}"):
        make(method, **options)


@pytest.mark.parametrize("method", ["rollout", "transformer_attribution"])
def test_a_start_past_the_last_layer(method):
    module, tokenizer = (made() for made in MODEL)
    with pytest.raises(InputError, match="start_layer is past the last layer"):
        whence.explain((module, tokenizer), "a good film", method, start_layer=2)
    last = whence.explain((module, tokenizer), "a good film", method, start_layer=-1)
    assert last.scores == pytest.approx(
        whence.explain((module, tokenizer), "a good film", method, start_layer=1).scores
    )
