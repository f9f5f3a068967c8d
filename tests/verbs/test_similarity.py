"""Pairs: the similarity of two inputs, cell by cell, and all that sinks keep."""

from __future__ import annotations

import copy
import json
import pickle
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from PIL import Image
from typer.testing import CliRunner

import whence
from tests import small
from tests.models.test_sentences import SentenceTransformer
from tests.reference import bilrp
from whence.core import transposed
from whence.errors import EmptyInputError, InputError, ModelError, OptionError
from whence.methods.explaining import as_method

pairing = import_module("whence.methods.pairing")  # `whence.methods` is also what `whence` calls its registry
A, B = "a good movie", "the film was not bad"
POOLS = {"mean": lambda t: t.mean(0), "cls": lambda t: t[0], "last": lambda t: t[-1]}


@pytest.fixture(scope="module")
def encoder():
    return small.encoder(), small.wordpiece()


@pytest.fixture(scope="module")
def clip():
    return small.clip()


@pytest.fixture(scope="module")
def picture():
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8))


def balances(pair):
    """The receipt is of books, not of differences: its error is rounding, and what it sums is the similarity."""
    receipt = pair.conservation
    assert receipt.complete
    assert abs(receipt.error) <= receipt.tolerance
    assert receipt.inputs == pytest.approx(pair.matrix.sum(dtype=np.float64), abs=1e-5)
    assert set(receipt.sinks) == {"inputs × sinks", "sinks × inputs", "sinks × sinks"}
    assert receipt.target == pair.score
    left, right = pair.with_sinks
    # float32 scores: sums of a few of size 1
    assert left.sum(dtype=np.float64) == pytest.approx(receipt.sinks["inputs × sinks"], abs=2e-5)
    assert right.sum(dtype=np.float64) == pytest.approx(receipt.sinks["sinks × inputs"], abs=2e-5)
    for side in (pair.left, pair.right):
        assert side.target_score == pytest.approx(pair.score, abs=1e-5)
        assert abs(side.conservation.error) <= side.conservation.tolerance


@pytest.mark.parametrize("pooling", POOLS)
@pytest.mark.parametrize("measure", ["cosine", "dot"])
def test_the_matrix_is_the_papers_formula(encoder, pooling, measure):
    module, tokenizer = encoder
    ids = [tokenizer(text, return_tensors="pt")["input_ids"] for text in (A, B)]
    wanted = bilrp.matrix(module, *ids, POOLS[pooling], measure == "cosine").numpy()
    pair = whence.similarity(encoder, A, B, measure=measure, pooling=pooling, method="gi")
    np.testing.assert_allclose(pair.matrix, wanted, atol=2e-5 * np.abs(wanted).max())  # float32
    one, two = (bilrp.embedding(module, i, POOLS[pooling]) for i in ids)
    by_hand = torch.nn.functional.cosine_similarity(one, two, 0) if measure == "cosine" else one @ two
    assert pair.score == pytest.approx(float(by_hand), rel=1e-5)
    assert not pair.conservation.complete
    full = whence.similarity(encoder, A, B, measure=measure, pooling=pooling, method="gi", receipt="full")
    balances(full)


@pytest.mark.parametrize("pooling", POOLS)
@pytest.mark.parametrize("measure", ["cosine", "dot", "maxsim"])
def test_everything_is_booked(encoder, measure, pooling):
    balances(whence.similarity(encoder, A, B, measure=measure, pooling=pooling))


def test_rows_and_columns_are_those_of_single_dimensions(encoder):
    model = whence.load(encoder, task="sentence-embedding")
    pair = whence.similarity(model, A, B, measure="dot")
    one, two = (
        np.stack([whence.explain(model, text, target=m).scores.astype(np.float64) for m in range(model.dimensions)])
        for text in (A, B)
    )
    np.testing.assert_allclose(pair.matrix, one.T @ two, atol=1e-5 * np.abs(pair.matrix).max())


@pytest.mark.parametrize("measure", ["cosine", "dot"])
def test_each_side_is_one_ordinary_explanation(encoder, measure):
    model = whence.load(encoder, task="sentence-embedding")
    pair = whence.similarity(model, A, B, measure=measure)
    for side, text, other in ((pair.left, A, B), (pair.right, B, A)):
        alone = whence.explain(model, text, target=whence.similar_to(other, measure))
        np.testing.assert_allclose(side.scores, alone.scores, atol=1e-5 * np.abs(alone.scores).max())
        assert side.target == alone.target == f"{measure} similarity to {other!r}"
        assert side.conservation.sinks.keys() == alone.conservation.sinks.keys()
        assert (side.method, side.tokens) == ("lrp", alone.tokens)


def test_swapping_transposes(encoder):
    one, two = whence.similarity(encoder, A, B), whence.similarity(encoder, B, A)
    np.testing.assert_allclose(one.matrix, two.matrix.T, atol=1e-6)
    turned = one.swapped
    np.testing.assert_allclose(turned.left.scores, two.left.scores, atol=1e-6)
    for kind, amount in two.conservation.sinks.items():
        assert turned.conservation.sinks[kind] == pytest.approx(amount, abs=1e-5)
    assert turned.swapped.tokens == one.tokens


def test_a_list_gives_what_single_ones_give(encoder):
    texts = [B, "dull", "the plot is very witty and it was good"]
    for pair, text in zip(whence.similarity(encoder, A, texts), texts, strict=True):
        alone = whence.similarity(encoder, A, text)
        np.testing.assert_allclose(pair.matrix, alone.matrix, atol=1e-6)
        np.testing.assert_allclose(pair.left.scores, alone.left.scores, atol=1e-6)
        assert (pair.index, alone.index) == (texts.index(text), None)


@pytest.mark.parametrize("several", [np.array, pd.Series, iter, tuple], ids=["array", "series", "generator", "tuple"])
def test_several_texts_in_any_form(encoder, several):
    texts = [B, "a film"]
    found = whence.similarity(encoder, A, several(texts))
    assert [pair.score for pair in found] == [pair.score for pair in whence.similarity(encoder, A, texts)]
    assert [hit.index for hit in whence.retrieve(encoder, B, several(texts))] == [0, 1]
    with pytest.raises(InputError, match="single input"):
        whence.similarity(encoder, several(texts), B)


def test_an_array_of_numbers_is_a_picture(clip, picture):
    assert isinstance(whence.similarity(clip, A, np.asarray(picture)), whence.Pair)


def test_padding_changes_nothing(encoder):
    tokenizer = encoder[1]
    short = tokenizer(A, return_tensors="pt")
    long = tokenizer([A], padding="max_length", max_length=12, return_tensors="pt")
    wanted = whence.similarity(encoder, A, B)
    for rows in (short, long):
        found = whence.similarity(encoder, {k: rows[k] for k in ("input_ids", "attention_mask")}, B)
        np.testing.assert_allclose(found.matrix, wanted.matrix, atol=1e-6)
        found = whence.similarity(encoder, {k: rows[k] for k in ("input_ids", "attention_mask")}, B, measure="maxsim")
        assert len(found.matches) == 5


def test_pooling_finds_its_token_wherever_padding_stands():
    from whence.models.embedding import pooled

    tokens = torch.arange(8.0).view(2, 4, 1)
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1]])
    assert pooled(tokens, mask, "mean").flatten().tolist() == [0.5, 6.5]
    assert pooled(tokens, mask, "cls").flatten().tolist() == [0, 6]
    assert pooled(tokens, mask, "last").flatten().tolist() == [1, 7]


def test_late_interaction_is_a_sum_of_best_partners(encoder):
    module, tokenizer = encoder
    with torch.no_grad():
        one, two = (
            torch.nn.functional.normalize(module(**tokenizer(t, return_tensors="pt")).last_hidden_state[0], dim=-1)
            for t in (A, B)
        )
    each = (one @ two.T).max(1)
    pair = whence.similarity(encoder, A, B, measure="maxsim")
    assert pair.score == pytest.approx(float(each.values.sum()), rel=1e-5)
    assert [j for _, j, _ in pair.matches] == each.indices.tolist()
    np.testing.assert_allclose([s for *_, s in pair.matches], each.values, rtol=1e-5)


def test_where_a_pass_can_not_be_transposed_dimensions_are_taken_one_by_one(encoder, monkeypatch):
    wanted = whence.similarity(encoder, A, B)
    calls = []

    def refuse(*_):
        calls.append(1)
        raise transposed.CannotTranspose

    monkeypatch.setattr(pairing, "by_part", refuse)
    found = whence.similarity(encoder, A, B)
    assert len(calls) == 2
    np.testing.assert_allclose(found.matrix, wanted.matrix, atol=1e-6)
    monkeypatch.setattr(pairing, "by_part", lambda *_: torch.ones(5, 24))  # and where it is wrong
    np.testing.assert_allclose(whence.similarity(encoder, A, A).matrix, whence.similarity(encoder, A, A).matrix.T)


@pytest.mark.parametrize("at", ["embedding", "position"])
def test_positions_may_be_read_too(encoder, at):
    pair = whence.similarity(encoder, A, B, at=at)
    assert abs(pair.conservation.error) <= pair.conservation.tolerance


def test_fused_attention_with_a_constant_map_can_be_transposed(encoder, monkeypatch):
    wanted = whence.similarity(encoder, A, B)
    monkeypatch.setattr("whence.core.rules.softmax.SMALL", 0)  # as if its map were too large to keep
    monkeypatch.setattr(pairing.Embedded, "_one_by_one", None)
    np.testing.assert_allclose(whence.similarity(encoder, A, B).matrix, wanted.matrix, atol=1e-5)


# -- kinds of models ---------------------------------------------------------------------------------------------------


def test_models_of_sentence_transformers():
    model = SentenceTransformer()
    pair = whence.similarity(model, A, B)
    assert pair.measure == "cosine"
    assert pair.score == pytest.approx(float(model.encode(A) @ model.encode(B)), abs=1e-5)
    balances(pair)
    model.similarity_fn_name = "dot"
    assert whence.similarity(model, A, B).measure == "dot"
    model.similarity_fn_name = "euclidean"
    with pytest.raises(InputError, match="measure='cosine'"):
        whence.similarity(model, A, B)
    with pytest.raises(InputError, match="leave pooling= out"):
        whence.similarity(model, A, B, measure="dot", pooling="cls")


def test_a_folder_says_how_it_pools(tmp_path, monkeypatch):
    small.encoder().save_pretrained(tmp_path)
    small.wordpiece().save_pretrained(tmp_path)
    plain = whence.similarity(str(tmp_path), A, B)
    np.testing.assert_allclose(plain.matrix, whence.similarity((small.encoder(), small.wordpiece()), A, B).matrix)
    monkeypatch.setattr("whence.models.embedders.find_spec", lambda _: None)  # without the library
    kinds = ["Transformer", "Pooling", "Normalize"]
    modules = [
        {"path": "" if k == "Transformer" else f"1_{k}", "type": f"sentence_transformers.models.{k}"} for k in kinds
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling/config.json").write_text(
        json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    cls = whence.similarity(tmp_path, A, B)
    np.testing.assert_allclose(cls.matrix, whence.similarity(tmp_path, A, B, pooling="cls").matrix)
    assert np.abs(cls.matrix - plain.matrix).max() > 1e-3
    with pytest.raises(InputError, match="at most 8"):
        whence.similarity(tmp_path, A, "good " * 20)
    modules.append({"path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match=r"Dense.*pip install sentence-transformers"):
        whence.similarity(tmp_path, A, B)


def test_a_picture_and_its_caption(clip, picture):
    module, processor = clip
    pair = whence.similarity(clip, picture, A)
    encoded = processor(text=[A], images=picture, return_tensors="pt")
    with torch.no_grad():
        out = module(**encoded)
    assert pair.score == pytest.approx(float(out.text_embeds[0] @ out.image_embeds[0]), abs=1e-5)
    assert pair.matrix.shape == (4, 5)
    assert pair.tokens[0][0] == "patch 0,0"
    assert pair.left.scores.shape == (2, 2)
    balances(pair)
    np.testing.assert_allclose(whence.similarity(clip, A, picture).matrix, pair.matrix.T, atol=1e-6)


def test_two_pictures_and_two_captions(clip, picture, tmp_path):
    other = picture.rotate(90)
    other.save(tmp_path / "other.png")
    pair = whence.similarity(clip, {"image": picture}, str(tmp_path / "other.png"))
    assert pair.matrix.shape == (4, 4)
    balances(pair)
    balances(whence.similarity(clip, A, {"text": B}))
    with pytest.raises(InputError, match="one for the whole input"):
        whence.similarity(clip, A, picture, measure="maxsim")
    hits = whence.retrieve(clip, A, [B, picture], top=2)
    assert {hit.index for hit in hits} == {0, 1}


def test_a_decoder_by_its_last_token():
    from tests.small import bytelevel, llama

    pair = whence.similarity((llama().model, bytelevel()), "good", "bad one", pooling="last")
    balances(pair)


def test_the_encoder_of_an_encoder_and_a_decoder():
    balances(whence.similarity((small.t5().get_encoder(), small.wordpiece()), A, B))


# -- finding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["cosine", "dot", "maxsim"])
def test_the_best_documents_come_first(encoder, measure):
    texts = ["dull", B, "a good movie", "the plot is very witty and it was good", "boring and bad"]
    every = whence.similarity(encoder, A, texts, measure=measure)
    hits = whence.retrieve(encoder, A, texts, top=3, measure=measure)
    best = sorted(every, key=lambda pair: -pair.score)[:3]
    assert [hit.index for hit in hits] == [pair.index for pair in best]
    assert [hit.rank for hit in hits] == [1, 2, 3]
    np.testing.assert_allclose([h.score for h in hits], [p.score for p in best], rtol=1e-5)


# -- reading and saving ------------------------------------------------------------------------------------------------


def test_words_special_tokens_and_the_strongest(encoder):
    pair = whence.similarity(encoder, "a goody movie", B)
    words = pair.by("word")
    assert words.tokens[0] == ("[CLS]", "a", "goody", "movie", "[SEP]")
    assert words.matrix.sum() == pytest.approx(pair.matrix.sum(), abs=1e-5)
    bare = pair.without_special()
    assert bare.tokens[1] == ("the", "film", "was", "not", "bad")
    assert bare.matrix.shape == (len(bare.left), 5)
    # sums of float32 cells of size 1
    assert bare.matrix.sum() + bare.left_out == pytest.approx(bare.conservation.inputs, abs=1e-5)
    assert abs(bare.left_out) > 1e-3
    assert bare.without_special().left_out == bare.left_out
    assert f"left out: {bare.left_out:+.4f}" in str(bare)
    assert whence.Pair.from_dict(bare.to_dict()).left_out == bare.left_out
    i, j = pair.strongest(1)[0]
    assert np.abs(pair.matrix).max() == abs(pair.matrix[i, j])


@pytest.mark.parametrize("kind", ["json", "npz"])
def test_saved_exactly(encoder, clip, picture, kind, tmp_path):
    for pair in (whence.similarity(encoder, A, B, measure="maxsim"), whence.similarity(clip, picture, A)):
        found = whence.Pair.load(pair.save(tmp_path / f"pair.{kind}"))
        np.testing.assert_array_equal(found.matrix, pair.matrix)
        assert found.conservation == pair.conservation
        assert (found.score, found.measure, found.matches) == (pair.score, pair.measure, pair.matches)
        assert found.tokens == pair.tokens
        assert kind == "json" or (found.left.image is None) == (pair.left.image is None)


def test_the_command(encoder, tmp_path):
    from whence.cli import app

    encoder[0].save_pretrained(tmp_path)
    encoder[1].save_pretrained(tmp_path)
    page = tmp_path / "pair.html"
    done = CliRunner().invoke(app, ["similarity", str(tmp_path), A, B, "--html", str(page), "--measure", "dot"])
    assert done.exit_code == 0, done.output
    assert "dot similarity" in done.output
    assert page.read_text().startswith("<!doctype html>")
    done = CliRunner().invoke(app, ["similarity", str(tmp_path), A, B, "--json", "--top", "2"])
    assert json.loads(done.stdout)["measure"] == "cosine"


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_refusals_say_what_to_type(encoder):
    with pytest.raises(InputError, match=r"gives no embedding.*task='sentence-embedding'.*whence\.explain\(model"):
        whence.similarity("sentiment", A, B)
    with pytest.raises(InputError, match=r"\(model\.base_model, tokenizer\)"):
        whence.similarity((small.classifier(), small.wordpiece()), A, B)
    with pytest.raises(EmptyInputError, match="the text is empty"):
        whence.similarity(encoder, A, "  ")
    with pytest.raises(EmptyInputError, match="input 1"):
        whence.similarity(encoder, A, [B, ""])
    with pytest.raises(EmptyInputError, match="nothing to compare"):
        whence.similarity(encoder, A, [])
    with pytest.raises(InputError, match="single input"):
        whence.similarity(encoder, [A, A], B)
    with pytest.raises(OptionError, match=r"target=whence\.similar_to"):
        whence.similarity(encoder, A, B, method="gae")
    with pytest.raises(OptionError, match="measure"):
        whence.similarity(encoder, A, B, measure="cosin")
    with pytest.raises(InputError, match="several texts"):
        whence.retrieve(encoder, A, B)
    with pytest.raises(EmptyInputError, match="no documents"):
        whence.retrieve(encoder, A, [])
    with pytest.raises(InputError, match=r"\(model\.get_encoder\(\), tokenizer\)"):
        whence.similarity((small.t5(), small.wordpiece()), A, B)
    with pytest.raises(ModelError, match="get_encoder"):
        whence.load((small.t5(), small.wordpiece()), task="sentence-embedding")
    with pytest.raises(InputError, match="measured by 'cosine' or 'dot'"):
        whence.explain(whence.load(encoder, task="sentence-embedding"), A, target=whence.similar_to(B, "maxsim"))
    with pytest.raises(InputError, match=r"similar_to takes one input, not a list of 2: whence\.similar_to\(text\)"):
        whence.explain(whence.load(encoder, task="sentence-embedding"), A, target=whence.similar_to([A, B]))


def test_one_side_with_any_method_and_several_texts(encoder):
    model = whence.load(encoder, task="sentence-embedding")
    target = whence.similar_to(B)
    together = whence.explain(model, [A, "a film", A], "gi", target=target)
    for found, text in zip(together, [A, "a film", A], strict=True):
        alone = whence.explain(model, text, "gi", target=target)
        np.testing.assert_allclose(found.scores, alone.scores, atol=1e-6)
    assert whence.explain(model, A, "occlusion", target=target).target_score == pytest.approx(alone.target_score)


def test_the_other_side_is_embedded_anew_when_the_model_has_changed(encoder):
    model = whence.load((copy.deepcopy(encoder[0]), encoder[1]), task="sentence-embedding")
    target = whence.similar_to(B)
    whence.explain(model, A, "gi", target=target)
    with torch.no_grad():
        for weight in model.module.parameters():
            weight.add_(torch.randn_like(weight) / 3)
    found, anew = (whence.explain(model, A, "gi", target=t).target_score for t in (target, whence.similar_to(B)))
    assert found == pytest.approx(anew)


@pytest.mark.parametrize("method", ["lrp", "attn_lrp"])
def test_gated_encoders_go_side_by_side(method):
    """A backward pass that is differentiated itself overwrites nothing."""
    module = small.randomised(transformers.LlamaModel(small.llama().config))
    adapter = whence.load((module, small.wordpiece()), task="sentence-embedding")
    (example,), _ = adapter.encode("a witty movie")
    with pairing.Embedded(adapter, as_method(method), example, "cosine") as one:
        assert transposed.by_part(one._walk, one._numbers(), example.count).shape[0] == example.count


def test_torch_keeps_its_switches_for_other_threads(encoder):
    module, seen = copy.deepcopy(encoder[0]), set()
    module.register_forward_hook(lambda *_: seen.add(torch.backends.cuda.flash_sdp_enabled()))
    before = torch.backends.cuda.flash_sdp_enabled()
    whence.similarity((module, encoder[1]), A, B, method="gi")
    assert seen == {before}


def test_the_target_goes_to_other_processes(encoder):
    model = whence.load(encoder, task="sentence-embedding")
    target = whence.similar_to(B, "dot")
    here = whence.explain(model, A, "gi", target=target)  # it now holds what it made of this model
    there = pickle.loads(pickle.dumps(target))
    assert there == target
    assert whence.explain(model, A, "gi", target=there).target_score == here.target_score
