"""Attribution graphs: what edges sum to, what they are, and what is left out."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import whence
from tests import small
from whence.core.crossing import inside
from whence.core.recipe import recipes
from whence.errors import InputError, ModelError
from whence.models.asking import TargetScores
from whence.models.loading import load

TEXT = "a witty movie"
MODELS = {"bert": small.classifier, "llama": small.llama, "gpt2": small.gpt2}


def made(kind):
    return copy.deepcopy(MODELS[kind]()).double().eval(), small.wordpiece()


def sums(graph):
    out, into = np.zeros_like(graph.relevance), np.zeros_like(graph.relevance)
    for e in graph.edges:
        out[e.layer, e.source] += e.weight
        into[e.layer + 1, e.target] += e.weight
    return out, into


@pytest.mark.parametrize("recipe", ["exact", "cp_lrp"])
@pytest.mark.parametrize("kind", MODELS)
def test_edges_sum_to_the_relevance_of_the_nodes_they_leave_and_enter(kind, recipe):
    graph = whence.graph(made(kind), TEXT, recipe, share=1.0, most=10**6)
    out, into = sums(graph)
    assert graph.kept == (pytest.approx(1.0),) * len(graph.layers)
    np.testing.assert_allclose(out[:-1], graph.relevance[:-1], atol=1e-9)
    np.testing.assert_allclose(into[1:] + graph.constants, graph.relevance[1:], atol=1e-9)


def test_without_biases_nothing_is_added_on_the_way():
    graph = whence.graph(made("llama"), TEXT)
    np.testing.assert_allclose(graph.constants, 0, atol=1e-6)
    np.testing.assert_allclose(graph.relevance.sum(1), graph.target_score, atol=1e-6)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_what_constants_add_is_what_the_ledger_says(kind):
    model = made(kind)
    graph = whence.graph(model, TEXT)
    adapter = load(model)
    (example,), _ = adapter.encode(TEXT)
    example, target = adapter.aim(example, adapter.default_target(example))
    batch = adapter.collate([example], [target])
    scores = TargetScores(adapter, batch, [target])
    seen = inside(adapter.forward, batch, module=adapter.module, target=scores, recipe=recipes["exact"])
    booked = [sum(seen.sinks[n].values()) for n in range(1, len(graph.layers))]  # stage 0 has embeddings in it
    np.testing.assert_allclose(graph.constants.sum(1)[1:], booked, atol=1e-6)


def test_an_edge_is_what_goes_back_from_one_node_alone():
    """From token t' of a row alone, by a backward pass of its own, to every token of the row below."""
    module, tokenizer = made("llama")
    graph = whence.graph((module, tokenizer), TEXT, share=1.0, most=10**6)
    adapter = load((module, tokenizer))
    (example,), _ = adapter.encode(TEXT)
    example, target = adapter.aim(example, adapter.default_target(example))
    batch = adapter.collate([example], [target])
    scores = TargetScores(adapter, batch, [target])
    recipe = recipes["exact"]
    whole = inside(adapter.forward, batch, module=module, target=scores, recipe=recipe, kinds=("layers",))
    gradient = whole.of("layers")[0].gradient[0]
    for to in range(len(graph.tokens)):
        alone = inside(
            lambda inputs: module(**inputs, output_hidden_states=True, use_cache=False).hidden_states[1],
            batch,
            module=module,
            target=lambda states, to=to: (states[0, to] * gradient[to]).sum().reshape(1),
            recipe=recipe,
            kinds=("input",),
        )
        expected = alone.of("input")[0].relevance.sum(-1)[0].numpy()
        found = np.zeros(len(graph.tokens))
        for e in graph.edges:
            if e.layer == 0 and e.target == to:
                found[e.source] += e.weight
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_a_graph_keeps_the_strongest_edges_and_no_loose_ends():
    whole = whence.graph(made("llama"), TEXT, share=1.0, most=10**6)
    part = whence.graph(made("llama"), TEXT, share=0.5)
    assert 0 < len(part) < len(whole)
    for n, kept in enumerate(part.kept):
        carried, every = (sum(abs(e.weight) for e in g.edges if e.layer == n) for g in (part, whole))
        assert kept == pytest.approx(carried / every)
    assert max(part.kept) < 0.9
    assert set(part.edges) <= set(whole.edges)
    below, above = {(e.layer, e.source) for e in part.edges}, {(e.layer + 1, e.target) for e in part.edges}
    last = len(part.layers)
    assert all((e.layer, e.source) in above for e in part.edges if e.layer)
    assert all((e.layer + 1, e.target) in below for e in part.edges if e.layer + 1 < last)
    assert [abs(e.weight) for e in part.edges] == sorted((abs(e.weight) for e in part.edges), reverse=True)


def test_heads_have_all_that_goes_through_them():
    model = made("bert")
    graph = whence.graph(model, TEXT, share=0.3)
    whole = whence.graph(model, TEXT, share=1.0, most=10**6)
    found = np.zeros_like(graph.heads)
    for e in whole.edges:
        if e.by.startswith("head"):
            found[e.layer, int(e.by.split()[1])] += e.weight
    np.testing.assert_allclose(graph.heads, found, atol=1e-9)


def test_fused_and_written_attention_give_one_graph():
    fused, written = made("bert"), made("bert")
    written[0].set_attn_implementation("eager")
    one, other = whence.graph(fused, TEXT), whence.graph(written, TEXT)
    assert [e[:4] for e in one.edges] == [e[:4] for e in other.edges]
    np.testing.assert_allclose(one.relevance, other.relevance, atol=1e-9)


def test_an_image_has_a_graph_with_its_own_token_in_front():
    graph = whence.graph(small.vit(), torch.rand(3, 16, 16))
    assert len(graph.tokens) == 17
    assert graph.tokens[0] == "[0]"


def test_what_was_written_is_a_target_too():
    graph = whence.graph((small.llama(), small.bytelevel()), "a movie", continuation=" is good")
    assert graph.target_score == pytest.approx(graph.relevance[-1].sum(), abs=1e-4)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("bert", {"method": "attn_lrp"}, "differentiates its softmax"),
        ("bert", {"method": "gae"}, "has no relevance inside"),
        ("bert", {"share": 0.0}, "share"),
        ("bert", {"at": "embedding"}, "not for graphs"),
    ],
)
def test_wrong_choices_are_told(model, options, message):
    with pytest.raises(InputError, match=message):
        whence.graph(made(model), TEXT, **options)


def test_one_input_at_a_time():
    with pytest.raises(InputError, match="one input"):
        whence.graph(made("bert"), [TEXT, TEXT])


def test_a_model_of_two_stacks_has_no_single_stream():
    with pytest.raises(ModelError, match="several stacks"):
        whence.graph((small.t5(), small.wordpiece()), TEXT)


def test_a_graph_is_the_same_after_a_file(tmp_path):
    graph = whence.graph(made("bert"), TEXT)
    read = whence.AttributionGraph.load(graph.save(tmp_path / "graph.json"))
    assert read.edges == graph.edges
    assert read.tokens == graph.tokens
    assert read.target_score == graph.target_score
    np.testing.assert_array_equal(read.relevance, graph.relevance)


def test_viewers_find_every_node_of_a_link(tmp_path):
    data = whence.graph(made("bert"), TEXT).to_dict()
    names = {node["node_id"] for node in data["nodes"]}
    assert len(names) == len(data["nodes"])
    assert {end for link in data["links"] for end in (link["source"], link["target"])} <= names
    assert [node["feature_type"] for node in data["nodes"]].count("logit") == 1


def test_viewers_find_one_link_for_two_nodes_with_all_that_goes_between_them():
    graph = whence.graph(made("bert"), TEXT, share=1.0, most=10**6)
    links = graph.to_dict()["links"]
    ends = [(link["source"], link["target"]) for link in links]
    assert len(set(ends)) == len(ends)
    own = next(link for link in links if link["source"] == "0_0_1" and link["target"] == "1_0_0")
    between = [e for e in graph.edges if (e.layer, e.source, e.target) == (1, 1, 0)]
    assert own["weight"] == pytest.approx(sum(e.weight for e in between))
    assert own["by"] == {e.by: e.weight for e in between}
    assert len(between) == 4  # one of each head


def test_viewers_hide_the_weakest_nodes_first_and_read_a_probability():
    graph = whence.graph(made("bert"), TEXT, share=1.0, most=10**6)
    *nodes, goal = graph.to_dict()["nodes"]
    by_influence = sorted(nodes, key=lambda node: node["influence"])
    sizes = [abs(node["activation"]) for node in by_influence]
    assert sizes == sorted(sizes, reverse=True)
    assert by_influence[0]["influence"] == pytest.approx(sizes[0] / sum(sizes))
    assert by_influence[-1]["influence"] == pytest.approx(1)
    said = whence.explain(made("bert"), TEXT).prediction
    assert goal["clerp"] == f'Output "{said.label}" (p={said.probabilities[0]:.3f})'
    rather = whence.graph(made("bert"), TEXT, target=whence.contrast(0, 1)).to_dict()["nodes"][-1]
    assert rather["clerp"].endswith("(p=?)")


def test_a_broken_file_is_told(tmp_path):
    (tmp_path / "graph.json").write_text("{}")
    with pytest.raises(InputError, match="no graph"):
        whence.AttributionGraph.load(tmp_path / "graph.json")


@pytest.mark.parametrize("suffix", ["svg", "html", "txt"])
def test_a_graph_is_drawn(tmp_path, suffix):
    graph = whence.graph(made("bert"), TEXT)
    text = graph.save(tmp_path / f"graph.{suffix}").read_text(encoding="utf-8")
    assert "movie" in text
    assert graph._repr_html_().startswith("<svg")
