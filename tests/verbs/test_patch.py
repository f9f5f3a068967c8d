"""Patching: the truth is what hooks by hand find; estimates are exact where the model is linear."""

from __future__ import annotations

import copy
import gc
import sys
import weakref

import numpy as np
import pytest
import torch
import transformers

import whence
from tests import small
from tests.reference.partway import partway
from whence.core.overwriting import Overwrite
from whence.core.recipe import recipes
from whence.errors import InputError, ModelError, OptionError, UnknownNameError
from whence.methods.patching import TwoRuns
from whence.models.loading import load
from whence.results.patched import pearson

CLEAN, CORRUPT = "a witty movie is good", "a dull film is bad"
MODELS = {"llama": small.llama, "gpt2": small.gpt2, "bert": small.classifier}
KINDS = ["heads", "mlps", "attentions", "layers"]
MODULES = {
    ("llama", "mlps"): "model.layers.{}.mlp.down_proj",
    ("llama", "attentions"): "model.layers.{}.self_attn.o_proj",
    ("llama", "layers"): "model.layers.{}",
    ("llama", "heads"): "model.layers.{}.self_attn.o_proj",
    ("gpt2", "mlps"): "transformer.h.{}.mlp.c_proj",
    ("gpt2", "attentions"): "transformer.h.{}.attn.c_proj",
    ("gpt2", "layers"): "transformer.h.{}",
    ("gpt2", "heads"): "transformer.h.{}.attn.c_proj",
    ("bert", "mlps"): "bert.encoder.layer.{}.output.dense",
    ("bert", "attentions"): "bert.encoder.layer.{}.attention.output.dense",
    ("bert", "layers"): "bert.encoder.layer.{}",
    ("bert", "heads"): "bert.encoder.layer.{}.attention.output.dense",
}


def made(name):
    return copy.deepcopy(MODELS[name]()).double().eval(), small.wordpiece()


def first(out):
    return out[0] if isinstance(out, tuple) else out


def by_hand(name, kind, clean, corrupt, score):
    """Each place overwritten by a hook, one run for each."""
    module, tokenizer = made(name)
    texts = {run: tokenizer(text, return_tensors="pt") for run, text in (("clean", clean), ("corrupt", corrupt))}
    ids = {run: {"input_ids": t["input_ids"]} for run, t in texts.items()}
    base = score(module(**ids["clean"]).logits)
    rows = []
    for layer in range(2):
        place = module.get_submodule(MODULES[name, kind].format(layer))
        held = {}

        def keep(_, args, out=None, held=held):
            held["other"] = args[0] if kind == "heads" else first(out)

        handle = place.register_forward_pre_hook(keep) if kind == "heads" else place.register_forward_hook(keep)
        module(**ids["corrupt"])
        handle.remove()
        other, row = held["other"].detach(), []
        count = 4 if kind == "heads" else other.shape[1]
        for part in range(count):

            def change(_, args, out=None, other=other, part=part):
                value = (args[0] if kind == "heads" else first(out)).clone()
                if kind == "heads":
                    own = slice(6 * part, 6 * part + 6)
                    value[..., own] = other[..., own]
                    return (value, *args[1:])
                value[:, part] = other[:, part]
                return (value, *out[1:]) if isinstance(out, tuple) else value

            handle = place.register_forward_pre_hook(change) if kind == "heads" else place.register_forward_hook(change)
            row.append((score(module(**ids["clean"]).logits) - base).item())
            handle.remove()
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_true_patching_is_what_hooks_find(name, kind):
    target = 1 if name == "bert" else whence.contrast(7, 9)
    found = whence.patch(made(name), CLEAN, CORRUPT, target=target, at=kind, method="activation")
    score = (lambda logits: logits[0, 1]) if name == "bert" else (lambda logits: logits[0, -1, 7] - logits[0, -1, 9])
    # effects are differences of float64 scores that went through float32 targets
    np.testing.assert_allclose(found.effects, by_hand(name, kind, CLEAN, CORRUPT, score), atol=1e-6)


class Block(torch.nn.Module):
    """What a token gets from all before it, added to the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(6, 6)

    def forward(self, x):
        return x + self.inner(x.cumsum(1))


class Straight(torch.nn.Module):
    """Blocks without any nonlinearity: estimates from gradients are exact."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(20, 6)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))
        self.head = torch.nn.Linear(6, 2)

    def forward(self, input_ids):
        x = self.words(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, -1])


@pytest.fixture
def straight():
    torch.manual_seed(0)
    return Straight().double().eval()


@pytest.mark.parametrize("into", ["clean", "corrupt"])
@pytest.mark.parametrize("method", ["partway", "relp", "attribution", "integrated_gradients", "attn_lrp"])
def test_estimates_are_the_truth_in_a_linear_model(straight, method, into):
    clean, corrupt = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 5, 3, 6]])
    found = whence.patch(straight, clean, corrupt, target=0, at="layers", method=method, truth=True, into=into)
    np.testing.assert_allclose(found.effects, found.truth, atol=1e-6)
    assert found.correlation == pytest.approx(1)
    # all that is linear: the parts of a layer make up the whole difference, for the clean run in either direction
    np.testing.assert_allclose(found.importance.sum(1), found.clean_score - found.corrupt_score, atol=1e-6)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_everything_overwritten_is_the_other_run(name):
    model = load(made(name))
    clean, corrupt = (model.encode(text)[0][0] for text in (CLEAN, CORRUPT))
    runs = TwoRuns(model, clean, corrupt, whence.contrast(7, 9), kinds=["layers", "heads"])
    places = len(runs.here.of("layers"))
    where = torch.zeros(3, places, clean.count, dtype=torch.bool)
    where[1] = True
    where[2, -1] = True
    nothing, everything, last = runs.scored({"layers": where})
    assert nothing == pytest.approx(runs.seen["clean"].target, abs=1e-6)
    assert everything == pytest.approx(runs.seen["corrupt"].target, abs=1e-6)
    assert last == pytest.approx(runs.seen["corrupt"].target, abs=1e-6)


def test_the_estimate_is_difference_times_gradient():
    model = made("llama")
    found = whence.patch(model, CLEAN, CORRUPT, target=7, at="mlps", method="attribution")
    adapter = load(model)
    runs = TwoRuns(
        adapter, *(adapter.encode(t)[0][0] for t in (CLEAN, CORRUPT)), 7, kinds=["mlps"], recipe=recipes["gi"]
    )
    for row, own, other in zip(found.effects, runs.here.of("mlps"), runs.other.of("mlps"), strict=True):
        np.testing.assert_allclose(row, ((other.value - own.value) * own.gradient).sum(-1).reshape(-1), atol=1e-9)


def test_a_batch_of_patches_is_what_each_is_alone(monkeypatch):
    together = whence.patch(made("llama"), CLEAN, CORRUPT, target=7, at="heads", method="activation")
    monkeypatch.setattr(sys.modules[TwoRuns.__module__], "budget_of", lambda *_: 1)
    alone = whence.patch(made("llama"), CLEAN, CORRUPT, target=7, at="heads", method="activation")
    np.testing.assert_allclose(together.effects, alone.effects, atol=1e-9)


def test_masks_are_made_for_one_batch_at_a_time(monkeypatch):
    """All at once they are cells × places × parts: gigabytes, for a model of any size."""
    patching, sizes = sys.modules[TwoRuns.__module__], []

    def watched(values, where):
        sizes.append((where.untyped_storage().nbytes(), where.numel()))
        return Overwrite(values, where)

    monkeypatch.setattr(patching, "Overwrite", watched)
    monkeypatch.setattr(patching, "budget_of", lambda *_: 15)  # two at a time
    whence.patch(made("llama"), CLEAN, CORRUPT, target=7, at="heads", method="activation")
    assert len(sizes) == 4
    assert all(held == shown for held, shown in sizes)


@pytest.mark.parametrize("method", ["integrated_gradients", "partway"])
def test_one_pass_of_a_path_is_held_at_a_time(monkeypatch, method):
    passes, alive, crossed = [], [], TwoRuns._crossed

    def watched(runs, *args):
        gc.collect()
        alive.append(sum(seen() is not None for seen in passes))
        seen = crossed(runs, *args)
        passes.append(weakref.ref(seen))
        return seen

    monkeypatch.setattr(TwoRuns, "_crossed", watched)
    monkeypatch.setattr(TwoRuns, "estimated", lambda *_: pytest.fail("the estimate of one pass is not asked for"))
    whence.patch(made("llama"), CLEAN, CORRUPT, method=method, steps=4)
    assert max(alive) <= 2  # both runs


def test_lrp_is_the_default_recipe_as_everywhere():
    found, exact = (whence.patch(made("llama"), CLEAN, CORRUPT, method=method) for method in ("lrp", "exact"))
    np.testing.assert_array_equal(found.effects, exact.effects)
    assert (found.method, found.options) == ("lrp", {"recipe": "exact"})


def test_a_function_that_was_written_for_one_input_is_a_target_too():
    one = lambda outputs: outputs.logits[0, -1, 7]
    many = lambda outputs: outputs.logits[:, -1, 7]
    a, b = (whence.patch(made("gpt2"), CLEAN, CORRUPT, target=t, method="activation") for t in (one, many))
    np.testing.assert_allclose(a.effects, b.effects, atol=1e-9)


def test_several_kinds_in_one_go_and_a_target_that_the_clean_input_decides():
    found = whence.patch(made("llama"), CLEAN, CORRUPT, at=["mlps", "heads"])
    assert [one.kind for one in found] == ["mlps", "heads"]
    assert found[0].effects.shape == (2, len(found[0].tokens))
    assert found[1].effects.shape == (2, 4)
    alone = whence.patch(made("llama"), CLEAN, CORRUPT, at="heads")
    np.testing.assert_allclose(alone.effects, found[1].effects)
    swapped = whence.patch(made("llama"), CLEAN, CORRUPT, at="heads", into="corrupt")
    assert (swapped.target, swapped.clean_score) == (alone.target, pytest.approx(alone.clean_score))


def test_encoder_and_decoder_have_rows_of_their_own():
    found = whence.patch(
        (copy.deepcopy(small.t5()).double().eval(), small.wordpiece()), CLEAN, CORRUPT, at="heads", truth=True
    )
    assert len(found.effects) == 6  # two attentions in the encoder, and two in each of two blocks of the decoder
    assert "(1 of 2)" in found.row(2)
    assert np.isfinite(found.correlation)


def test_saved_and_read_again(tmp_path):
    found = whence.patch(made("llama"), CLEAN, CORRUPT, at="mlps", truth=True)
    again = whence.Patching.load(found.save(tmp_path / "found.json"))
    np.testing.assert_array_equal(again.effects, found.effects)
    np.testing.assert_array_equal(again.truth, found.truth)
    assert again.to_dict() == found.to_dict()
    assert repr(again) == repr(found)
    assert f"{found.correlation:.3f}" in str(found)


def test_top_is_the_largest_by_size_and_names_its_place():
    effects = np.array([[0.5, -2.0], [np.nan, 1.0]])
    mlps = whence.Patching(effects, kind="mlps", method="relp", target="x", tokens=("a", " b"))
    assert mlps.top(2) == [("layer 0 mlp at 'b' (1)", -2.0), ("layer 1 mlp at 'b' (1)", 1.0)]
    assert len(mlps.top(9)) == 3
    assert mlps.correlation is None


def test_correlation_by_hand():
    assert pearson(np.array([1.0, 2.0, 4.0]), np.array([2.0, 1.0, 3.0])) == pytest.approx((3 / 7) ** 0.5)
    assert np.isnan(pearson(np.array([1.0, 1.0]), np.array([0.0, 2.0])))


def test_the_model_is_left_as_it_was():
    module, tokenizer = made("llama")
    hooks = lambda: [(*m._forward_hooks, *m._forward_pre_hooks) for m in module.modules()]
    before = hooks()
    with pytest.raises(ZeroDivisionError):
        whence.patch((module, tokenizer), CLEAN, CORRUPT, target=lambda outputs: 1 / 0)
    whence.patch((module, tokenizer), CLEAN, CORRUPT, truth=True)
    assert hooks() == before


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"corrupt": "a dull movie"}, InputError, "has 7 tokens and the corrupt one 5"),
        ({"corrupt": CLEAN}, InputError, "are the same"),
        ({"truth": 0}, OptionError, "truth=0"),
        ({"at": "head"}, OptionError, "Did you mean 'heads'"),
        ({"at": []}, InputError, "names no places"),
        ({"at": None}, OptionError, "at=None is not 'heads'"),
        ({"method": "relpp"}, UnknownNameError, "Did you mean 'relp'"),
        ({"into": "both"}, OptionError, "into='both'"),
        ({"clean": ["a", "b"]}, InputError, "list of 2"),
        ({"steps": 0}, OptionError, "steps=0"),
    ],
)
def test_errors_say_what_to_type(options, error, words):
    given = {"clean": CLEAN, "corrupt": CORRUPT, **options}
    with pytest.raises(error, match=words):
        whence.patch(made("llama"), given.pop("clean"), given.pop("corrupt"), **given)


def test_heads_in_windows_are_not_taken_for_heads():
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=3
    )
    net = transformers.SwinForImageClassification(config).eval()
    clean, corrupt = ({"pixel_values": torch.rand(1, 3, 32, 32)} for _ in range(2))
    with pytest.raises(ModelError, match="windows"):
        whence.patch(net, clean, corrupt, target=0, at="heads", method="attribution")


@pytest.mark.parametrize("into", ["clean", "corrupt"])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_partway_is_the_path_as_far_as_each_place_goes(name, into):
    module, tokenizer = made(name)
    ids = tuple(tokenizer(text, return_tensors="pt")["input_ids"] for text in (CLEAN, CORRUPT))
    names = {kind: MODULES[name, kind] for kind in KINDS}
    wanted = partway(
        module,
        names,
        ids if into == "clean" else ids[::-1],
        lambda logits: logits[0, -1, 7],
        steps=3,
        heads=4,
        layers=2,
    )
    found = whence.patch((module, tokenizer), CLEAN, CORRUPT, target=7, at=KINDS, method="partway", steps=3, into=into)
    for one in found:
        assert np.abs(wanted[one.kind]).max() > 1e-3
        # the reference takes means over 4,000 points of what is straight between few
        np.testing.assert_allclose(one.effects, wanted[one.kind], rtol=1e-6, atol=1e-9)
    assert found[0].method == "partway"
    assert found[0].options == {"steps": 3}


def test_what_was_run_stands_in_place_of_its_estimate():
    found = whence.patch(made("llama"), CLEAN, CORRUPT, target=7, at="mlps", truth=3)
    run = ~np.isnan(found.truth)
    assert run.sum() == 3
    np.testing.assert_array_equal(found.checked[run], found.truth[run])
    np.testing.assert_array_equal(found.checked[~run], found.effects[~run])
    assert whence.patch(made("llama"), CLEAN, CORRUPT, target=7).checked.shape == (2, 4)
