"""Models of sentence-transformers: what is explained is the embedding that they encode to."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest
import torch
from torch import nn

import whence
from tests import small
from whence.errors import InputError, MissingExtraError, ModelError

TEXT, OTHER = "a good movie", "the film was not bad"


class Reads(nn.Module):
    """The first module: a transformer, as the library wraps it."""

    def __init__(self) -> None:
        super().__init__()
        self.auto_model = copy.deepcopy(small.classifier().bert)

    def forward(self, features):
        wanted = {k: v for k, v in features.items() if k in ("input_ids", "attention_mask")}
        return features | {"token_embeddings": self.auto_model(**wanted).last_hidden_state}


class Pools(nn.Module):
    def forward(self, features):
        mask = features["attention_mask"][..., None].float()
        total = (features["token_embeddings"] * mask).sum(1)
        return features | {"sentence_embedding": total / mask.sum(1).clamp(min=1e-9)}


class Projects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.activation = nn.Linear(24, 8), nn.Tanh()

    def forward(self, features):
        return features | {"sentence_embedding": self.activation(self.linear(features["sentence_embedding"]))}


class Normalises(nn.Module):
    def forward(self, features):
        return features | {"sentence_embedding": nn.functional.normalize(features["sentence_embedding"], dim=-1)}


class SentenceTransformer(nn.Sequential):
    """As much of the library's class as is looked at. Containers say that they are in training, as the library's do."""

    __module__ = "sentence_transformers.like"
    default_prompt_name: str | None = None
    max_seq_length = 12

    def __init__(self) -> None:
        super().__init__(Reads(), Pools(), Projects(), Normalises())
        self.tokenizer = small.wordpiece()
        self.prompts = {"query": "the film "}

    def get_embedding_dimension(self):
        return 8

    @torch.no_grad()
    def encode(self, text):
        before = self.prompts.get(self.default_prompt_name, "")
        return self(dict(self.tokenizer([before + text], return_tensors="pt")))["sentence_embedding"][0].numpy()


@pytest.fixture
def folder(tmp_path):
    """What the library saves."""
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers import models

    small.classifier().bert.save_pretrained(tmp_path / "base")
    tokenizer = copy.deepcopy(small.wordpiece())
    tokenizer._processor_class = None  # where another test has saved it as a part of one
    tokenizer.save_pretrained(tmp_path / "base")
    torch.manual_seed(0)
    parts = [models.Transformer(str(tmp_path / "base")), models.Pooling(24, "mean"), models.Dense(24, 8)]
    library.SentenceTransformer(modules=[*parts, models.Normalize()], device="cpu").save(str(tmp_path / "saved"))
    return tmp_path / "saved"


@pytest.fixture(params=["like", "library"])
def model(request):
    if request.param == "like":
        return SentenceTransformer()
    library = pytest.importorskip("sentence_transformers")
    return library.SentenceTransformer(str(request.getfixturevalue("folder")), device="cpu")


def test_the_target_is_the_similarity_by_hand_and_the_receipt_balances(model):
    other = torch.from_numpy(model.encode(OTHER))
    exp = whence.explain(model, TEXT, target=lambda outputs: outputs["sentence_embedding"] @ other)
    assert exp.target_score == pytest.approx(float(model.encode(TEXT) @ other.numpy()), abs=1e-5)
    assert exp.tokens == ("[CLS]", "a", "good", "movie", "[SEP]")
    assert abs(exp.conservation.error) <= exp.conservation.tolerance
    assert not exp.conservation.unruled
    assert np.abs(exp.scores).max() > 0


def test_every_dimension_is_what_encode_gives(model):
    wanted = model.encode(TEXT)
    loaded = whence.load(model)
    assert loaded.task == "sentence-embedding"
    found = [whence.explain(loaded, TEXT, target=n).target_score for n in range(8)]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert whence.explain(loaded, TEXT, target=3).target == "dimension 3"


@pytest.mark.parametrize("method", ["gi", "gae", "occlusion", "integrated_gradients"])
def test_other_methods_and_several_texts(model, method):
    texts = [TEXT, OTHER]
    wanted = [whence.explain(model, text, method, target=2) for text in texts]
    for one, alone in zip(whence.explain(model, texts, method, target=2), wanted, strict=True):
        np.testing.assert_allclose(one.scores, alone.scores, atol=1e-5)


def test_without_a_target_it_says_what_to_type(model):
    with pytest.raises(
        InputError, match=r"8 numbers.*target=3.*target=lambda outputs: outputs\['sentence_embedding'\]"
    ):
        whence.explain(model, TEXT)
    with pytest.raises(InputError, match="a pair has two embeddings"):
        whence.explain(model, (TEXT, OTHER), target=1)
    with pytest.raises(InputError, match="8 dimensions"):
        whence.explain(model, TEXT, target=8)
    with pytest.raises(InputError, match="'positive' is no target"):
        whence.explain(model, TEXT, target="positive")


def test_noise_is_refused(model):
    model.train()
    with pytest.raises(ModelError, match=r"model\.eval\(\)"):
        whence.load(model)


def test_what_the_model_puts_before_every_text():
    model = SentenceTransformer()
    model.default_prompt_name = "query"
    exp = whence.explain(model, TEXT, target=1)
    assert exp.target_score == pytest.approx(float(model.encode(TEXT)[1]), abs=1e-5)
    assert exp.tokens[1:3] == ("the", "film")
    model[1].include_prompt = False
    with pytest.raises(ModelError, match="default_prompt_name = None"):
        whence.load(model)


def test_its_own_limit():
    with pytest.raises(InputError, match="at most 12"):
        whence.explain(SentenceTransformer(), "good " * 20, target=1)
    assert len(whence.explain(SentenceTransformer(), "good " * 20, target=1, truncate=True).tokens) == 12


def test_a_folder(folder):
    import sentence_transformers

    model = whence.load(folder)
    wanted = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(TEXT)
    assert (model.task, model.name) == ("sentence-embedding", str(folder))
    found = [whence.explain(model, TEXT, target=n).target_score for n in range(8)]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_folder_needs_the_library(tmp_path, monkeypatch):
    small.classifier().bert.save_pretrained(tmp_path)
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]')
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install sentence-transformers$"):
        whence.load(tmp_path)


def test_a_run_over_texts(tmp_path):
    done = whence.run([TEXT, OTHER], model=SentenceTransformer(), out=tmp_path / "run", target=1, progress=False)
    assert (done.rows, done.failed) == (2, 0)


def test_its_attention_needs_no_target():
    assert whence.attention(SentenceTransformer(), TEXT).array.shape == (2, 4, 5, 5)
