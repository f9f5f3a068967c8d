"""Modules that transformers does not know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import whence
from tests import small
from whence.errors import InputError, ModelError


def test_ids_under_any_name():
    exp = whence.explain(small.by_hand(), {"tokens": torch.tensor([[3, 4, 5]])})
    assert exp.tokens == ("3", "4", "5")
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)
    assert set(exp.conservation.sinks) >= {"bias", "position"}


def test_one_tensor_without_a_name():
    named = whence.explain(small.by_hand(), {"tokens": torch.tensor([[3, 4, 5]])})
    bare = whence.explain(small.by_hand(), torch.tensor([[3, 4, 5]]))
    np.testing.assert_array_equal(bare.scores, named.scores)


def test_float_inputs_get_a_score_per_token():
    net = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    exp = whence.explain(net, torch.randn(1, 5, 8), target=lambda out: out[:, 0, 0])
    assert exp.scores.shape == (5,)
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)


def test_a_model_without_embedding_lookup():
    class OneHot(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(5, 2)

        def forward(self, ids):
            return self.layer(torch.nn.functional.one_hot(ids, 5).float()).sum(1)

    with pytest.raises(ModelError, match="never looked its token ids up"):
        whence.explain(OneHot().eval(), torch.tensor([[1, 2]]))


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()


def test_arrays_and_frames_of_numbers():
    values = np.random.default_rng(0).normal(size=(3, 4))
    wanted = whence.explain(net(), torch.tensor(values, dtype=torch.float32))
    arrays = whence.explain(net(), values)
    frames = whence.explain(net(), pd.DataFrame(values, columns=["age", "height", "weight", "pulse"]))
    for n in range(3):
        np.testing.assert_array_equal(arrays[n].scores, wanted[n].scores)
        np.testing.assert_array_equal(frames[n].scores, wanted[n].scores)
    assert frames[0].tokens == ("age", "height", "weight", "pulse")
    arrow = pa.table({name: values[:, n] for n, name in enumerate("abcd")})
    assert whence.explain(net(), arrow)[2].top(4) == whence.explain(net(), pl.from_arrow(arrow).lazy())[2].top(4)
    ids = whence.explain(small.by_hand(), {"tokens": np.array([[3, 4, 5]])})
    assert ids.tokens == ("3", "4", "5")
    with pytest.raises(InputError, match="takes numbers"):
        whence.explain(net(), pd.DataFrame({"name": ["a", "b"]}))


def test_names_that_the_module_does_not_have():
    with pytest.raises(InputError, match=r"ByHand has no argument 'input_ids': .* 'tokens'"):
        whence.explain(small.by_hand(), {"input_ids": torch.tensor([[1, 2]])})


def test_a_label_where_outputs_have_no_names():
    with pytest.raises(InputError, match="no names for its outputs"):
        whence.explain(net(), torch.zeros(1, 4), target="yes")


def test_text_is_refused():
    with pytest.raises(InputError, match="takes tensors"):
        whence.explain(small.by_hand(), "a good movie")


def test_a_target_that_is_no_function_of_the_input():
    with pytest.raises(ModelError, match="does not depend"):
        whence.explain(small.by_hand(), torch.tensor([[1, 2]]), target=lambda out: torch.zeros(1))


class Switched(torch.nn.Module):
    """Attention with a flag, a number and a bias that belongs to no example."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 3)

    def forward(self, x, causal=False, bias=None, scale=1.0):
        scores = x @ x.mT * scale
        scores = scores if bias is None else scores + bias
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -1e9)
        return self.head((scores.softmax(-1) @ self.layer(x)).mean(1))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    "more", [{"causal": True}, {"scale": 3.0}, {"bias": torch.arange(25.0).view(5, 5) / 9}], ids=str
)
def test_what_has_no_batch_axis_is_handed_on(more, count):
    """Also where its first axis is as long as the batch."""
    torch.manual_seed(0)
    module, x = small.randomised(Switched()), torch.randn(count, 5, 8)
    found = whence.explain(module, {"x": x, **more}, target=1)
    with torch.no_grad():
        wanted = module(x, **more)[:, 1].tolist()
    assert [exp.target_score for exp in (found if count > 1 else [found])] == pytest.approx(wanted, abs=1e-5)


def test_encoding_does_not_change_the_adapter():
    model = whence.load(small.by_hand())
    before = dict(vars(model))
    model.encode({"tokens": torch.tensor([[1, 2]])})
    model.encode(torch.tensor([[1, 2], [3, 4]]))
    assert {**vars(model), "_known": None} == before


def test_tokens_first_with_as_many_tokens_as_examples():
    """(token, example, hidden) inside, and sizes that can't tell which is which."""

    class TokensFirst(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(50, 16)
            self.block = torch.nn.TransformerEncoderLayer(16, 2, 32)
            self.head = torch.nn.Linear(16, 3)

        def forward(self, tokens):
            return self.head(self.block(self.words(tokens).transpose(0, 1)).mean(0))

    module = small.randomised(TokensFirst())
    ids = torch.randint(1, 49, (4, 4), generator=torch.Generator().manual_seed(0))
    for method in ("lrp", "transformer_attribution", "gae", "rollout"):
        for n, exp in enumerate(whence.explain(module, {"tokens": ids}, method, 1)):
            alone = whence.explain(module, {"tokens": ids[n : n + 1]}, method, 1)
            np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-5)
            if exp.conservation is not None:
                assert exp.conservation.sinks == pytest.approx(alone.conservation.sinks, abs=1e-4)


def test_an_adapter_of_your_own(tmp_path):
    """As docs/inputs.md has it."""
    page = (Path(__file__).parents[2] / "docs" / "inputs.md").read_text(encoding="utf-8")
    code = page.split("## What we never saw")[1].split("```python")[1].split("```")[0]

    class Reads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.table, self.head = torch.nn.Embedding(4, 8), torch.nn.Linear(8, 2)

        def forward(self, bases):
            return self.head(torch.relu(self.table(bases)).sum(1))

    module = Reads().eval()
    names = {"whence": whence, "module": module}
    exec(code, names)
    exp = names["exp"]
    with torch.no_grad():
        by_hand = module(torch.tensor([[0, 1, 2, 3, 3, 2, 1, 0]]))[0]
    assert exp.target == ["coding", "other"][int(by_hand.argmax())]
    assert exp.target_score == pytest.approx(float(by_hand.max()), abs=1e-5)
    assert exp.tokens == tuple("ACGTTGCA")
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)
    model = names["Bases"](module, labels=["coding", "other"])
    texts = ["ACGT", "GGGGAC", "T"]
    for text, found in zip(texts, whence.explain(model, texts), strict=True):
        np.testing.assert_allclose(found.scores, whence.explain(model, text).scores, atol=1e-5)
    exp.save(tmp_path / "bases.html")


class Matching(torch.nn.Module):
    """How every text fits every picture, as CLIP says it; what is masked is minus infinity."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.look = torch.nn.Embedding(9, 4), torch.nn.Linear(12, 4)

    def forward(self, input_ids, pixel_values):
        texts, pictures = self.table(input_ids).mean(1), self.look(pixel_values.flatten(1))
        return {"logits_per_image": pictures @ texts.T, "text_embeds": texts, "image_embeds": pictures}


def test_every_text_against_every_picture():
    module = Matching().eval()
    inputs = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "pixel_values": torch.randn(2, 3, 2, 2)}
    target = lambda outputs: outputs["logits_per_image"].diagonal()
    with torch.no_grad():
        wanted = target(module(**inputs))
    found = whence.explain(module, inputs, "exact", target)
    for n, exp in enumerate(found):
        alone = whence.explain(module, {k: v[n : n + 1] for k, v in inputs.items()}, "exact", target)
        np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-6)
        assert exp.target_score == pytest.approx(float(wanted[n]), abs=1e-5)
        assert (exp.part("input_ids").size, exp.part("pixel_values").size) == (3, 12)


def test_masked_outputs_are_equal_to_themselves():
    class Masked(Matching):
        def forward(self, input_ids, pixel_values):
            logits = super().forward(input_ids, pixel_values)["image_embeds"] + self.table(input_ids).sum(1)
            return torch.cat([logits, torch.full_like(logits, -torch.inf)], 1)

    inputs = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "pixel_values": torch.randn(2, 3, 2, 2)}
    for exp in whence.explain(Masked().eval(), inputs, "exact", lambda logits: logits[:, 1]):
        assert exp.conservation.error == pytest.approx(0, abs=1e-5)


def test_what_a_decoder_has_written_is_explained_next_to_a_sound():
    class Writes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.table, self.hear, self.head = (
                torch.nn.Embedding(9, 4),
                torch.nn.Linear(5, 4),
                torch.nn.Linear(4, 9),
            )

        def forward(self, input_features, decoder_input_ids):
            return self.head(torch.relu(self.hear(input_features).mean(1) + self.table(decoder_input_ids).sum(1)))

    inputs = {"input_features": torch.randn(2, 6, 5), "decoder_input_ids": torch.tensor([[1, 2], [3, 4]])}
    for exp in whence.explain(Writes().eval(), inputs, "exact", 3):
        assert {part.source for part in exp.parts} == {"input_features", "decoder_input_ids"}
        assert np.abs(exp.part("decoder_input_ids")).min() > 0
        assert exp.conservation.error == pytest.approx(0, abs=1e-5)


class Mixing(torch.nn.Module):
    """Scales what it makes of a row by the largest number of the batch (as Nyströmformer does)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 3)

    def forward(self, input_ids, attention_mask):
        x = (self.table(input_ids) * attention_mask[..., None]).sum(1)
        return self.head(x / x.detach().abs().max())


def test_a_module_that_mixes_its_batch_is_explained_row_by_row():
    module = Mixing().eval()
    inputs = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "attention_mask": torch.ones(2, 3)}
    assert not torch.allclose(module(**inputs)[:1], module(*(v[:1] for v in inputs.values())))
    for n, exp in enumerate(whence.explain(module, inputs, "exact", 1)):
        row = {k: v[n : n + 1] for k, v in inputs.items()}
        assert exp.target_score == pytest.approx(module(**row)[0, 1].item(), abs=1e-6)
        np.testing.assert_allclose(exp.scores, whence.explain(module, row, "exact", 1).scores, atol=1e-6)


def test_a_table_that_is_no_row_is_not_taken_for_mixing():
    class Tabled(Mixing):
        def forward(self, input_ids, attention_mask):
            return super().forward(input_ids, torch.ones(input_ids.shape)) @ attention_mask[:, :3] / len(input_ids) ** 2

    inputs = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 1]]), "attention_mask": torch.randn(3, 3)}
    with pytest.raises(InputError, match="one example at a time"):
        whence.explain(Tabled().eval(), inputs, "exact", 1)
