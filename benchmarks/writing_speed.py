"""What a span and a trace of written text cost: `python -m benchmarks.writing_speed [--only 8B,135M] [--write FILE]`.

A prompt with text behind it, all of the text explained as one span (one backward pass), and a trace (one for each
token). Times beside a plain forward pass over the same tokens in the same run; on a CPU, those of one core, whatever
else the machine does. Weights are random, shapes real.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

import whence
from benchmarks.gpu import LLAMA_8B, QUICK
from whence.methods.explaining import as_method, explain_examples
from whence.methods.tracing import traced
from whence.models.example import Example
from whence.models.word_targets import Span
from whence.models.writing import CausalLM

__all__ = ["main"]

SMOL = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 8192}  # fmt: skip
SHAPES: dict[str, tuple[dict[str, int], tuple[tuple[int, int, bool], ...]]] = {
    "8B": (LLAMA_8B, ((10, 5000, False), (2048, 256, True))),
    "135M": (SMOL, ((1536, 512, True), (128, 128, True))),
}
"""Shape of a Llama; tokens of prompt and text, and whether the text is traced token by token as well."""
METHODS = ("exact", "attn_lrp")
HEAD = """# What was written: what its spans and traces cost

Written by `python -m benchmarks.writing_speed --from FILE … --write docs/benchmarks_writing.md`. A prompt with text
behind it. *Span*: all of the text as one target, one backward pass. *Trace*: a backward pass for each token on one
forward pass, the whole table written × earlier. Beside a forward pass over the same tokens in the same run; random
weights of the shapes of Llama 3 8B and SmolLM2 135M. On a CPU: seconds of one core (`--sizes 128+128`).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(SHAPES), help="comma-separated: " + ", ".join(SHAPES))
    parser.add_argument("--spans", action="store_true", help="no traces")
    parser.add_argument("--sizes", help="comma-separated, tokens of prompt and text: 1536+512,128+128")
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated")
    parser.add_argument("--json", type=Path, help="write the measurements here, as they come")
    parser.add_argument("--from", dest="read", type=Path, nargs="+", help="write the page from measurements of before")
    parser.add_argument("--write", type=Path, help="write the page to this file instead of printing it")
    parser.add_argument("--quick", action="store_true", help="a tiny model")
    given = parser.parse_args()
    if given.read:
        found = [row for path in given.read for row in json.loads(path.read_text())]
    else:
        found = []
        for name in given.only.split(","):
            found += measured(name, given, lambda rows: given.json and given.json.write_text(json.dumps(rows)), found)
    text = page(found)
    given.write.write_text(text) if given.write else print(text)


def measured(name: str, given: Any, keep: Callable[[Any], Any], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shape, sizes = SHAPES[name]
    if given.sizes:
        sizes = tuple((*map(int, size.split("+")), True) for size in given.sizes.split(","))  # type: ignore[misc]
    model, made = built(QUICK if given.quick else shape), []
    for prompt, text, trace in sizes:
        if given.quick:
            prompt, text = min(prompt, 20), min(text, 12)
        example = written(model, prompt, text)
        forward = seconds(lambda e=example: plain(model, e), 3)  # type: ignore[misc]
        for method in given.methods.split(","):
            row = {"model": name, "device": str(model.device), "prompt": prompt, "text": text, "method": method}
            chosen = as_method(method)
            span = lambda e=example, m=chosen: explain_examples(model, m, [e], [Span()])
            row |= {"forward": forward, "span": seconds(span, 2)}
            if trace and not given.spans:
                row["trace"] = seconds(lambda e=example, m=chosen: traced(model, m, e), 1)  # type: ignore[misc]
            print(row, flush=True)
            made.append(row)
            keep(before + made)
    return made


def built(shape: dict[str, int]) -> CausalLM:
    """A Llama of random weights, on the GPU in bfloat16 where there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    with torch.device(device):
        torch.set_default_dtype(torch.bfloat16 if device == "cuda" else torch.float32)
        module = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).eval()
        torch.set_default_dtype(torch.float32)
    model = whence.load(module)
    assert isinstance(model, CausalLM)
    return model


def written(model: CausalLM, prompt: int, text: int) -> Example:
    """Random tokens behind random tokens."""
    ids = torch.randint(3, int(model.config.vocab_size), (prompt + text,), generator=torch.Generator().manual_seed(0))
    (example,), _ = model.encode({"input_ids": ids[None, :prompt], "attention_mask": torch.ones(1, prompt).long()})
    return model.with_written(example, ids[prompt:].tolist())


def plain(model: CausalLM, example: Example) -> None:
    """A forward pass that gives the last token's logits."""
    ids = example.inputs["input_ids"][None].to(model.device)
    with torch.no_grad():
        model.module(input_ids=ids, logits_to_keep=1, use_cache=False).logits.argmax().item()


def seconds(work: Callable[[], Any], times: int) -> float:
    """The best of a few, after one that does not count where there are several; of one core without a GPU."""
    best, on_gpu = float("inf"), torch.cuda.is_available()
    clock = time.perf_counter if on_gpu else time.process_time
    for n in range(times + (times > 1)):
        if on_gpu:
            torch.cuda.synchronize()
        begin = clock()
        work()
        if on_gpu:
            torch.cuda.synchronize()
        if n or times == 1:
            best = min(best, clock() - begin)
    return best


def page(found: list[dict[str, Any]]) -> str:
    lines = [
        HEAD,
        "| model | device | prompt + text | method | forward | span | trace |",
        "| --- | --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in found:
        span = f"{row['span']:.2f} s, {row['span'] / row['forward']:.2f} ×"
        each = row.get("trace", 0.0) / row["text"] / row["forward"]
        trace = f"{row['trace']:.1f} s, {each:.2f} × a token" if each else "–"
        cells = (row["model"], row["device"], f"{row['prompt']:,} + {row['text']:,}", f"`{row['method']}`")
        lines.append(f"| {' | '.join(cells)} | {row['forward']:.3f} s | {span} | {trace} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
