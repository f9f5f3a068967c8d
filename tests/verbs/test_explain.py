"""`whence.explain`: what may be passed, in which form it comes back, and what is said of the rest."""

from __future__ import annotations

import dataclasses
import inspect
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import whence
from tests import small
from whence.errors import EmptyInputError, InputError, OptionError, WhenceError
from whence.methods.method import class_of
from whence.results.maps import AttentionMaps
from whence.verbs.explain import SkippedWarning
from zoo.build import build

TEXTS = ["a good movie", "dull", "the plot is not very witty"]


@pytest.fixture(scope="module")
def model():
    return whence.load((small.classifier(), small.wordpiece()))


@pytest.fixture(scope="module")
def wanted(model):
    return [whence.explain(model, text).scores for text in TEXTS]


def same(found, wanted) -> None:
    assert len(found) == len(wanted)
    for exp, scores in zip(found, wanted, strict=True):
        np.testing.assert_allclose(exp.scores, scores, atol=1e-5)


# -- columns and frames ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(TEXTS),
        pd.Series(TEXTS, index=[7, 3, 5]),
        pd.Series(TEXTS, dtype="category"),
        pl.Series(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        pd.Index(TEXTS),
        iter(TEXTS),
    ],
    ids=lambda c: type(c).__module__.split(".")[0] + type(c).__name__,
)
def test_a_column_is_a_list(model, wanted, column):
    same(whence.explain(model, column), wanted)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_says_which_column(model, wanted, frame):
    data = frame({"id": [1, 2, 3], "review": TEXTS})
    same(whence.explain(model, data, text="review"), wanted)
    with pytest.raises(InputError, match=r"columns 'id', 'review'.*say which one.*text='id'"):
        whence.explain(model, data)
    with pytest.raises(InputError, match="no column 'reviews'"):
        whence.explain(model, data, text="reviews")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_two_columns_are_pairs(model, frame):
    data = frame({"a": ["a movie", "a film"], "b": ["is dull", "is good"]})
    found = whence.explain(model, data, text=["a", "b"])
    np.testing.assert_allclose(found[1].scores, whence.explain(model, ("a film", "is good")).scores, atol=1e-5)


def test_text_is_for_frames(model):
    with pytest.raises(InputError, match="names a column of a frame"):
        whence.explain(model, TEXTS, text="review")


def test_a_column_of_targets(model):
    found = whence.explain(model, TEXTS, target=pd.Series([0, 2, 1]))
    assert [exp.target for exp in found] == ["LABEL_0", "LABEL_2", "LABEL_1"]
    assert [exp.target for exp in whence.explain(model, TEXTS, target=np.array([1, 1, 0]))][2] == "LABEL_0"


# -- what can't be read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (None, "missing"),
        (7, "int '7'"),
        (2.5, "float"),
        (b"bytes", "bytes"),
        (float("nan"), "missing"),
        ({"review": "a film"}, "dict with 'review'"),
        ({"text": None}, "missing"),
        (
            {"text": "a film", "label": 1},
            "'label' is of no use to a text-classification model, which takes text, named",
        ),
        ({"role": "user", "content": "a film"}, "chat are for models that write"),
        (("a", "b", "c"), "tuple of 3"),
        (object(), "object"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_text_gets_a_sentence(model, wrong, says):
    with pytest.raises(InputError, match=says):
        whence.explain(model, wrong)
    with pytest.raises(InputError, match=f"input 1: .*{says}"):
        whence.explain(model, ["good", wrong])


def test_models_that_are_none():
    with pytest.raises(InputError, match=r"as a tuple: \(module, tokenizer\)"):
        whence.explain([small.classifier(), small.wordpiece()], "good")
    for wrong in (None, 3, {}):
        with pytest.raises(InputError, match="can't load a model from"):
            whence.explain(wrong, "good")


# -- one bad text in a list --------------------------------------------------------------------------------------------


def test_a_bad_text_is_named_by_its_index(model):
    with pytest.raises(EmptyInputError, match="input 1: the text is empty"):
        whence.explain(model, ["good", "  ", "bad"])


def test_the_others_are_explained_on_request(model, wanted):
    inputs = [TEXTS[0], "", TEXTS[1], None, "movie " * 60, TEXTS[2]]
    with pytest.warns(SkippedWarning, match=r"3 of 6 inputs skipped. input 1: .*empty.*input 3: .*input 4: .*tokens"):
        found = whence.explain(model, inputs, on_error="skip")
    assert [n for n, exp in enumerate(found) if exp is None] == [1, 3, 4]
    same([exp for exp in found if exp is not None], wanted)


def test_a_target_that_one_input_lacks_is_skipped_too():
    answers = whence.load((small.answerer(), small.wordpiece()))
    pairs = [("is it good", "it is a good film"), ("is it good", "it is dull")]
    with pytest.warns(SkippedWarning, match="input 1: the answer 'good'"):
        found = whence.explain(answers, pairs, target="good", on_error="skip")
    assert found[0].target == "good"
    assert found[1] is None


def test_a_single_input_is_never_skipped(model):
    with pytest.raises(EmptyInputError):
        whence.explain(model, "", on_error="skip")


def test_a_misspelled_choice(model):
    with pytest.raises(OptionError, match="Did you mean 'skip'"):
        whence.explain(model, "good", on_error="skipp")
    with pytest.raises(OptionError, match="batch_tokens=0"):
        whence.explain(model, "good", batch_tokens=0)
    with pytest.raises(OptionError, match=r"at='words' is no place\. Did you mean 'word'"):
        whence.explain(model, "good", at="words")
    with pytest.raises(OptionError, match="Did you mean 'short'"):
        whence.explain(model, "good", receipt="shrot")


# -- around it ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("around", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_what_the_caller_switched_does_not_matter(model, wanted, around):
    with around():
        same(whence.explain(model, TEXTS), wanted)
        assert torch.is_inference_mode_enabled() == (around is torch.inference_mode)


def test_an_explanation_inside_a_target(model):
    """The inner one is whole, and the outer one does not notice."""
    inner = []

    def target(outputs):
        inner.append(whence.explain(model, "dull").scores)
        return outputs.logits[:, 0]

    outer = whence.explain(model, "a good movie", target=target)
    np.testing.assert_allclose(inner[0], whence.explain(model, "dull").scores, atol=1e-6)
    np.testing.assert_allclose(outer.scores, whence.explain(model, "a good movie", target=0).scores, atol=1e-6)
    assert outer.conservation.error == pytest.approx(0, abs=1e-5)


def test_threads_do_not_meet(model, wanted):
    found: dict[int, np.ndarray] = {}

    def work(n: int) -> None:
        for _ in range(3):
            found[n] = whence.explain(model, TEXTS[n]).scores

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(3):
        np.testing.assert_allclose(found[n], wanted[n], atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("method", ["lrp", "gae", "smooth_grad", "transformer_attribution", "rollout", "shap"])
def test_the_default_dtype_of_torch_does_not_matter(model, method, dtype):
    before = whence.explain(model, TEXTS[0], method)
    torch.set_default_dtype(dtype)
    try:
        after = whence.explain(model, TEXTS[0], method)
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_allclose(after.scores, before.scores, atol=1e-5 * max(1.0, float(np.abs(before.scores).max())))


def test_what_a_tokenizer_can_not_read_is_one_inputs_error(model):
    texts = ["good", "bad \ud83d text"]
    with pytest.raises(InputError, match="input 1: can't be encoded"):
        whence.explain(model, texts)
    with pytest.warns(UserWarning, match="input 1"):
        found = whence.explain(model, texts, on_error="skip")
    assert found[0] is not None
    assert found[1] is None


def test_a_wrong_target_in_a_list_is_named_by_its_index(model):
    with pytest.raises(WhenceError, match="input 1: "):
        whence.explain(model, ["good", "bad"], target=["LABEL_0", [1]])


def test_maps_say_which_layers_they_lack(tmp_path):
    specimen = build("image-classification", "swin")
    maps = whence.attention(specimen.model, {"pixel_values": specimen.inputs["pixel_values"][:1]})
    assert maps.in_parts > 0
    assert f"{maps.in_parts} over windows or chunks are not among them" in repr(maps)
    maps.save(tmp_path / "maps.npz")
    assert AttentionMaps.load(tmp_path / "maps.npz").in_parts == maps.in_parts


def test_maps_of_a_column(model):
    frame = pd.DataFrame({"review": ["good", "so dull"], "stars": [5, 1]})
    maps = whence.attention(model, frame, text="review")
    assert [m.tokens for m in maps] == [whence.attention(model, text).tokens for text in frame["review"]]
    with pytest.raises(InputError, match="say which one"):
        whence.attention(model, frame)


def test_columns_that_have_numbers_for_names(model):
    frame = pd.DataFrame([["a", "b"], ["good", "bad"]])
    found = whence.explain(model, frame, text=1)
    assert [exp.text for exp in found] == ["b", "bad"]


def test_a_function_that_gives_no_score_per_example(model):
    for method in ("occlusion", "lrp"):
        with pytest.raises(InputError, match="one score per example"):
            whence.explain(model, "good", method, target=lambda outputs: outputs.logits)


def test_two_rules_for_one_layer(model):
    with pytest.raises(InputError, match="pass one"):
        whence.explain(model, "good", gamma=0.2, epsilon=0.1)
    plain = whence.explain(model, "good", whence.Recipe("mine", linear=whence.Gamma(0.5)), gamma=0.0)
    np.testing.assert_allclose(plain.scores, whence.explain(model, "good", whence.Recipe("mine")).scores, atol=1e-6)
    assert "Gamma" in whence.explain(model, "good", whence.Recipe("mine", linear=whence.Gamma(0.5))).options["linear"]


def test_the_callers_array_stays_his():
    scores = np.zeros(2, np.float32)
    whence.Explanation(scores=scores, tokens=("a", "b"))
    scores[0] = 1


def test_when_memory_ends_blocks_run_again(model, monkeypatch):
    """The estimate was too high: the next plan answers, and its results are the same."""
    from whence.core import memory
    from whence.methods.propagate import Propagate

    plans, run = [], Propagate.explain

    def tight(self, *args):
        plans.append(memory.current())
        if memory.current() != "recompute" or len(args[1]) > 1:
            raise torch.OutOfMemoryError("no more")
        return run(self, *args)

    wanted = [exp.scores for exp in whence.explain(model, ["good", "bad"])]
    monkeypatch.setattr(Propagate, "explain", tight)
    found = whence.explain(model, ["good", "bad"])
    assert plans == ["auto", "auto", "recompute", "auto", "recompute"]
    same(found, wanted)
    with pytest.raises(torch.OutOfMemoryError):
        whence.explain(model, ["good"], memory="keep")


def test_no_option_of_a_method_is_hidden_by_one_of_explain():
    own = set(inspect.signature(whence.explain).parameters)
    for name in whence.methods:
        assert not own & {field.name for field in dataclasses.fields(class_of(name))}, name
