"""What rounding leaves on a receipt is within its tolerance, and what a missing rule leaves is not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import whence
from zoo.build import build

TASKS = {
    "bert": "sequence-classification", "llama": "causal-lm", "gpt2": "causal-lm", "vit": "image-classification",
    "t5": "seq2seq-lm", "modernbert": "sequence-classification",
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("method", ["exact", "attn_lrp", "ah_ln"])
@pytest.mark.parametrize("family", TASKS)
def test_rounding_is_within_the_tolerance(family, method, dtype):
    made = build(TASKS[family], family)
    inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in made.inputs.items()}
    for exp in whence.explain(made.model.to(dtype), inputs, method, 1, receipt="full"):
        assert 0 < exp.conservation.tolerance < 0.2 * exp.conservation.scale * len(exp)
        assert abs(exp.conservation.error) <= exp.conservation.tolerance


def test_a_missing_rule_is_not_rounding():
    class Unruled(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 2)

        def forward(self, x):
            return self.out(torch.erfc(x))

    exp = whence.explain(Unruled().eval(), torch.randn(1, 4))
    assert exp.conservation.unruled
    assert abs(exp.conservation.error) > exp.conservation.tolerance


def test_it_is_saved(tmp_path):
    exp = whence.explain("sentiment", "a gem")
    exp.save(tmp_path / "x.json")
    assert whence.Explanation.load(tmp_path / "x.json").conservation.tolerance == exp.conservation.tolerance > 0


def test_half_precision_says_what_its_error_is():
    made = build("sequence-classification", "bert")
    half, whole = (
        str(whence.explain(made.model.to(dtype), dict(made.inputs), "exact", 1)[0].conservation)
        for dtype in (torch.bfloat16, torch.float32)
    )
    assert half.endswith(", which is rounding)")
    assert "rounding" not in whole
