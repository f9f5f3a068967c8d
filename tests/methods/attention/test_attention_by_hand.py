"""Cases small enough to work out on paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.reference import attention_methods as slow
from whence.methods.attention.attention_method import LayerMap
from whence.methods.attention.flow import max_flow_to_inputs
from whence.methods.explaining import as_method


def layer(attention, gradient=None, **rest) -> LayerMap:
    as_heads = lambda m: None if m is None else torch.tensor([m])
    return LayerMap(as_heads(attention), as_heads(gradient), **rest)


def scores(method: str, layers: list[LayerMap], rows: list[int], **options) -> list[float]:
    return as_method(method, **options).token_scores(layers, rows, "mean").tolist()


def test_rollout_of_two_tokens_and_two_layers():
    # Â₁ = [[¾, ¼], [⅛, ⅞]], Â₂ = [[1, 0], [¼, ¾]];  Â₂Â₁ = [[¾, ¼], [9/32, 23/32]]
    layers = [layer([[0.5, 0.5], [0.25, 0.75]]), layer([[1.0, 0.0], [0.5, 0.5]])]
    assert scores("rollout", layers, [0]) == [0.75, 0.25]
    assert scores("rollout", layers, [1]) == [0.28125, 0.71875]
    # without normalising: (A₂ + I)(A₁ + I) = [[2, 0], [½, 3/2]] [[3/2, ½], [¼, 7/4]]
    assert scores("rollout", layers, [1], residual="add_identity") == [1.125, 2.875]
    # A₂A₁ alone
    assert scores("rollout", layers, [1], residual="none") == [0.375, 0.625]
    assert scores("rollout", layers, [1], zero_self=True) == [0.28125, 0.28125]
    assert scores("rollout", layers, [1], start_layer=1) == [0.25, 0.75]


def test_gae_with_one_head():
    # Ā₁ = [[1, 0], [1, 0]], R = [[2, 0], [1, 1]];  Ā₂ = [[0, 1], [½, 0]], R = [[2, 0], [1, 1]] + [[1, 1], [1, 0]]
    layers = [
        layer([[0.5, 0.5], [0.25, 0.75]], [[2.0, -1.0], [4.0, 0.0]]),
        layer([[0.5, 0.5], [0.5, 0.5]], [[0.0, 2.0], [1.0, -3.0]]),
    ]
    assert scores("gae", layers, [0]) == [3, 1]
    assert scores("gae", layers, [1]) == [2, 1]
    assert scores("gae", layers, [0, 1]) == [2.5, 1]


def test_grad_sam_on_a_two_by_two_map():
    # A ⊙ ReLU(∇A) = [[1, 0], [1, ¾]]; one layer, one head, two tokens
    one = [layer([[0.5, 0.5], [0.25, 0.75]], [[2.0, -1.0], [4.0, 1.0]])]
    assert scores("grad_sam", one, [0]) == [0.5, 0.875]
    assert scores("grad_sam", one, [0], axis="key") == [1, 0.375]


def test_grad_cam_on_two_heads():
    # head weights: mean of the gradients 1 and -½; over row 0 without column 0: 2 and -1
    attention = torch.tensor([[[0.5, 0.5], [0.2, 0.8]], [[1.0, 0.0], [0.4, 0.6]]])
    gradient = torch.tensor([[[2.0, 2.0], [0.0, 0.0]], [[1.0, -1.0], [-1.0, -1.0]]])
    made = [LayerMap(attention, gradient)]
    assert scores("attention_grad_cam", made, [0]) == [0, 0.25]  # ½(½ - ½), ½(½ - 0)
    assert scores("attention_grad_cam", made, [0], variant="code") == [0, 0.5]  # ½(2·½ - 1·1), ½(2·½ - 1·0)


def test_attcat_of_one_layer():
    made = [
        layer(
            [[0.5, 0.5], [0.0, 1.0]],
            states=torch.tensor([[1.0, 2.0], [3.0, 0.0]]),
            states_gradient=torch.tensor([[1.0, -1.0], [2.0, 5.0]]),
        )
    ]
    assert scores("attcat", made, [0]) == [0.25 * -1, 0.75 * 6]


def test_transformer_attribution_and_partial_lrp_of_one_layer():
    relevance = torch.tensor([[[0.5, -1.0], [0.25, 0.5]]])
    made = [layer([[0.5, 0.5], [0.25, 0.75]], [[2.0, 1.0], [-4.0, 2.0]], relevance=relevance)]
    # (∇A ⊙ R)⁺ = [[1, 0], [0, 1]]
    assert scores("transformer_attribution", made, [0]) == [2, 0]
    assert scores("transformer_attribution", made, [1], ablation="last_block") == [0, 1]
    # (A ⊙ R)⁺ = [[¼, 0], [1/16, ⅜]]
    assert scores("transformer_attribution", made, [1], ablation="attention") == [0.0625, 1.375]
    assert scores("partial_lrp", made, [0]) == [0.5, 0]


def test_flow_through_a_bottleneck():
    """Everything that reaches token 0 passes the edge of capacity 0.3, though 0.9 arrives before it."""
    capacities = [
        np.array([[0.3, 0.7], [0.0, 1.0]]),
        np.array([[0.5, 0.5], [0.4, 0.6]]),
        np.array([[0.6, 0.4], [0.5, 0.5]]),
    ]
    np.testing.assert_allclose(max_flow_to_inputs(capacities, 0), [0.3, 1.0], atol=1e-12)
    assert [slow.max_flow(capacities, 0, sink) for sink in (0, 1)] == pytest.approx([0.3, 1.0])


def test_flow_of_one_layer_is_the_row():
    capacities = [np.array([[0.25, 0.75], [0.5, 0.5]])]
    np.testing.assert_array_equal(max_flow_to_inputs(capacities, 1), [0.5, 0.5])
