"""Who may stand beside whom: what is measured for some inputs is not taken for others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import whence
from tests import small
from whence.errors import InputError
from whence.models.batching import batches

SHORT, LONG = "good", "the plot of this movie is very very dull"


@pytest.fixture
def model():
    return whence.load((small.classifier(), small.wordpiece()))


def _ids(text: str, *, mask: bool) -> dict[str, torch.Tensor]:
    encoded = small.wordpiece()(text, return_tensors="pt")
    return {k: v for k, v in encoded.items() if mask or k != "attention_mask"}


@pytest.mark.parametrize("masks", [(False, False), (False, True), (True, False)])
def test_inputs_without_a_mask_after_inputs_with_one(model, masks):
    """Padding without a mask would be read as text."""
    whence.explain(model, [SHORT, LONG])
    rows = [_ids(text, mask=mask) for text, mask in zip((SHORT, LONG), masks, strict=True)]
    for row, exp in zip(rows, whence.explain(model, rows), strict=True):
        wanted = small.classifier()(**row).logits[0].max().item()
        assert exp.target_score == pytest.approx(wanted, abs=1e-5)


def test_batches_keep_apart_what_has_other_inputs(model):
    examples, _ = model.encode([_ids(SHORT, mask=True), _ids(SHORT, mask=False), _ids(SHORT, mask=True)])
    assert sorted(map(sorted, batches(model, examples, 1000))) == [[0, 2], [1]]


@pytest.mark.parametrize("side", ["left", "right"])
def test_deleting_tokens_of_a_padded_prompt(side):
    tokenizer = small.bytelevel()
    model = whence.load((small.llama(), tokenizer))
    ids = tokenizer("the plot")["input_ids"]
    pad, mask = [0] * 3, [1] * len(ids)
    padded = {"left": (pad + ids, [0] * 3 + mask), "right": (ids + pad, mask + [0] * 3)}[side]
    given = {"input_ids": torch.tensor([padded[0]]), "attention_mask": torch.tensor([padded[1]])}
    exp = whence.explain(model, given, "occlusion", target=70, fill="delete")
    wanted = whence.explain(model, "the plot", "occlusion", target=70, fill="delete")
    np.testing.assert_allclose(exp.scores, wanted.scores, atol=1e-5)


def test_what_predicts_can_not_be_deleted():
    model = whence.load((small.llama(), small.bytelevel()))
    ((example,), _) = model.encode("a", continuation="bc")
    with pytest.raises(InputError, match="would be deleted"):
        model.masked(example, np.array([False, True]), "delete")
