"""Options that make no sense are errors."""

from __future__ import annotations

import pytest

import whence
from tests import small
from whence.errors import InputError, OptionError
from whence.methods.explaining import as_method

MODEL = (small.classifier, small.wordpiece)


@pytest.mark.parametrize(
    ("method", "options", "known"),
    [
        ("rollout", {"fusion": "sum"}, "'mean', 'max' or 'min'"),
        ("rollout", {"row": "first"}, "'auto', 'cls', 'last', 'mean' or 'column_sum'"),
        ("attention_flow", {"residual": "add"}, "'none', 'add_identity' or 'add_identity_then_normalise'"),
        ("gae", {"variant": "papr"}, "Did you mean 'paper'"),
        ("grad_sam", {"axis": "rows"}, "'query' or 'key'"),
        ("transformer_attribution", {"ablation": "last"}, "'none', 'attention', 'last_block' or 'first_block'"),
    ],
)
def test_a_misspelled_choice(method, options, known):
    (name,) = options
    with pytest.raises(OptionError, match=f"{name}=.* is not .*{known}"):
        as_method(method, **options)


@pytest.mark.parametrize("method", ["rollout", "transformer_attribution"])
def test_a_start_past_the_last_layer(method):
    module, tokenizer = (made() for made in MODEL)
    with pytest.raises(InputError, match="layers are 0 to"):
        whence.explain((module, tokenizer), "a good film", method, start_layer=2)
    last = whence.explain((module, tokenizer), "a good film", method, start_layer=-1)
    assert last.scores == pytest.approx(
        whence.explain((module, tokenizer), "a good film", method, start_layer=1).scores
    )
