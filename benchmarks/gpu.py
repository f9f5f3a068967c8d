"""What an explanation costs on a GPU, and how long an input it takes: `python -m benchmarks.gpu [--write FILE]`.

Through `whence.explain`, as a user calls it. Times are ratios to a plain forward pass (the last token's logits for
language models) in the same run; memory is the peak of the CUDA allocator over the loaded model. Weights are random.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import transformers

import whence
from benchmarks import gpu_runs
from benchmarks.methods import frozen
from benchmarks.peers import patched_by_lxt
from whence.models.adapter import AbstractAdapter

__all__ = ["main"]

GIB = 2**30
LLAMA_8B = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 262144}  # fmt: skip
LLAMA_1B = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
            "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 262144}  # fmt: skip
QUICK = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 32000, "max_position_embeddings": 4096}  # fmt: skip
PRESETS = ("cp_lrp", "exact", "attn_lrp", "gi")
ATTENTION = ("attention_last", "rollout", "gae", "grad_sam")
GROUPS: dict[str, tuple[str, Sequence[tuple[int, int]], Sequence[str]]] = {
    "8B": ("llama-8b", ((1, 2048), (1, 8192), (1, 32768), (1, 65536), (1, 131072)), PRESETS),
    "small": ("bert", ((64, 128), (16, 32)), ("exact", "attn_lrp", "gi")),
    "1B": ("llama-1b", ((1, 512), (1, 1024)), PRESETS),
    "attention": ("llama-1b", ((1, 1024), (1, 4096), (1, 16384), (1, 131072)), ("lrp", *ATTENTION)),
}
"""Model, batch × tokens, methods."""
WITHIN = {("8B", 65536): ("exact @ 50GiB",), ("attention", 16384): ("gae @ 10GiB", "grad_sam @ 10GiB")}
"""Methods with a memory of their own, for the inputs at which it matters."""
PROFILED = (8192, 131072)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="write the page to this file instead of printing it")
    parser.add_argument("--json", type=Path, help="write the measurements here, as they come")
    parser.add_argument("--from", dest="read", type=Path, nargs="+", help="write the page from measurements of before")
    groups = [*GROUPS, "run", "precision", "profile"]
    parser.add_argument("--only", default=",".join(groups), help="comma-separated: " + ", ".join(groups))
    parser.add_argument("--longest", type=int, default=10**9, help="tokens of the longest inputs")
    parser.add_argument("--data", type=Path, help="folder with the sentences of SST-2, for `run`")
    parser.add_argument("--quick", action="store_true", help="small shapes of few layers, also without a GPU")
    given = parser.parse_args()

    def keep(found: dict[str, Any]) -> None:
        if given.json:
            given.json.write_text(json.dumps(found, indent=1, ensure_ascii=False))

    only = [g for g in given.only.split(",") if g != "run" or given.data]
    found = _joined([json.loads(p.read_text()) for p in given.read]) if given.read else measured(keep, only, given)
    text = page(found)
    given.write.write_text(text) if given.write else print(text)


def _joined(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Several runs as one; of a table's cell, the first run that has it. Its ratio is of its own run."""
    found: dict[str, Any] = {**runs[0], "rows": []}
    for run in runs:
        have = {(row["group"], row["shape"], row["method"]) for row in found["rows"]}
        found["rows"] += [row for row in run["rows"] if (row["group"], row["shape"], row["method"]) not in have]
        found |= {name: run[name] for name in ("notes", "run", "precision", "profile") if name in run}
    order = {group: n for n, group in enumerate(GROUPS)}
    found["rows"].sort(key=lambda row: (order[row["group"]], _tokens(row["shape"])))
    return found


def _tokens(shape: str) -> int:
    batch, length = (int(n.replace(",", "")) for n in shape.split("×"))
    return length * 1000 + batch


def measured(keep: Callable[[dict[str, Any]], None], only: Sequence[str], given: Any) -> dict[str, Any]:
    quick = given.quick
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "rows": [],
    }
    for group in only:
        if group == "precision":
            found["precision"] = {"device": found["device"], "rows": _precision(device)}
            keep(found)
            continue
        if group == "profile":
            model = _model("llama-8b", device, quick)
            found["profile"] = []
            for length in (64,) if quick else PROFILED:
                found["profile"].append(_profile(model, length))
                keep(found)
            del model
            _clean()
            continue
        if group == "run":
            found["run"] = []
            for row in gpu_runs.rates(lambda name: _model(name, device, quick).module, given.data, quick):
                print(row, flush=True)
                found["run"].append(row)
                keep(found)
            continue
        name, shapes, methods = GROUPS[group]
        model = _model(name, device, quick)
        for batch, length in ((2, 16),) if quick else [shape for shape in shapes if shape[1] <= given.longest]:
            chosen = methods if length < 100_000 or group != "attention" else ("lrp", "attention_last", "rollout")
            for row in _rows(model, batch, length, (*chosen, *WITHIN.get((group, length), ()))):
                print(row, flush=True)
                found["rows"].append({"group": group, "model": name, "shape": f"{batch}×{length:,}", **row})
                keep(found)
        del model
        _clean()
    return found


def _model(name: str, device: str, quick: bool) -> AbstractAdapter:
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if device == "cuda" else torch.float32)
    try:
        with torch.device(device):
            if name == "bert":
                size = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4} if quick else {}
                module: Any = transformers.BertForSequenceClassification(transformers.BertConfig(**size))
            else:
                size = QUICK if quick else LLAMA_8B if name == "llama-8b" else LLAMA_1B
                module = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size))
    finally:
        torch.set_default_dtype(before)
    return whence.load(module.eval())


def _rows(model: AbstractAdapter, batch: int, length: int, methods: Sequence[str]) -> Any:
    ids = torch.randint(10, model.config.vocab_size - 1, (batch, length), device=model.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    options = {"use_cache": False, "logits_to_keep": 1} if model.writes else {}

    def forward() -> None:
        with torch.no_grad():
            model.module(**inputs, **options)

    times = 1 if length > 20000 else 5
    _clean()
    held = torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
    unit = _one(forward, times, held)
    yield {"method": "forward", **unit}
    if "error" in unit:
        return
    for method in methods:
        name, _, memory = method.partition(" @ ")
        options = {"batch_tokens": 2**20, "memory": memory or "auto"}
        row = _one(lambda name=name, options=options: whence.explain(model, inputs, name, 1, **options), times, held)
        yield {"method": method, **row, **({} if "error" in row else {"ratio": row["ms"] / unit["ms"]})}
    if model.writes and "attn_lrp" in methods and importlib.util.find_spec("lxt") is not None:
        row = _one(lambda: _lxt(model, ids), times, held)
        yield {"method": "LXT (AttnLRP)", **row, **({} if "error" in row else {"ratio": row["ms"] / unit["ms"]})}


def _lxt(model: AbstractAdapter, ids: torch.Tensor) -> torch.Tensor:
    """As its documentation shows: patched classes, frozen weights, x · x.grad; the last token's logits alone."""
    module = model.module
    with patched_by_lxt(), frozen(module):
        x = module.get_input_embeddings()(ids).detach().requires_grad_()
        module(inputs_embeds=x, use_cache=False, logits_to_keep=1).logits[:, -1].max(-1).values.sum().backward()
        return (x.detach() * x.grad).sum(-1)  # type: ignore[operator]


def _one(work: Callable[[], object], times: int, held: int) -> dict[str, Any]:
    try:
        for _ in range(4 if times > 1 else 1):  # small ones are recorded by then, all is compiled
            work()
        _clean()
        spent = [_milliseconds(work) for _ in range(times)]
        peak = (torch.cuda.max_memory_allocated() - held) / GIB if torch.cuda.is_available() else float("nan")
        return {"ms": median(spent), "gib": peak}
    except torch.OutOfMemoryError:
        return {"error": "out of memory"}
    except Exception as error:  # a figure that can't be had is one line of the table
        return {"error": f"{type(error).__name__}: {str(error)[:80]}"}
    finally:
        _clean()


KINDS = {
    "attention": ("sdpa", "flash", "fmha", "cudnn", "_transposed", "_columns", "_rows"),
    "matrix products": ("nvjet", "gemm", "cutlass", "gemv"),
}
"""What is in the names of kernels; all others go over their inputs once."""


def _profile(model: AbstractAdapter, length: int) -> dict[str, Any]:
    """Milliseconds in kernels of each kind, and without any, from the first to the last."""
    ids = torch.randint(10, model.config.vocab_size - 1, (1, length), device=model.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def forward() -> None:
        with torch.no_grad():
            model.module(**inputs, use_cache=False, logits_to_keep=1)

    works: dict[str, Callable[[], object]] = {"forward": forward}
    for method in PRESETS if length < 100_000 else ("exact", "attn_lrp"):
        works[method] = lambda method=method: whence.explain(model, inputs, method, 1, batch_tokens=2**20)
    found = {}
    for name, work in works.items():
        for _ in range(3 if length < 100_000 else 1):
            work()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            work()
            torch.cuda.synchronize()
        kernels = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        spent = dict.fromkeys([*KINDS, "the rest"], 0.0)
        for kernel in kernels:
            kind = next((k for k, parts in KINDS.items() if any(p in kernel.name for p in parts)), "the rest")
            spent[kind] += kernel.time_range.elapsed_us() / 1000
        span = max(k.time_range.end for k in kernels) - min(k.time_range.start for k in kernels)
        found[name] = {**spent, "none": span / 1000 - sum(spent.values())}
        print(name, found[name], flush=True)
    return {"tokens": length, "rows": found}


def _profile_lines(found: list[dict[str, Any]]) -> list[str]:
    kinds = [*KINDS, "the rest", "none"]
    lines = [
        "## Where the time goes",
        "",
        "llama-8b: milliseconds in kernels of each kind, and in none, from the first to the last. A backward pass has "
        "the matrix products of the forward pass once more, and two (a constant map) or five products in attention "
        "where that has two; blocks that run again have all but one of their products a third time. What is left to "
        "gain is in the last columns.",
        "",
        _line(["tokens", "", *kinds, "all", "over forward"]),
        _line(["---:", "---", *["---:"] * (len(kinds) + 2)]),
    ]
    for part in found:
        whole = {name: sum(row.values()) for name, row in part["rows"].items()}
        for name, row in part["rows"].items():
            times = [f"{ms:,.0f}" for ms in (*(row[k] for k in kinds), whole[name])]
            lines.append(_line([f"{part['tokens']:,}", f"`{name}`", *times, f"{whole[name] / whole['forward']:.2f}"]))
    return [*lines, ""]


def _precision(device: str) -> list[dict[str, Any]]:
    """How far scores are from those in float64, and errors of receipts from their tolerance."""
    rows = []
    for name in ("bert", "llama"):
        for method in ("cp_lrp", "exact", "attn_lrp", "ah_ln", "libragrad", "gim", "gi"):
            for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
                torch.manual_seed(0)
                size = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 12, "num_attention_heads": 4}
                config = {"bert": transformers.BertConfig, "llama": transformers.LlamaConfig}[name]
                kind = {"bert": transformers.BertForSequenceClassification, "llama": transformers.LlamaForCausalLM}[
                    name
                ]
                module = kind(config(**size, vocab_size=500)).eval().to(device, dtype)
                ids = torch.randint(5, 400, (16, 64), generator=torch.Generator().manual_seed(1)).to(device)
                made = whence.explain(whence.load(module), {"input_ids": ids}, method, 1, receipt="full")
                if dtype == torch.float64:
                    exact = [exp.scores for exp in made]
                    continue
                gaps = [np.linalg.norm(e.scores - s) / np.linalg.norm(s) for e, s in zip(made, exact, strict=True)]
                share = max(abs(e.conservation.error) / e.conservation.tolerance for e in made)
                rows.append({"model": name, "method": method, "dtype": str(dtype).removeprefix("torch."),
                             "gap": float(np.median(gaps)), "receipt": float(share)})  # fmt: skip
                print(rows[-1], flush=True)
    return rows


def _precision_lines(found: dict[str, Any]) -> list[str]:
    kinds = ("float32", "float16", "bfloat16")
    cell = {(r["model"], r["method"], r["dtype"]): r for r in found["rows"]}
    lines = [
        "## Precision",
        "",
        f"BERT and Llama of 12 blocks, hidden size 256, random weights, 16 × 64 tokens ({found['device']}): the "
        "distance of scores from those of the same model in float64, over their size, the median of 16 inputs; in "
        "brackets the largest error of a receipt over its tolerance.",
        "",
        _line(["model", "method", *kinds]),
        _line(["---", "---", *["---:"] * 3]),
    ]
    for model, method in dict.fromkeys((r["model"], r["method"]) for r in found["rows"]):
        cells = (cell[model, method, kind] for kind in kinds)
        lines.append(_line([model, f"`{method}`", *(f"{r['gap']:.1e} ({r['receipt']:.2f})" for r in cells)]))
    return [*lines, ""]


def _clean() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _milliseconds(work: Callable[[], object]) -> float:
    """On the clock of the host, to the end of what it started: what a user waits for."""
    begin = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000


def page(found: dict[str, Any]) -> str:
    lines = [
        "# On a GPU",
        "",
        "Written by `python -m benchmarks.gpu --json FILE`, then `python -m benchmarks.gpu --from FILE … --write "
        "docs/benchmarks_gpu.md`.",
        "",
        f"- {found['device']}, torch {found['torch']}, transformers {found['transformers']}, bfloat16, SDPA",
        '- through `whence.explain`, `memory="auto"`; random weights; batch × tokens without padding',
        "- a cell: milliseconds, in brackets over a plain forward pass in the same run; GiB at the peak over the model "
        "(recorded passes hold their own memory, at most a tenth of the GPU's)",
        *(f"- {note}" for note in found.get("notes", ())),
        "",
    ]
    for group in dict.fromkeys(row["group"] for row in found["rows"]):
        rows = [row for row in found["rows"] if row["group"] == group]
        shapes = list(dict.fromkeys(row["shape"] for row in rows))
        cell = {(row["method"], row["shape"]): row for row in rows}
        lines += [f"## {rows[0]['model']}{': attention methods' if group == 'attention' else ''}", ""]
        lines += [_line(["method", *shapes]), _line(["---", *["---:"] * len(shapes)])]
        for method in dict.fromkeys(row["method"] for row in rows):
            lines.append(_line([f"`{method}`", *(_cell(cell.get((method, shape))) for shape in shapes)]))
        lines.append("")
    lines += gpu_runs.lines(found["run"]) if "run" in found else []
    lines += _profile_lines(found["profile"]) if "profile" in found else []
    lines += _precision_lines(found["precision"]) if "precision" in found else []
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None or "error" in row:
        return "–" if row is None else row["error"]
    ratio = f" ({row['ratio']:.2f})" if "ratio" in row else ""
    return f"{row['ms']:,.0f} ms{ratio}, {row['gib']:.1f} GiB"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
