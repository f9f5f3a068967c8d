"""What a graph costs: `python -m benchmarks.graphs --model DIR --tokens 128 512`

Time and memory of `whence.graph` beside an ordinary explanation of the same text.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import whence

__all__ = ["main"]


def measured(work: Callable[[], Any], device: torch.device) -> tuple[float, float]:
    """Seconds (of the processor, where there is no GPU: others may be at work on it), and GiB at the most."""
    if device.type == "cuda":
        work()
        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.synchronize(device)
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize(device)
        return time.perf_counter() - begin, torch.cuda.max_memory_allocated(device) / 2**30
    begin = time.process_time()
    work()
    return time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB, on Linux


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a language model")
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--text", type=Path, default=Path("docs/inside.md"), help="what is read, from its beginning")
    options = parser.parse_args()
    model = whence.load(options.model)
    device = torch.device(model.device)
    print(f"{device}, torch {torch.__version__}, {torch.get_num_threads()} threads of the processor\n")
    print("| layers × tokens | graph | memory until then | explanation |\n|---|---|---|---|")
    words = model.tokenizer(options.text.read_text(encoding="utf-8"))["input_ids"]
    for count in sorted(options.tokens):
        if len(words) < count:
            raise SystemExit(f"{options.text} has {len(words)} tokens: --text FILE names a longer one")
        text = model.tokenizer.decode(words[:count])
        plain, _ = measured(lambda text=text: whence.explain(model, text, receipt="short"), device)
        graph = whence.graph(model, text, progress=False)
        seconds, memory = measured(lambda text=text: whence.graph(model, text, progress=False), device)
        layers, tokens = len(graph.layers), graph.relevance.shape[1]
        print(f"| {layers} × {tokens} | {seconds:.1f} s | {memory:.2f} GiB | {plain:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
