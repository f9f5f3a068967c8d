"""Graphs, edges and pairs of every kind of model: what they sum to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

import whence
from tests import small
from tests.contract.test_zoo import FAMILIES
from whence.core.crossing import inside
from whence.core.recipe import recipes
from whence.errors import ModelError
from whence.methods.edges import Edges
from whence.methods.patching import TwoRuns
from whence.models.asking import TargetScores
from whence.models.loading import load
from zoo.build import build, randomize
from zoo.configs import tiny_config

CLOSE = 1e-3
"""Of the largest amount, float32."""
STREAMS = [(task, kind) for task, kind in FAMILIES if task != "seq2seq-lm"]
NO_GRAPH = {
    "bart": "several stacks", "funnel": "several stacks", "convnext": "several stacks", "swin": "several stacks",
    "fnet": "no attention", "mamba": "no attention", "longformer": "windows", "xlnet": "windows",
    "squeezebert": "no blocks",
}  # fmt: skip
"""Why those that have none have none."""
NO_EDGES = {
    "fnet": "no heads", "mamba": "no heads", "convnext": "no heads", "swin": "windows", "squeezebert": "no heads",
    "longformer": "windows", "xlnet": "windows", "funnel": "windows",
}  # fmt: skip
EMBEDDERS = (
    "albert bert deberta-v2 distilbert electra esm gemma2 gpt2 gpt_neox llama mistral mixtral modernbert mpnet qwen2 "
    "qwen3_moe roberta roformer t5 xlm-roberta"
).split()


def one(task, kind):
    specimen = build(task, kind)
    return specimen.model, {name: value[:1] for name, value in specimen.inputs.items()}


def crossed(module, inputs, kinds):
    adapter = load(module)
    (example,), _ = adapter.encode(inputs)
    example, target = adapter.aim(example, adapter.default_target(example))
    batch = adapter.collate([example], [target])
    scores = TargetScores(adapter, batch, [target])
    return inside(adapter.forward, batch, module=adapter.module, target=scores, recipe=recipes["exact"], kinds=kinds)


@pytest.mark.parametrize(("task", "kind"), STREAMS)
def test_edges_of_a_graph_are_what_nodes_and_heads_hold_and_what_is_booked_between(task, kind):
    module, inputs = one(task, kind)
    if kind in NO_GRAPH:
        with pytest.raises(ModelError, match=NO_GRAPH[kind]):
            whence.graph(module, inputs)
        return
    graph = whence.graph(module, inputs, share=1.0, most=10**7)
    out, into = np.zeros_like(graph.relevance), np.zeros_like(graph.relevance)
    for e in graph.edges:
        out[e.layer, e.source] += e.weight
        into[e.layer + 1, e.target] += e.weight
    seen = crossed(module, inputs, ("layers", "heads"))
    scale = max([np.abs(graph.relevance).max(), *(abs(a) for own in seen.sinks.values() for a in own.values())])
    np.testing.assert_allclose(out[:-1], graph.relevance[:-1], atol=CLOSE * scale)
    np.testing.assert_allclose(into[1:] + graph.constants, graph.relevance[1:], atol=CLOSE * scale)
    heads = [place.parted(place.relevance).sum(1, dtype=torch.float64).numpy() for place in seen.of("heads")]
    np.testing.assert_allclose(graph.heads, heads, atol=CLOSE * scale)
    booked = [sum(seen.sinks.get(n, {}).values()) for n in range(1, len(graph.layers))]  # before that: embeddings too
    np.testing.assert_allclose(graph.constants.sum(1)[1:], booked, atol=CLOSE * scale)


@pytest.mark.parametrize(("task", "kind"), STREAMS)
def test_edges_that_leave_a_place_sum_to_what_it_does(task, kind):
    module, clean = one(task, kind)
    name = "pixel_values" if "pixel_values" in clean else "input_ids"
    corrupt = {**clean, name: clean[name].flip(-1)}
    if kind in NO_EDGES:
        with pytest.raises(ModelError, match=NO_EDGES[kind]):
            whence.patch(module, clean, corrupt, target=0, at="edges")
        return
    adapter = load(module)
    pair = [adapter.encode(inputs)[0][0] for inputs in (clean, corrupt)]
    runs = TwoRuns(adapter, *pair, adapter.default_target(pair[0]), kinds=["edges"])
    edges = Edges(runs)
    found = np.nansum(edges.estimated(), axis=1)
    nodes = {"heads": runs.estimated("heads")}
    nodes["mlps"] = np.nansum(runs.estimated("mlps"), axis=1) if runs.here.of("mlps") else np.zeros(0)
    wanted = [nodes[n.kind][n.place] if n.part is None else nodes[n.kind][n.place, n.part] for n in edges.sources[1:]]
    np.testing.assert_allclose(found[1:], wanted, atol=CLOSE * np.abs(wanted).max())
    assert np.abs(wanted).max() > 0


@pytest.mark.parametrize("pooling", ["mean", "last"])
@pytest.mark.parametrize("kind", EMBEDDERS)
def test_cells_and_sinks_of_a_pair_are_the_similarity(kind, pooling):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        auto = transformers.AutoModelForTextEncoding if kind == "t5" else transformers.AutoModel
        module = auto.from_config(tiny_config("", kind)).eval()
    randomize(module, 0)
    model = whence.load((module, small.wordpiece()), task="sentence-embedding")
    pair = whence.similarity(model, "a witty movie", "the plot is dull", pooling=pooling)
    account = pair.conservation
    assert account.complete
    scale = max(abs(pair.score), abs(account.inputs), *(abs(v) for v in account.sinks.values()))
    assert abs(account.error) <= CLOSE * scale
    assert account.inputs == pytest.approx(pair.matrix.sum())
