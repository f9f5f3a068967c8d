"""Attention flow against networkx, and the memory of streamed maps: `python -m benchmarks.attention [--write FILE]`."""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from whence.methods.attention.flow import max_flow_to_inputs

LAYERS = (2, 12)


def random_maps(layers: int, tokens: int, seed: int = 0) -> list[np.ndarray]:
    """Peaked random attention with the skip connection, rows summing to one."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(layers):
        a = np.exp(2 * rng.normal(size=(tokens, tokens)))
        made.append((a / a.sum(-1, keepdims=True) + np.eye(tokens)) / 2)
    return made


def networkx_flow(maps: list[np.ndarray], row: int, sink: int) -> float:
    """One pair with networkx's Edmonds-Karp, as in the public code of attention flow."""
    import networkx
    from networkx.algorithms.flow import edmonds_karp

    graph = networkx.DiGraph()
    layers = len(maps)
    for layer, m in enumerate(maps):
        for i, j in np.ndindex(m.shape):
            graph.add_edge((layer + 1, int(i)), (layer, int(j)), capacity=float(m[i, j]))
    return networkx.maximum_flow_value(graph, (layers, row), (0, sink), flow_func=edmonds_karp)


def flow() -> list[str]:
    maps = random_maps(12, 64)
    start = time.process_time()
    ours = max_flow_to_inputs(maps, 0)
    all_sinks = time.process_time() - start
    start = time.process_time()
    theirs = networkx_flow(maps, 0, 9)
    one_sink = time.process_time() - start
    ratio = one_sink * 64 / all_sinks
    long = random_maps(3, 512)
    start = time.process_time()
    max_flow_to_inputs(long, 0)
    seconds = time.process_time() - start
    return [
        "## Attention flow",
        "",
        "| what | processor time |",
        "|---|---|",
        f"| whence, 12 layers × 64 tokens, all 64 inputs | {all_sinks:.2f} s |",
        f"| networkx (Edmonds-Karp), the same graph, one input | {one_sink:.2f} s |",
        f"| ratio for all inputs (goal: 100) | **{ratio:.0f}** |",
        f"| whence, 3 layers × 512 tokens, all 512 inputs | {seconds:.1f} s |",
        "",
        f"The input that both computed differs by {abs(ours[9] - theirs):.1e}.",
        "",
    ]


def peak(layers: int, stream: bool) -> float:
    """Growth of the peak resident memory (MiB) of one GAE explanation, in this process."""
    import transformers

    import whence
    from whence.methods.attention.gae import GAE

    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=layers, num_attention_heads=8, intermediate_size=64,
        max_position_embeddings=1024,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config).eval()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whence.explain(model, {"input_ids": torch.randint(1, 99, (1, 1024))}, GAE(stream=stream))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def memory() -> list[str]:
    rows = [
        "## Memory of GAE, 8 heads × 1024 tokens (one map: 32 MiB)",
        "",
        "| layers | plain | streamed |",
        "|---|---|---|",
    ]
    for layers in LAYERS:
        cells = []
        for stream in (False, True):
            code = f"from benchmarks.attention import peak; print(peak({layers}, {stream}))"
            out = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
            )
            cells.append(f"{float(out.stdout.split()[-1]):.0f} MiB")
        rows.append(f"| {layers} | {' | '.join(cells)} |")
    return [*rows, "", "Growth of the peak resident memory, each in a process of its own.", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    head = [
        "# The attention family: speed and memory",
        "",
        f"Made by `python -m benchmarks.attention` with torch {torch.__version__}, "
        f"Python {platform.python_version()}, one thread.",
        "",
    ]
    page = "\n".join([*head, *flow(), *memory()]).rstrip() + "\n"
    if options.write:
        options.write.write_text(page)
    print(page)


if __name__ == "__main__":
    main()
