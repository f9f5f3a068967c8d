"""SHAP values, against enumeration and against the library called as one would call it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

import whence
from tests import small
from tests.methods.games import Additive, Interacting
from tests.reference import perturbation as reference
from whence.errors import InputError, MissingExtraError, OptionError
from whence.methods import shap_values
from whence.models.scoring import Scorer

shap = pytest.importorskip("shap")

FLOATS = torch.tensor([[1.5, -2.0, 0.3, 0.7, 1.1]], dtype=torch.float64)
# Whole words, so that text with masks in it comes back from the tokenizer as the same ids.
TEXTS = ["a gorgeous movie", "not good, but not very bad and the plot was dull", "this is the film ."]


@pytest.fixture(scope="module")
def model():
    return whence.load((small.classifier(), small.wordpiece()))


def _as_in_the_lecture(model, label: int, masker=None, **options):
    """shap.Explainer(f, tokenizer) with an f that tokenizes strings and pads them to the maximum."""
    tokenizer = model.tokenizer

    def f(texts):
        most = tokenizer.model_max_length
        encoded = tokenizer(list(texts), truncation=True, max_length=most, padding="max_length", return_tensors="pt")
        with torch.no_grad():
            outputs = model.module(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"])[0]
        return outputs.numpy()[:, label]

    return shap.Explainer(f, masker or tokenizer)(TEXTS, silent=True, **options)


@pytest.mark.parametrize("fixed_context", [1, 0, None])
def test_the_values_of_the_library(model, fixed_context):
    expected = _as_in_the_lecture(model, 1, fixed_context=fixed_context)
    ours = whence.explain(model, TEXTS, "shap", target=1, fixed_context=fixed_context)
    for n, exp in enumerate(ours):
        np.testing.assert_allclose(exp.scores, expected.values[n], atol=1e-4)  # float32, other batches
        assert exp.conservation.sinks["base"] == pytest.approx(float(expected.base_values[n]), abs=1e-4)


def test_special_tokens_share_in_interactions_as_in_the_library(model):
    kept, out = (whence.explain(model, TEXTS[1], "shap", special=s) for s in ("kept", "out"))
    assert kept.scores[0] != 0
    assert out.scores[0] == out.scores[-1] == 0
    assert kept.conservation.sinks == out.conservation.sinks
    masked = whence.explain(model, TEXTS[1], "shap", special="masked")
    assert masked.conservation.sinks != kept.conservation.sinks


def test_collapsed_masks_are_those_of_the_library(model):
    masker = shap.maskers.Text(model.tokenizer, collapse_mask_token=True)
    expected = _as_in_the_lecture(model, 1, masker, fixed_context=1)
    for n, exp in enumerate(whence.explain(model, TEXTS, "shap", target=1, collapse=True)):
        np.testing.assert_allclose(exp.scores, expected.values[n], atol=1e-4)


def test_the_tree_is_that_of_the_library(model):
    masker = shap.maskers.Text(model.tokenizer)
    for text in (*TEXTS, "gorgeousx movie, isn't it?", "dully (in a film) !"):
        (example,), _ = model.encode(text)
        tree = shap_values._clauses(shap_values._pieces(example), model.tokenizer)
        np.testing.assert_array_equal(tree, masker.clustering(text))


@pytest.mark.parametrize("fixed_context", [1, 0, None])
def test_additive_games_have_shapleys_values(fixed_context):
    module = Additive().eval()
    tokens = torch.tensor([[4, 7, 7, 2, 11, 9]])
    by_hand = module.by_hand(tokens, 1)[0].numpy()
    value = lambda kept: float(sum(by_hand[i] for i in kept))
    exp = whence.explain(module, {"tokens": tokens}, "shap", target=1, fixed_context=fixed_context)
    np.testing.assert_allclose(exp.scores, by_hand, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(exp.scores, reference.shapley(value, 6), rtol=1e-5, atol=1e-7)
    assert exp.conservation.sinks["base"] == pytest.approx(float(module.head.bias[1].detach()))
    for method in ("integrated_gradients", "occlusion", "gi"):
        other = whence.explain(module, {"tokens": tokens}, method, target=1)
        np.testing.assert_allclose(exp.scores, other.scores, rtol=1e-5, atol=1e-6)


def _game(kept: frozenset[int]) -> float:
    return float(Interacting()(FLOATS * torch.tensor([[i in kept for i in range(5)]]))[0, 0].detach())


def test_owen_values():
    """The tree of five in a row is (((0, 1), 2), (3, 4)): no interaction leaves its branch, so Owen = Shapley."""
    exp = whence.explain(Interacting().eval(), FLOATS, "shap", target=0, fixed_context=None)
    owen = reference.owen(_game, (((0, 1), 2), (3, 4)))
    np.testing.assert_allclose(exp.scores, [owen[i] for i in range(5)], rtol=1e-6)
    np.testing.assert_allclose(exp.scores, reference.shapley(_game, 5), rtol=1e-6)


@pytest.mark.parametrize("fixed_context", [1, 0, None])
@pytest.mark.parametrize("max_evals", [2, 7, 500])
def test_additivity(model, fixed_context, max_evals):
    for exp in whence.explain(model, TEXTS, "shap", fixed_context=fixed_context, max_evals=max_evals):
        assert exp.conservation.error == pytest.approx(0, abs=1e-9)  # sums of float64 numbers
        assert exp.target_score == pytest.approx(exp.prediction.scores[0], abs=1e-5)


@pytest.mark.parametrize("fixed_context", [1, 0, None])
def test_everything_the_explainer_asks_for_is_foreseen(model, fixed_context, monkeypatch):
    """Masked inputs of all examples go through the model together: afterwards nothing is left to compute."""
    sizes: list[int] = []
    plain = Scorer.scores

    def counted(self, inputs, goals):
        sizes.append(len(inputs))
        return plain(self, inputs, goals)

    monkeypatch.setattr(Scorer, "scores", counted)
    whence.explain(model, TEXTS, "shap", fixed_context=fixed_context, max_evals=2000)
    assert len(sizes) == 1


def test_fewer_forwards_than_allowed(model):
    (example,), _ = model.encode(TEXTS[0])
    tree = shap_values._clauses(shap_values._pieces(example), model.tokenizer)
    found = list(shap_values._coalitions(tree, 1, 500))
    assert len(found) == 2 * len(example.tokens) - 2 + 2  # both halves of every split, the input and the empty one
    assert not list(shap_values._coalitions(tree, 1, len(found) - 1))


def test_groups_beyond_the_limit_share(model):
    exp = whence.explain(model, TEXTS[1], "shap", max_evals=2)
    assert np.ptp(exp.scores) == pytest.approx(0, abs=1e-7)


def test_no_padding_beyond_the_longest_input(model, monkeypatch):
    lengths: list[int] = []
    plain = type(model).forward
    monkeypatch.setattr(
        type(model), "forward", lambda self, batch: lengths.append(batch["input_ids"].shape[1]) or plain(self, batch)
    )
    whence.explain(model, TEXTS[0], "shap")
    assert set(lengths) == {5}


def test_images():
    image = torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(0))
    exp = whence.explain(small.vit(), image, "shap", target=0)
    assert exp.scores.shape == (4, 4)
    assert exp.conservation.error == pytest.approx(0, abs=1e-9)


def test_halves_of_a_grid():
    tree = shap_values._halves(2, 3)
    assert tree[-1, 3] == 6
    assert sorted(tree[:, :2].ravel()) == list(range(10))  # every node but the root has one parent
    assert (tree[:, 2] > 0).all()


@pytest.mark.parametrize("text", ["a", "ab"])
def test_one_and_two_features(text):
    causal = whence.load((small.llama(), small.bytelevel()))
    exp = whence.explain(causal, text, "shap")
    assert exp.conservation.error == pytest.approx(0, abs=1e-9)


def test_language_models_and_custom_targets(model):
    seq = whence.load((small.t5(), small.bytelevel()))
    assert whence.explain(
        seq, "abc", "shap", continuation="de", target=whence.span()
    ).conservation.error == pytest.approx(0, abs=1e-9)
    custom = whence.explain(model, TEXTS[0], "shap", target=lambda outputs: outputs.logits[:, 1])
    np.testing.assert_allclose(custom.scores, whence.explain(model, TEXTS[0], "shap", target=1).scores, atol=1e-5)


def test_numpys_generator_is_left_alone(model):
    np.random.seed(3)
    expected = np.random.rand()
    np.random.seed(3)
    whence.explain(model, TEXTS[0], "shap")
    assert np.random.rand() == expected


def test_without_the_library(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whence-xai\[shap\]'"):
        whence.explain(model, TEXTS[0], "shap")


def test_errors_say_what_to_type(model):
    with pytest.raises(OptionError, match="Did you mean 'kept'"):
        whence.explain(model, TEXTS[0], "shap", special="keep")
    with pytest.raises(OptionError, match="fixed_context=2 is not 0, 1 or None"):
        whence.explain(model, TEXTS[0], "shap", fixed_context=2)
    with pytest.raises(OptionError, match="max_evals=1 is not"):
        whence.explain(model, TEXTS[0], "shap", max_evals=1)
    with pytest.raises(InputError, match="collapse=True is for text"):
        whence.explain(small.vit(), torch.zeros(3, 16, 16), "shap", collapse=True)
    with pytest.raises(OptionError, match="unknown fill"):
        whence.explain(model, TEXTS[0], "shap", fill="nothing")
