"""Language models: what is read before what is written, and which tokens words are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

import whence
from tests import small
from whence.errors import InputError


@pytest.fixture
def lm():
    return whence.load((small.llama(), small.bytelevel()))


@pytest.fixture
def storyteller():
    """With a tokenizer that takes the space before a word for its first letter."""
    return whence.load((small.llama(), small.sentencepiece()))


def margin(ids: list[int], first: int) -> float:
    """Σ over the tokens from `first`: logit less the best other, by hand."""
    with torch.no_grad():
        logits = small.llama()(torch.tensor([ids])).logits[0]
    total = 0.0
    for row, token in zip(logits[first - 1 :], ids[first:], strict=False):
        others = torch.cat([row[:token], row[token + 1 :]])
        total += float(row[token] - others.max())
    return total


def test_masked_language_model():
    model = whence.load((small.masked(), small.wordpiece()))
    assert "rather than" in whence.explain(model, "a [MASK] movie").target
    with pytest.raises(InputError, match=r"\[MASK\]"):
        whence.explain(model, "a good movie")


def test_next_token_is_explained_against_the_runner_up(lm):
    exp = whence.explain(lm, "the plot")
    assert " rather than " in exp.target
    assert exp.target_score > 0
    alone = whence.explain(lm, "the plot", target=70)
    logits = small.llama()(**small.bytelevel()("the plot", return_tensors="pt")).logits[0, -1]
    assert alone.target_score == pytest.approx(logits[70].item(), abs=1e-5)


def test_a_span_of_the_continuation_is_the_sum_of_its_tokens(lm):
    whole = whence.explain(lm, "the plot", continuation="abc", target=whence.span())
    parts = [whence.explain(lm, "the plot", continuation="abc", target=whence.span(i, i + 1)) for i in range(3)]
    np.testing.assert_allclose(whole.scores, sum(p.scores for p in parts), atol=1e-5)
    assert whole.target == "abc"
    assert whole.sides[-1] == "continuation"


def test_generated_tokens_and_chat(lm):
    exp = whence.explain(lm, "the plot", generate=3, target=whence.span())
    assert exp.sides.count("continuation") == 2
    chat = whence.explain(lm, [{"role": "user", "content": "hi"}])
    assert "".join(chat.tokens) == "user:hi;"


def test_a_word_of_several_tokens_is_a_target(lm):
    word = whence.explain(lm, "the plot", target="movie")
    written = whence.explain(lm, "the plot", continuation="movie", target=whence.span(score="logit"))
    assert word.target == "movie"
    assert word.target_score == pytest.approx(written.target_score)
    np.testing.assert_array_equal(word.scores, written.scores)
    assert whence.explain(lm, "the plot", target=whence.contrast("m", "n")).target == "m rather than n"


def test_words_that_begin_alike_are_told_apart_where_they_differ(lm):
    exp = whence.explain(lm, "the plot", target=whence.contrast("mop", "mud"))
    assert exp.target == "o rather than u"
    ids = small.bytelevel()("the plotm", return_tensors="pt")
    o, u = small.bytelevel()("ou")["input_ids"]
    logits = small.llama()(**ids).logits[0, -1].detach()
    assert exp.target_score == pytest.approx(float(logits[o] - logits[u]), abs=1e-5)
    with pytest.raises(InputError, match="nothing decides"):
        whence.explain(lm, "the plot", target=whence.contrast("mop", "mops"))


def test_encoder_decoder():
    model = whence.load((small.t5(), small.bytelevel()))
    exp = whence.explain(model, "the plot", continuation="ab", target=whence.span())
    assert exp.sides[0] == "source"
    assert exp.sides[-1] == "decoder"
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)
    results = whence.explain(model, ["the plot", "a"], generate=3, target=whence.span())
    alone = whence.explain(model, "a", generate=3, target=whence.span())
    np.testing.assert_allclose(results[1].scores, alone.scores, atol=1e-5)


def test_every_mask_counts():
    model, tokenizer = small.masked(), small.wordpiece()
    with torch.no_grad():
        encoded = tokenizer("a [MASK] movie is [MASK]", return_tensors="pt")
        logits = model(**encoded).logits[0]
    rows = [i for i, token in enumerate(encoded["input_ids"][0].tolist()) if token == tokenizer.mask_token_id]
    best = [logits[row].topk(2).values for row in rows]
    exp = whence.explain((model, tokenizer), "a [MASK] movie is [MASK]")
    assert len(rows) == 2
    assert exp.target_score == pytest.approx(sum(float(b[0] - b[1]) for b in best), abs=1e-4)
    assert " … " in exp.target


# -- tokenizers that put a space before everything -----------------------------------------------------------------


def test_prompt_and_continuation_are_one_text(storyteller):
    tokenizer = small.sentencepiece()
    prompt, whole = tokenizer("the girl named")["input_ids"], tokenizer("the girl named Lily. the girl")["input_ids"]
    exp = whence.explain(storyteller, "the girl named", continuation=" Lily. the girl", target=whence.span())
    assert exp.target_score == pytest.approx(margin(whole, len(prompt)), abs=1e-4)
    assert exp.tokens == ("<s>", "the", " girl", " named", " Lily", ".", " the")
    assert exp.target == " Lily. the girl"
    assert exp.text == "the girl named Lily. the girl"


def test_a_continuation_without_a_space_goes_on_in_the_word(storyteller):
    tokenizer = small.sentencepiece()
    whole = tokenizer("the girling")["input_ids"]
    exp = whence.explain(storyteller, "the girl", continuation="ing", target=whence.span())
    assert exp.target == "ing"
    assert exp.target_score == pytest.approx(margin(whole, len(tokenizer("the girl")["input_ids"])), abs=1e-4)


def test_words_are_told_from_each_other(storyteller):
    exp = whence.explain(storyteller, "the girl named", target=whence.contrast(" Paris", " London"))
    paris, london = (small.sentencepiece().convert_tokens_to_ids(f"▁{city}") for city in ("Paris", "London"))
    ids = small.sentencepiece()("the girl named", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = small.llama()(ids).logits[0, -1]
    assert exp.target == " Paris rather than  London"
    assert exp.target_score == pytest.approx(float(logits[paris] - logits[london]), abs=1e-4)


def test_what_was_written_keeps_its_spaces(storyteller):
    assert (
        whence.explain(storyteller, "the girl", continuation=" loved a girl", target=whence.span()).target
        == " loved a girl"
    )


# -- encoded prompts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_continuation_of_encoded_prompts(lm, side):
    """Padding that comes with them stays where it is before the prompt, and is cut away behind it."""
    tokenizer = small.bytelevel()
    prompts = ["the plot", "a"]
    encoded = tokenizer(prompts, padding=True, padding_side=side, return_tensors="pt")
    found = whence.explain(lm, dict(encoded), continuation="bc", target=whence.span())
    for prompt, exp in zip(prompts, found, strict=True):
        alone = whence.explain(lm, prompt, continuation="bc", target=whence.span())
        assert exp.target == "bc"
        np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-4)


def test_generating_from_encoded_prompts(lm):
    encoded = small.bytelevel()("the plot", return_tensors="pt")
    assert (
        whence.explain(lm, dict(encoded), generate=3, target=whence.span()).target
        == whence.explain(lm, "the plot", generate=3, target=whence.span()).target
    )


def test_positions_that_were_passed_go_on():
    ids = small.bytelevel()("the plot", return_tensors="pt")["input_ids"]
    later = torch.arange(10, 10 + ids.shape[1])[None]
    exp = whence.explain(
        (small.gpt2(), small.bytelevel()),
        {"input_ids": ids, "position_ids": later},
        continuation="ab",
        target=whence.span(),
    )
    whole = torch.cat([ids, torch.tensor([small.bytelevel()("a")["input_ids"]])], 1)
    with torch.no_grad():
        logits = small.gpt2()(whole, position_ids=torch.arange(10, 10 + whole.shape[1])[None]).logits[0]
    total = 0.0
    for row, token in zip(logits[ids.shape[1] - 1 :], small.bytelevel()("ab")["input_ids"], strict=True):
        total += float(row[token] - torch.cat([row[:token], row[token + 1 :]]).max())
    assert exp.target_score == pytest.approx(total, abs=1e-4)


def test_decoder_ids_and_a_continuation_are_one_too_many():
    ids = small.bytelevel()("ab", return_tensors="pt")["input_ids"]
    with pytest.raises(InputError, match="not both"):
        whence.explain((small.t5(), small.bytelevel()), {"input_ids": ids, "decoder_input_ids": ids}, continuation="ab")


@pytest.mark.parametrize("side", ["left", "right"])
def test_generating_goes_on_where_the_prompt_ends(lm, side):
    """Not behind its padding."""
    tokenizer = small.bytelevel()
    ids = tokenizer("the plot")["input_ids"]
    rows = {"left": ([0] * 4 + ids, [0] * 4 + [1] * len(ids)), "right": (ids + [0] * 4, [1] * len(ids) + [0] * 4)}
    given = {"input_ids": torch.tensor([rows[side][0]]), "attention_mask": torch.tensor([rows[side][1]])}
    made, wanted = (
        whence.explain(lm, given, generate=3, target=whence.span()),
        whence.explain(lm, "the plot", generate=3, target=whence.span()),
    )
    assert made.target == wanted.target
    assert made.target_score == pytest.approx(wanted.target_score, abs=1e-4)


def test_a_prompt_and_a_word_that_grow_together(storyteller):
    """One text, one tokenization, wherever the user cut it."""
    one = whence.explain(storyteller, "the girl", continuation=" loved", target=whence.span())
    other = whence.explain(storyteller, "the girl ", continuation="loved", target=whence.span())
    assert other.target_score == pytest.approx(one.target_score, abs=1e-5)
    assert other.text == one.text == "the girl loved"
    assert other.tokens == one.tokens
    as_target = whence.explain(storyteller, "the girl ", target="loved")
    whole = whence.explain(storyteller, "the girl", target=" loved")
    assert as_target.target_score == pytest.approx(whole.target_score, abs=1e-5)


def test_a_text_goes_on_before_what_a_slow_tokenizer_puts_at_its_end():
    """It says of no token where it stands."""
    model = whence.load((small.llama(), transformers.ByT5Tokenizer()))
    trace = whence.explain(model, "It is", continuation=" 中.")
    assert trace.tokens[:6] == ("I", "t", " ", "i", "s", " ")
    assert trace.text == " 中."
    assert whence.explain(model, "It is", target=" a").tokens[:5] == ("I", "t", " ", "i", "s")


def test_words_of_a_continuation(storyteller):
    exp = whence.explain(storyteller, "the girl", continuation=" loved Paris London", target=whence.span())
    assert [word.text for word in exp.words()] == ["<s>", "the", "girl", "loved", "Paris"]
    assert sum(word.score for word in exp.words()) == pytest.approx(float(exp.scores.sum()), abs=1e-5)


def test_a_word_as_target_and_as_continuation_follow_the_same_prompt():
    """A tokenizer that ends every text with [SEP] ends no prompt."""
    model = whence.load((small.decoder(), small.wordpiece()), task="text-generation")
    target = whence.explain(model, "the plot is", target=" dull")
    written = whence.explain(model, "the plot is", continuation=" dull", target=whence.span(score="logit"))
    assert target.tokens[-1] == written.tokens[-1] == "is"
    assert target.target_score == pytest.approx(written.target_score, abs=1e-5)


def test_language_models_have_words_and_no_classes(lm):
    assert lm.labels == ()
    assert lm.class_of(200) == 200
    compared = whence.compare(lm, "the plot", ["gi"], target="all")
    logits = small.llama()(**small.bytelevel()("the plot", return_tensors="pt")).logits[0, -1].detach()
    np.testing.assert_allclose([e.target_score for e in compared], logits.topk(10).values, atol=1e-4)


def test_without_a_tokenizer():
    ids = {"input_ids": torch.tensor([[5, 6, 7]])}
    assert whence.explain(small.llama(), ids, generate=2, target=whence.span()).tokens[:3] == ("5", "6", "7")
    with pytest.raises(InputError, match="without a tokenizer"):
        whence.explain(small.t5(), ids, continuation="good")
    with pytest.raises(InputError, match="mask token is not known"):
        whence.explain(small.masked(), ids)
    exp = whence.explain(small.masked(), ids, target=lambda outputs: outputs.logits[:, 1, 9])
    assert exp.target_score == pytest.approx(small.masked()(**ids).logits[0, 1, 9].item(), abs=1e-5)
    for rows in ("word", "sentence"):
        with pytest.raises(whence.WhenceError, match="without a tokenizer"):
            whence.explain(small.llama(), {"input_ids": torch.tensor([[5, 6]])}, generate=2, rows=rows)


def test_labels_are_for_training():
    with pytest.raises(InputError, match="decoder_input_ids"):
        whence.explain(small.t5(), {"input_ids": torch.tensor([[5, 6]]), "labels": torch.tensor([[7, 8, 9]])})


def test_a_continuation_that_is_too_long_says_so(lm):
    limit = lm.limit
    with pytest.raises(InputError, match=f"takes at most {limit}"):
        whence.explain(lm, "the plot", continuation="a" * limit)
    with pytest.raises(InputError, match="one text"):
        whence.explain(lm, "the plot", continuation=["a", "b"])


def test_logits_are_computed_where_they_are_read(lm):
    """Of a long text they would be gigabytes; what the head sees is what the targets ask about."""
    seen = []
    head = lm.module.lm_head
    hook = head.register_forward_hook(lambda module, args, out: seen.append(out.shape[1]))
    try:
        texts = ["the plot", "the plot of this movie", "bad"]
        many = whence.explain(lm, texts, target=70)
        assert max(seen[-1:]) == 3  # of 22 places: three texts end at three of them
        seen.clear()
        whence.explain(lm, texts[1], continuation=" is dull", target=whence.span(0, 2))
        assert seen == [2]
        seen.clear()
        whence.explain(lm, texts[1], target=lambda outputs: outputs.logits[:, 0, 5])
        assert seen == [22]
    finally:
        hook.remove()
    for text, exp in zip(texts, many, strict=True):
        logits = small.llama()(**small.bytelevel()(text, return_tensors="pt")).logits[0, -1]
        assert exp.target_score == pytest.approx(logits[70].item(), abs=1e-4)
        np.testing.assert_allclose(exp.scores, whence.explain(lm, text, target=70).scores, atol=1e-5)


class Plain(torch.nn.Module):
    """A language model whose head reads every row, whatever is asked of it."""

    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner, self.config = inner, inner.config

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.inner.get_output_embeddings()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
        return self.inner(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)


class Tied(torch.nn.Module):
    """A language model whose head is a product with its embeddings, spelled out."""

    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner, self.config = inner.model, inner.config

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
        hidden = self.inner(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        logits = hidden @ self.inner.embed_tokens.weight.T + 0.1
        seen.append(logits.shape[1])
        return {"logits": logits}


seen: list[int] = []
"""How many rows heads have read."""


def narrow_case(kind: str) -> tuple[Any, list[str], dict[str, Any], torch.nn.Module | None]:
    """A model, inputs, what is asked of them, and the module that makes the logits."""
    if kind == "causal":
        model = whence.load((Plain(small.llama()).eval(), small.sentencepiece()), task="text-generation")
        return model, ["the film was a", "a good"], {}, small.llama().get_output_embeddings()
    if kind == "spelled out":
        model = whence.load((Tied(small.llama()).eval(), small.sentencepiece()), task="text-generation")
        return model, ["the film was a", "a good"], {}, None
    if kind == "masked":
        model = whence.load((small.masked(), small.wordpiece()))
        return model, ["the film was [MASK] and [MASK]", "a [MASK] film"], {}, small.masked().get_output_embeddings()
    module = small.t5()
    model = whence.load((module, small.wordpiece()))
    said = {"continuation": "the plot of this movie", "target": whence.span(1, 3)}
    return model, ["the film was not good", "a dull plot"], said, module.get_output_embeddings()


@pytest.mark.parametrize("method", ["lrp", "gi", "integrated_gradients", "attention_last"])
@pytest.mark.parametrize("kind", ["causal", "spelled out", "masked", "encoder-decoder"])
def test_the_head_reads_the_predicting_rows_alone(kind, method):
    """A model that can't be told so gets no others, with the same result, and nothing stays on it."""
    model, inputs, asked, head = narrow_case(kind)
    options = {"receipt": "full"} if method == "lrp" else {}
    handle = head and head.register_forward_hook(lambda _, args, out: seen.append(args[0].shape[1]))
    try:
        made = whence.explain(model, inputs, method, **asked, **options)
        rows = seen[-1]
        assert head is None or len(head._forward_pre_hooks) == 0
        model.known.facts["its head"] = False
        whole = whence.explain(model, inputs, method, **asked, **options)
    finally:
        if handle:
            handle.remove()
    assert rows < seen[-1]
    for a, b in zip(made, whole, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, atol=1e-5)
        assert a.target == b.target
        assert a.target_score == pytest.approx(b.target_score, abs=1e-5)
        assert method != "lrp" or a.conservation.error == pytest.approx(0, abs=1e-4)


def test_a_head_that_counts_its_rows_is_given_all_of_them():
    class Counting(Plain):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
            made = super().forward(input_ids, attention_mask)
            return {"logits": made.logits - made.logits.mean(1, keepdim=True)}

    module = Counting(small.llama()).eval()
    model = whence.load((module, small.sentencepiece()), task="text-generation")
    exp = whence.explain(model, "the film was a", target=70)
    ids = small.sentencepiece()("the film was a", return_tensors="pt")["input_ids"]
    assert exp.target_score == pytest.approx(float(module(ids)["logits"][0, -1, 70]), abs=1e-4)


def test_a_batch_that_was_made_before_another_thread_looked():
    """The head is known, though the model has been seen as another since."""
    module = Plain(small.llama()).eval()
    model = whence.load((module, small.sentencepiece()), task="text-generation")
    (example,), _ = model.encode("the film was a")
    batch = model.narrowed(model.collate([example]), [whence.span()])
    assert batch.kept == (example.count - 1,)
    module.longest = 7
    model.look()
    assert model.forward(batch.inputs).logits.shape[1] == 1


def test_what_is_written_goes_behind_another_prompt_that_ends_alike(lm):
    """Where prompt and text grew together, the prompt ends before its last token, and so must the other."""
    read = lambda text: lm.tokenizer(text, add_special_tokens=False)["input_ids"]
    (whole,), _ = lm.encode("the plot a:", continuation=" dull")
    (other,), _ = lm.encode("so a:")
    assert lm.behind(other, whole).inputs["input_ids"].tolist() == read("so a: dul")
    (cut,), _ = lm.encode("the plot a", continuation=": dull")
    made = lm.behind(other, cut)
    assert made.inputs["input_ids"].tolist() == read("so a: dul")
    assert made.written == cut.written
    assert made.rows[0] == len("so a") - 1


def test_the_beginning_of_a_text(lm):
    (whole,), _ = lm.encode("the plot", continuation=" is dull")
    (first,), _ = lm.encode("the plot", continuation=" is")
    made = lm.beginning(whole, 3)
    assert made.inputs["input_ids"].tolist() == first.inputs["input_ids"].tolist()
    assert (made.rows, made.written, made.tokens) == (first.rows, first.written, first.tokens)


def test_messages_in_parts_are_texts(lm):
    parts = [{"type": "text", "text": "hi"}, {"type": "text", "text": " you"}]
    exp = whence.explain(lm, [{"role": "user", "content": parts}])
    wanted = whence.explain(lm, [{"role": "user", "content": "hi you"}])
    assert exp.text == wanted.text
    np.testing.assert_array_equal(exp.scores, wanted.scores)
    with pytest.raises(InputError, match="reads text alone, and a message holds a part of type 'image'"):
        whence.explain(lm, [{"role": "user", "content": [{"type": "image", "image": "ball.png"}, *parts]}])
