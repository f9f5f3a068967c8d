"""Every layer of every kind of model: its relevance, what is absorbed behind and what passes it are the target."""

from __future__ import annotations

import pytest
import torch

from tests import small
from tests.contract.test_zoo import FAMILIES, OTHERS
from whence.core.batch import Batch
from whence.core.crossing import inside
from whence.core.recipe import recipes
from zoo.build import build
from zoo.check import Questions

NONE = {"squeezebert"}
"""Call `forward` of their blocks themselves, past all hooks: no layers are seen."""
PAST = {
    "dpt", "llava", "qwen2_vl", "mllama", "swin2sr", "maskformer", "detr", "rt_detr", "lxmert", "segformer", "timesfm",
    "patchtsmixer", "mask2former", "clip", "grounding-dino", "zoedepth", "reformer",
}  # fmt: skip
"""Features of several layers, streams or towers side by side, scales that are put back: relevance passes some of their
layers by where no block is handed it. `Inside.receipts` says so, `complete=False`."""
CLOSE = 1e-5
"""Of the largest amount on the receipt, float32."""


@pytest.mark.parametrize(("task", "model_type"), [*FAMILIES, *OTHERS])
def test_every_layer_has_a_receipt(task, model_type):
    specimen = build(task, model_type)
    asked = Questions(specimen, recipes["exact"])
    batch = Batch.of({name: value[:1] for name, value in specimen.inputs.items()}, *asked.sources)
    seen = inside(
        specimen.forward, batch, module=specimen.model, target=asked.target, recipe=recipes["exact"], kinds=["layers"]
    )
    assert bool(seen.layers) == (model_type not in NONE)
    errors = [error_of(seen, place) for place in seen.of("layers")]
    assert all(error <= CLOSE for error in errors) == (model_type not in PAST)


def error_of(seen, place):
    above, own = seen.above(place.layer), float(place.relevance.sum(dtype=torch.float64))
    scale = max(abs(amount) for amount in (seen.target, own, *above.values()))
    return abs(own + sum(above.values()) - seen.target) / scale


def test_by_hand():
    batch = Batch.of({"tokens": torch.randint(1, 49, (1, 7), generator=torch.Generator().manual_seed(0))}, "tokens")
    net = small.by_hand()
    seen = inside(
        lambda i: net(**i), batch, module=net, target=lambda y: y[:, 1], recipe=recipes["exact"], kinds=["layers"]
    )
    assert len(seen.layers) == 2
    assert all(error_of(seen, place) <= CLOSE for place in seen.of("layers"))
