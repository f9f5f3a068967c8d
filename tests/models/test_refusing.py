"""What the model itself can't take."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import whence
from tests import small
from whence.errors import InputError
from whence.verbs.explain import SkippedWarning


def test_ids_beyond_the_vocabulary():
    wrong = {"input_ids": torch.tensor([[1, 9999]])}
    says = r"BertForSequenceClassification can't take this input: IndexError.*an id beyond .* from 1 to 9999"
    with pytest.raises(InputError, match=says):
        whence.explain(small.classifier(), wrong)


@pytest.mark.parametrize(("ids", "says"), [([[1, -4]], "holds -4"), ([[1.0, 2.0]], "holds floats")])
def test_ids_that_are_none(ids, says):
    with pytest.raises(InputError, match=f"'input_ids' {says}, and ids of tokens are whole numbers"):
        whence.explain((small.classifier(), small.wordpiece()), {"input_ids": torch.tensor(ids)})


def test_pictures_of_another_size_are_named_by_their_index():
    good, wrong = torch.zeros(3, 16, 16), torch.zeros(3, 8, 8)
    with pytest.raises(InputError, match=r"input 1: ViT.* can't take this input.*'pixel_values' \(3, 8, 8\)"):
        whence.explain(small.vit(), [good, wrong])
    with pytest.warns(SkippedWarning, match=r"1 of 2 inputs skipped. input 1: ViT.* can't take this input"):
        found = whence.explain(small.vit(), [good, wrong], on_error="skip")
    np.testing.assert_array_equal(found[0].scores, whence.explain(small.vit(), good).scores)
    assert found[1] is None


def test_inside_the_model_too():
    with pytest.raises(InputError, match="can't take this input"):
        whence.explain(small.classifier(), {"input_ids": torch.tensor([[1, 9999]])}, at="layers")


def test_an_error_of_the_callers_own_stays_what_it_is():
    def asks(outputs):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        whence.explain((small.classifier(), small.wordpiece()), "a good movie", target=asks)


@pytest.mark.parametrize("verb", [whence.attention, whence.audit, whence.graph, whence.compare])
def test_whatever_is_asked(verb):
    with pytest.raises(InputError, match="can't take this input"):
        verb(small.classifier(), {"input_ids": torch.tensor([[1, 9999]])})
