"""What a language model wrote, token by token; and through its own text back to the prompt."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
import torch

import whence
from tests import small
from tests.reference.hops import passed_on
from whence.methods import tracing
from whence.models import generating
from whence.verbs.explain import SkippedWarning

PROMPT = "the plot"


@pytest.fixture
def lm():
    return whence.load((small.llama(), small.bytelevel()))


def written(model, method="lrp", **options):
    return whence.explain(model, PROMPT, method, **{"generate": 6, **options})


@pytest.mark.parametrize("prompt", [PROMPT, "the plot of the movie is very long and very dull and so on"])
@pytest.mark.parametrize("method", ["lrp", "attn_lrp", "gi", "ah_ln", "gim"])
def test_a_row_is_the_explanation_of_its_token_and_a_span_the_sum_of_its_rows(lm, method, prompt):
    trace = whence.explain(lm, prompt, method, generate=5)
    assert trace.scores.shape == (5, len(trace.tokens)) == (len(trace.written), len(prompt) + 4)
    for n in range(5):
        alone = whence.explain(lm, prompt, method, whence.span(n, n + 1), generate=5)
        np.testing.assert_allclose(trace[n].scores, alone.scores, atol=1e-5)
        assert trace[n].target == alone.target
        assert trace[n].target_score == pytest.approx(alone.target_score, abs=1e-5)
        assert trace[n].conservation.inputs == pytest.approx(alone.conservation.inputs, abs=1e-5)
    span = whence.explain(lm, prompt, method, whence.span(1, 4), generate=5)
    np.testing.assert_allclose(trace.span(1, 4).scores, span.scores, atol=1e-5)
    assert trace.span(1, 4).target == "".join(trace.written[1:4])
    np.testing.assert_allclose(trace.whole.scores, trace.scores.sum(0), atol=1e-5)


@pytest.fixture
def passes(monkeypatch):
    """How many tokens each forward pass of a trace reads."""
    seen = []

    class Watched(tracing.ManyTargets):
        def __init__(self, method, model, example, targets, within=None):
            seen.append(example.count)
            super().__init__(method, model, example, targets, within)

    monkeypatch.setattr(tracing, "ManyTargets", Watched)
    return seen


@pytest.mark.parametrize("rows", ["token", "word"])
def test_early_rows_need_no_pass_over_all_that_was_written(lm, monkeypatch, passes, rows):
    said = " of a movie is dull and long and so on"
    whole = whence.explain(lm, PROMPT, continuation=said, rows=rows)
    assert passes == [len(PROMPT) + len(said) - 1]
    passes.clear()
    monkeypatch.setattr(tracing, "FEWEST", 3)
    trace = whence.explain(lm, PROMPT, continuation=said, rows=rows)
    assert len(passes) > 1
    assert passes == sorted(passes)
    np.testing.assert_allclose(trace.scores, whole.scores, atol=1e-5)
    assert trace.written == whole.written
    assert trace.targets == whole.targets
    assert trace.tokens == whole.tokens
    assert [r.inputs for r in trace.receipts] == pytest.approx([r.inputs for r in whole.receipts], abs=1e-5)
    assert trace[0].prediction.labels == whole[0].prediction.labels


def test_a_model_that_reads_by_length_is_given_the_whole(monkeypatch, passes):
    module = small.llama()
    plain = module.forward

    @functools.wraps(plain)
    def forward(input_ids=None, **options):
        out = plain(input_ids=input_ids, **options)
        return out.__class__(logits=out.logits * input_ids.shape[1])

    monkeypatch.setattr(module, "forward", forward)
    monkeypatch.setattr(tracing, "FEWEST", 3)
    trace = written(whence.load((module, small.bytelevel())), generate=12)
    assert passes == [len(trace.tokens)]


def test_nothing_comes_from_what_is_written_later(lm):
    trace = written(lm)
    later = np.triu(np.ones((6, len(trace.tokens))), len(PROMPT))
    assert not trace.scores[later.astype(bool)].any()
    assert np.abs(trace.scores[later == 0]).min() > 0


@pytest.mark.parametrize("build", [small.llama, small.gpt2], ids=["without biases", "with biases"])
def test_every_row_has_a_receipt(build):
    trace = written(whence.load((build(), small.bytelevel())), receipt="full")
    for n in range(6):
        assert trace[n].conservation.complete
        assert trace[n].conservation.error == pytest.approx(0, abs=1e-5)
    assert trace.span().conservation.target == pytest.approx(sum(trace.target_scores), abs=1e-5)


@pytest.mark.parametrize("method", ["gae", "occlusion", "saliency", "random"])
def test_methods_that_do_not_propagate(lm, method):
    trace = written(lm, method)
    alone = whence.explain(lm, PROMPT, method, whence.span(2, 3), generate=6)
    np.testing.assert_allclose(trace[2].scores, alone.scores, atol=1e-5)


def test_a_given_text_is_traced_as_a_written_one(lm):
    found = whence.explain(lm, "the ", continuation="plot")
    again = whence.explain(lm, "the ", continuation="plot", target=whence.span("lo"))
    np.testing.assert_allclose(found.span("lo").scores, again.scores, atol=1e-6)
    assert found.written == ("p", "l", "o", "t")
    assert found.text == "plot"
    with pytest.raises(whence.WhenceError, match="'dull' was not written"):
        whence.explain(lm, "the ", continuation="plot", target=whence.span("dull"))


def test_encoder_decoders_have_traces_too():
    model = whence.load((small.t5(), small.wordpiece()))
    trace = whence.explain(model, "a good film", continuation="not bad")
    whole = whence.explain(model, "a good film", continuation="not bad", target=whence.span())
    np.testing.assert_allclose(trace.whole.scores, whole.scores, atol=1e-5)
    decoder = trace.whole.parts[1].count
    assert trace.places[0] == (len(trace.tokens) - decoder + 1, len(trace.tokens) - decoder + 2)
    assert trace.places[-1][0] == trace.places[-1][1] == len(trace.tokens)


def test_rows_of_words_and_sentences_are_sums(lm):
    text = " bad plot. Not good!"
    tokens = whence.explain(lm, "the ", continuation=text)
    for unit, wanted in (
        ("word", (" bad", " plot.", " Not", " good!")),
        ("sentence", (" bad plot. ", "Not good!")),
    ):
        rows = whence.explain(lm, "the ", continuation=text, rows=unit)
        assert rows.written == wanted
        merged = tokens.by("token", rows=unit)
        assert merged.written == wanted
        assert merged.places == rows.places
        np.testing.assert_allclose(merged.scores, rows.scores, atol=1e-5)
        assert merged.target_scores == pytest.approx(rows.target_scores, abs=1e-5)
    both = tokens.by("sentence", rows="sentence")
    np.testing.assert_allclose(both.scores.sum(), tokens.scores.sum(), atol=1e-4)
    assert whence.explain(lm, "the ", continuation=text, by="word").tokens == tokens.by("word").tokens


# -- hops --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hops", [1, 2, 6])
def test_hops_agree_with_the_definition(lm, hops):
    trace = written(lm, receipt="full")
    wanted, sunk = passed_on(
        trace.scores.astype(np.float64), np.array(trace.target_scores), range(4, 6), len(PROMPT), hops
    )
    for found in (
        trace.span(4, 6, hops=hops),
        written(lm, receipt="full", target=whence.span(4, 6), hops=hops),
        written(lm, receipt="full", target=whence.span(4, 6), hops=hops, memory="recompute"),
    ):
        np.testing.assert_allclose(found.scores, wanted, atol=1e-4)
        receipt = found.conservation
        assert receipt.total - receipt.inputs == pytest.approx(sunk, abs=1e-4)
        assert receipt.inputs == pytest.approx(wanted.sum(), abs=1e-4)
        assert receipt.error == pytest.approx(0, abs=1e-4)
        assert found.target_score == pytest.approx(trace.span(4, 6).target_score)


def test_all_hops_leave_little_that_could_be_passed_on():
    """With leads of one for each token everything can be passed on."""
    whole = whence.Explanation(np.array([0.5, 0.5, 1.0, 1.0]), tokens=tuple("abcd"))
    rows = np.array([[0.6, 0.4, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.0, 0.1, 0.4, 0.5]])
    trace = whence.Trace(
        rows, whole, written=("c", "d", "e"), places=((2, 3), (3, 4), (4, 4)), target_scores=(1.0, 1.0, 1.0)
    )
    found = trace.span(2, hops="all")
    np.testing.assert_allclose(found.scores, [0.64, 0.36, 0, 0], atol=0.01)
    assert found.options["hops"] == 2
    np.testing.assert_allclose(trace.span(2, hops=0).scores, rows[2], atol=1e-6)


def test_hops_that_can_not_be_made(lm):
    with pytest.raises(whence.WhenceError, match="follow what the model wrote"):
        whence.explain(lm, PROMPT, hops="all")
    with pytest.raises(whence.WhenceError, match="hops='some'"):
        written(lm, hops="some")
    with pytest.raises(whence.WhenceError, match="propagates none"):
        written(lm, "gae", hops=1)
    with pytest.raises(whence.WhenceError, match=r"whence\.span"):
        written(lm, target="a", hops=1)


# -- writing -----------------------------------------------------------------------------------------------------------


def test_it_is_told_of_every_token_as_it_is_written(lm):
    told = []
    streamed = written(lm, on_token=lambda piece, row: told.append((piece, row)))
    wanted = written(lm)
    np.testing.assert_allclose(streamed.scores, wanted.scores, atol=1e-5)
    assert (streamed.written, streamed.places, streamed.tokens) == (wanted.written, wanted.places, wanted.tokens)
    assert [len(row) for _, row in told] == [len(PROMPT) + n for n in range(6)]
    with pytest.raises(whence.WhenceError, match="generate="):
        whence.explain(lm, PROMPT, on_token=print)
    with pytest.raises(whence.WhenceError, match="beams"):
        written(lm, generate={"max_new_tokens": 3, "num_beams": 2}, on_token=print)
    with pytest.raises(whence.WhenceError, match="max_new_tokenz"):
        written(lm, generate={"max_new_tokenz": 3}, on_token=lambda piece, row: None)
    with pytest.raises(ZeroDivisionError):
        written(lm, on_token=lambda piece, row: 1 / 0)


CJK = " It 中文 is é. Not 😀 bad."


def test_characters_of_several_tokens_are_one(lm):
    trace = whence.explain(lm, "Say", continuation=CJK)
    assert trace.text == CJK
    assert trace.span("中文").target == "中文"
    exp = whence.explain(lm, "Say", continuation=CJK, target=whence.span("中文"))
    assert exp.target == "中文"
    np.testing.assert_allclose(trace.span("中文").scores, exp.scores, atol=1e-5)
    by_sentence = whence.explain(lm, "Say", continuation=CJK, rows="sentence")
    assert by_sentence.written == trace.by("token", rows="sentence").written == (" It 中文 is é. ", "Not 😀 bad.")
    np.testing.assert_allclose(by_sentence.scores.sum(0), trace.scores.sum(0), atol=1e-5)


def test_characters_of_several_tokens_are_told_when_they_are_there(lm, monkeypatch):
    ids = lm.tokenizer("a中é", add_special_tokens=False)["input_ids"]
    told = []

    def write(prompt, generate):
        generate["streamer"].put(torch.tensor([[0]]))
        for i in ids:
            generate["streamer"].put(torch.tensor([i]))

    monkeypatch.setattr(lm, "write", write)
    whence.explain(lm, PROMPT, generate=6, on_token=lambda piece, row: told.append(piece))
    assert told == ["a", "", "", "中", "", "é"]


def test_how_a_model_writes_is_chosen_with_the_words_of_generate(lm):
    sampled = {"max_new_tokens": 6, "do_sample": True, "temperature": 2.0, "seed": 7}
    state = torch.random.get_rng_state()
    first, second = written(lm, generate=sampled), written(lm, generate=sampled)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.written == second.written != written(lm).written
    greedy = written(lm)
    stop = greedy.written[0]
    assert written(lm, generate={"max_new_tokens": 6, "stop_strings": [stop]}).written == greedy.written[:1]
    for wrong in (0, -1, True, "long", 2.5):
        with pytest.raises(whence.WhenceError, match="generate="):
            written(lm, generate=wrong)
    with pytest.raises(whence.WhenceError, match="input_ids"):
        written(lm, generate={"input_ids": [1]})
    with pytest.raises(whence.WhenceError, match=r"'seed': 'a'.* whole number"):
        written(lm, generate={"seed": "a"})
    with pytest.raises(whence.WhenceError, match=r"'max_tokens': …} is no option.* 'max_new_tokens'"):
        written(lm, generate={"max_tokens": 6})
    with pytest.raises(whence.WhenceError, match=r"refused by the model's generate: .*temperature"):
        written(lm, generate={"max_new_tokens": 6, "temperature": -1.0})


def test_errors_of_whoever_is_told_of_a_token_are_his_own(lm):
    def told(piece, row):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        written(lm, on_token=told)
    with pytest.raises(whence.WhenceError, match=r"'max_tokens': …} is no option"):
        written(lm, generate={"max_tokens": 6}, on_token=lambda piece, row: None)


def test_writing_is_counted(lm, monkeypatch):
    seen = []

    def steps(what, total):
        for n in range(total + 1):
            seen.append((what, total, n))
            yield n

    monkeypatch.setattr(generating, "steps", steps)
    written(lm, generate=4)
    assert seen == [("writing", 4, n) for n in range(4)]


def test_a_temperature_draws_words_unless_it_is_zero(lm):
    drawn = {"max_new_tokens": 6, "temperature": 2.0, "seed": 7}
    assert written(lm, generate=drawn).written == written(lm, generate={**drawn, "do_sample": True}).written
    assert written(lm, generate={**drawn, "do_sample": False}).written == written(lm).written
    assert written(lm, generate={**drawn, "temperature": 0, "top_p": 0.9}).written == written(lm).written


def test_what_a_template_refuses_is_said(lm):
    tokenizer = copy.deepcopy(small.bytelevel())
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'].strip() }};{% endfor %}"
    with pytest.raises(whence.WhenceError, match=r"chat template refuses .*'role': 'user', 'content'"):
        whence.explain((small.llama(), tokenizer), [{"role": "user"}])


def test_whose_words_the_tokens_of_a_conversation_are(lm):
    messages = [{"role": "system", "content": "terse"}, {"role": "user", "content": "a plot?"}]
    exp = whence.explain(lm, messages, generate=3)
    text = "system:terse;user:a plot?;"
    sides = dict(zip(range(len(text)), exp.whole.sides, strict=False))
    assert [sides[n] for n in range(7, 12)] == ["system"] * 5
    assert [sides[n] for n in range(18, 25)] == ["user"] * 7
    assert sides[0] == sides[12] == sides[25] == "template"
    assert exp.whole.sides[len(text) :] == ("continuation",) * 2
    merged = exp.by("message")
    assert merged.tokens == ("template", "system", "template", "user", "template", "continuation")
    np.testing.assert_allclose(merged.scores[:, 3], exp.scores[:, 18:25].sum(1), atol=1e-5)
    with_tools = whence.explain(lm, {"messages": messages, "tools": None}, generate=3)
    np.testing.assert_allclose(with_tools.scores, exp.scores, atol=1e-6)
    with pytest.raises(whence.WhenceError, match="'tool'"):
        whence.explain(lm, {"messages": messages, "tool": []})


@pytest.mark.parametrize(
    "said", [["user"], ["e", "s", "s"], ["hi", "hi", "hi"], [" r\n", ":"], [None, "s"], ["@whence-0@", "a"]]
)
def test_short_words_are_not_taken_for_those_of_the_template(lm, said):
    messages = [
        {"role": role, "content": text} for role, text in zip(("user", "assistant", "user"), said, strict=False)
    ]
    exp = whence.explain(lm, messages)
    wanted = []
    for message in messages:
        content = str(message["content"])
        spoken = [message["role"] if letter.strip() and message["content"] else "template" for letter in content]
        wanted += ["template"] * (len(message["role"]) + 1) + spoken + ["template"]
    assert exp.sides == tuple(wanted)


def test_words_that_a_template_changes_are_searched_for(lm):
    tokenizer = copy.deepcopy(small.bytelevel())
    tokenizer.chat_template = "{% for m in messages %}>{{ m['content'].split('|')[-1] }};{% endfor %}"
    messages = [{"role": "assistant", "content": "why|so"}, {"role": "user", "content": "what?"}]
    exp = whence.explain((small.llama(), tokenizer), messages)
    assert exp.sides == ("template",) * 5 + ("user",) * 5 + ("template",)


def test_tools_are_a_part_of_a_conversation():
    tokenizer = copy.deepcopy(small.bytelevel(512))
    tokenizer.chat_template = (
        "{% if tools %}<{{ tools[0]['name'] }}>{% endif %}"
        "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }};{% endfor %}"
    )
    model = whence.load((small.long_llama(), tokenizer))
    exp = whence.explain(model, {"messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "clock"}]})
    assert exp.sides[:7] == ("tools",) * 7
    assert exp.sides[12:14] == ("user",) * 2
    tokenizer.chat_template = small.bytelevel().chat_template
    with pytest.raises(whence.WhenceError, match="no place for tools"):
        whence.explain(model, {"messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "clock"}]})


def test_what_was_written_is_taken_up_again_token_by_token(lm):
    """Bytes that are no character can't be passed as a text."""
    drawn = {"max_new_tokens": 6, "temperature": 2.0, "seed": 3}
    trace = written(lm, generate=drawn)
    assert "\N{REPLACEMENT CHARACTER}" in trace.text
    again = written(lm, generate=None, continuation=trace.ids)
    assert again.ids == trace.ids
    assert written(lm, generate=None, continuation=torch.tensor(trace.ids)).ids == trace.ids
    assert again.written == trace.written
    np.testing.assert_allclose(again.scores, trace.scores, atol=1e-5)
    streamed = written(lm, generate=drawn, on_token=lambda *_: None)
    assert (
        streamed.ids == written(lm, generate=drawn, rows="word").ids == trace.by("word", rows="word").ids == trace.ids
    )


@pytest.mark.parametrize(("ids", "said"), [([0, 999_999], "no token 999999"), ([-1], "no token -1"), (["a"], "list"),
                                           ([True], "list"), (7, "int"), ([], "nothing")])  # fmt: skip
def test_ids_that_are_none(lm, ids, said):
    with pytest.raises(whence.WhenceError, match=said):
        written(lm, generate=None, continuation=ids)


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_saved_and_loaded(lm, tmp_path, suffix):
    trace = written(lm)
    again = whence.Trace.load(trace.save(tmp_path / f"t.{suffix}"))
    np.testing.assert_array_equal(again.scores, trace.scores)
    assert again.to_dict() == trace.to_dict()
    np.testing.assert_array_equal(again.span(1, 3).scores, trace.span(1, 3).scores)
    other = whence.explain(lm, PROMPT).save(tmp_path / "e.json")
    with pytest.raises(whence.WhenceError, match=r"Explanation: read it with whence\.Explanation\.load"):
        whence.Trace.load(other)


def test_what_a_trace_does_not_take(lm):
    with pytest.raises(whence.WhenceError, match="target='' is no word"):
        whence.explain(lm, PROMPT, target="")
    with pytest.raises(whence.WhenceError, match="rows= are those of a trace"):
        whence.explain(lm, PROMPT, rows="word")
    with pytest.raises(whence.WhenceError, match="without_special"):
        written(lm, special_tokens=False)
    with pytest.raises(whence.WhenceError, match="rows='line'"):
        written(lm, rows="line")


def test_memory_changes_nothing(lm):
    np.testing.assert_allclose(written(lm, memory="recompute").scores, written(lm).scores, atol=1e-5)


def test_units_that_one_of_several_texts_has_not(lm):
    with pytest.raises(whence.WhenceError, match=r"input 1: 'plot' does not stand"):
        whence.explain(lm, [PROMPT, "a film"], by=["plot"])
    with pytest.warns(SkippedWarning, match="input 1"):
        traced, none = whence.explain(lm, [PROMPT, "a film"], generate=2, by=["plot"], on_error="skip")
    assert "plot" in traced.tokens
    assert none is None


def test_a_list_of_prompts(lm):
    both = whence.explain(lm, ["a", PROMPT], generate=3)
    np.testing.assert_allclose(both[1].scores, written(lm, generate=3).scores, atol=1e-5)
    assert both[0].scores.shape == (3, 3)
