"""The pruning curve: orders, and what is left of the answers."""

from __future__ import annotations

import numpy as np

import whence
from benchmarks.pruning import curve, order_by, said, table
from tests import small

TEXTS = ["a witty movie", "a dull plot", "the film is good", "boring"]


def test_orders_begin_with_the_weakest_and_a_curve_with_the_whole_model():
    model = whence.load((small.classifier(), small.wordpiece()))
    order = order_by(model, TEXTS, "lrp")
    assert sorted(order) == [(layer, head) for layer in range(2) for head in range(4)]
    sizes = np.mean([np.abs(one["heads"]) for one in whence.explain(model, TEXTS, at="heads")], 0)
    assert [sizes[at] for at in order] == sorted(sizes.reshape(-1))
    found = curve(model, TEXTS, [order], [0, 8])
    assert found.shape == (1, 2, 4)
    np.testing.assert_array_equal(found[0, 0], said(model, TEXTS, ()))


def test_a_table_has_a_row_for_each_order():
    model = whence.load((small.classifier(), small.wordpiece()))
    made = table(model, [(text, 0) for text in TEXTS], [0, 2], resamples=20).splitlines()
    assert made[2].startswith("| relevance (lrp) | 100 [100, 100] |")
    assert [line.split("|")[1].strip() for line in made[2:5]] == [
        "relevance (lrp)",
        "gradient (gi, Michel et al.)",
        "chance",
    ]
