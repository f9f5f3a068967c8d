"""What the tests say on a CPU, asked on a GPU: `make test-gpu`, without pytest, which such machines may not have;
`python -m tests.gpu vit kernels` for some of it, `python -m tests.gpu --device cpu vit` to try the script without one.

Every method × nine families × three precisions against the CPU in float32; kernels against the formula; blocks that run
again against those that are kept. Prints what disagrees, and ends with an error if anything does.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers

import whence
from tests.core.helpers import normal
from tests.core.kernels.cases import MASKS, SHAPES, operator, wanted, written_down
from whence.core.batch import Batch
from whence.core.kernels.kept_attention import kept_attention
from whence.core.kernels.layer_map import FusedMap, WrittenMap
from whence.core.propagation import propagate
from whence.core.recipe import recipes
from zoo.build import build

FAMILIES = {
    "vit": "image-classification",
    "swin": "image-classification",
    "t5": "seq2seq-lm",
    "bert": "sequence-classification",
    "modernbert": "sequence-classification",
    "llama": "causal-lm",
    "gpt2": "causal-lm",
    "gemma2": "causal-lm",
    "mixtral": "causal-lm",
}
NEAR = {torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.1}
"""Largest difference of scores over the largest score."""
ROUNDED = 4
"""Where a method rounds more than that, the CPU in the same precision says how much: a GPU, whose sums have another
order, may be so many times as far from float32. What is known to do so, on the CPU as well:

- `gi` and `ah` of ModernBERT, `attcat` of Gemma 2: their states are normalised next, so that gradient times input is 0
  by Euler's theorem, and what is left is how gradients were rounded (0.3 in bf16, 0.07 in fp16; noise of that size
  in the forward pass alone moves scores by 2e-4).
- `transformer_attribution` of ViT: it divides by sums that cancel (1.9 in bf16, where noise of that size in the forward
  pass of float32 gives 0.7 to 2.3).
"""
NOTHING = 0.01
"""Scores that cancel to less than this part of the target are noise."""
LONG = {"shap", "attention_flow"}
"""Methods of many passes or on the CPU alone: in float32 only."""


def compared(family: str, task: str, device: str) -> Iterator[str]:
    """Complaints about one family."""
    specimen = build(task, family)
    inputs = dict(specimen.inputs)
    moved = {k: v.to(device) for k, v in inputs.items()}
    for dtype, near in NEAR.items():
        rounded = copy.deepcopy(specimen.model).to(dtype)
        here, there = copy.deepcopy(rounded).float(), copy.deepcopy(rounded).to(device)  # the same rounded weights
        for name in whence.methods:
            if dtype != torch.float32 and name in LONG:
                continue
            try:
                reference = scores(here, inputs, name)
            except whence.WhenceError:
                continue
            try:
                found = scores(there, moved, name)
            except Exception as error:
                yield f"{family} {name} {dtype}: {type(error).__name__}: {str(error)[:200]}"
                continue
            gap, allowed = apart(found, reference), near
            if not gap <= near and dtype != torch.float32:
                allowed = max(near, ROUNDED * apart(scores(rounded, inputs, name), reference))
            if not gap <= allowed:
                yield f"{family} {name} {dtype}: scores differ by {gap:.1e}, {allowed:.1e} is allowed"


def scores(model: Any, inputs: dict[str, Any], name: str) -> list[whence.Explanation]:
    options = {"samples": 50} if name == "shap" else {}
    found: list[whence.Explanation] = whence.explain(
        model, inputs, name, lambda outputs: outputs.logits.flatten(1)[:, 1], **options
    )
    return found


def apart(found: list[whence.Explanation], reference: list[whence.Explanation]) -> float:
    """The largest difference of scores, over the largest score."""
    return max(
        float(np.abs(a.scores - b.scores).max() / max(np.abs(b.scores).max(), NOTHING * abs(b.target_score)))
        for a, b in zip(found, reference, strict=True)
    )


def kernels() -> Iterator[str]:
    for shape in SHAPES:
        for mask in MASKS:
            for dtype, near in ((torch.float32, 1e-4), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)):
                made = operator(shape, mask, dtype)
                there = replace(
                    made, q=made.q.cuda(), k=made.k.cuda(), mask=None if made.mask is None else made.mask.cuda()
                )
                x = normal(*made.q.shape[:3], made.q.shape[-1], seed=4, dtype=dtype)
                v = normal(*made.k.shape, seed=5, dtype=dtype)
                _, lse = there.attend(v.cuda())
                for one in (there, replace(there, lse=lse)):
                    right = wanted(made, x)
                    gap = float((one.transposed(x.cuda()).cpu().double() - right).abs().max() / right.abs().max())
                    if not gap <= near:
                        yield f"kernel {shape}, {mask}, {dtype}, lse {one.lse is not None}: {gap:.1e}"


def gates() -> Iterator[str]:
    """Gradients of gated products, in any precision, against the formula."""
    for name, options in (("silu", {}), ("gelu", {}), ("gelu", {"approximate": "tanh"})):
        for dtype, near in ((torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)):
            weights = normal(2, 40, 64, seed=1).cuda()
            x = normal(2, 9, 40, seed=2).cuda()
            act = partial(getattr(torch.nn.functional, name), **options)
            found = [
                propagate(
                    lambda inputs, w=w: (act(inputs["x"] @ w[0]) * (inputs["x"] @ w[1])).sum((1, 2)),
                    Batch.of({"x": x.to(w.dtype)}, "x"), target=lambda y: y, recipe=recipes["exact"], receipt="short",
                ).relevance["x"].double()
                for w in (weights.to(dtype), weights)
            ]  # fmt: skip
            gap = float((found[0] - found[1]).abs().max() / found[1].abs().max())
            if not gap <= near:
                yield f"gate {name} {options} {dtype}: {gap:.1e}"


def slopes_and_norms() -> Iterator[str]:
    """Gradients of an activation between two layer norms, in any precision, against the formula; odd numbers of rows
    and columns."""
    for width in (40, 768, 1000):
        for dtype, near in ((torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)):
            scales, shifts = (normal(2, width, seed=n).cuda() for n in (1, 2))
            x = normal(3, 7, width, seed=3).cuda()
            norm = torch.nn.functional.layer_norm
            found = [
                propagate(
                    lambda inputs, w=w, b=b: norm(
                        torch.nn.functional.gelu(norm(inputs["x"], (width,), w[0], b[0])), (width,), w[1], b[1]
                    ).square().sum((1, 2)),
                    Batch.of({"x": x.to(w.dtype)}, "x"), target=lambda y: y, recipe=recipes["exact"], receipt="short",
                ).relevance["x"].double()
                for w, b in ((scales.to(dtype), shifts.to(dtype)), (scales.double(), shifts.double()))
            ]  # fmt: skip
            gap = float((found[0] - found[1]).abs().max() / found[1].abs().max())
            if not gap <= near:
                yield f"slope and norm of {width}, {dtype}: {gap:.1e}"


def maps() -> Iterator[str]:
    """Sums over fused maps, and the gradient of attention that is kept, against the formula."""
    for shape in ("groups", "other keys"):
        for mask in MASKS:
            for dtype, near in ((torch.float32, 1e-4), (torch.bfloat16, 3e-2)):
                made = operator(shape, mask, dtype)
                values, grad = normal(*made.k.shape, seed=5, dtype=dtype), normal(*made.q.shape, seed=6, dtype=dtype)
                gradient = grad.double() @ values.double().repeat_interleave(made.group, 1).mT
                weights = normal(made.q.shape[0], made.q.shape[2], seed=7)
                right = WrittenMap(written_down(made), gradient)
                moved = replace(
                    made, q=made.q.cuda(), k=made.k.cuda(), mask=None if made.mask is None else made.mask.cuda()
                )
                fused = FusedMap(moved, values.cuda(), grad.cuda())
                pairs = {
                    "columns": (fused.columns(weights.cuda()), right.columns(weights)),
                    "helpful columns": (fused.helpful_columns(weights.cuda()), right.helpful_columns(weights)),
                    "helpful rows": (fused.helpful_rows(), right.helpful_rows()),
                    "row sums": (fused.row_sums, right.row_sums),
                }
                if mask in ("none", "causal", "added"):  # a query that may look nowhere has no gradient to compare
                    q, k, v = (t.detach().clone().requires_grad_() for t in (moved.q, moved.k, fused.values))
                    kept = kept_attention(replace(moved, q=q, k=k), v)
                    found = torch.autograd.grad(kept, (q, k, v), fused.out_gradient)
                    slow = [t.detach().cpu().double().requires_grad_() for t in (q, k, v)]
                    out = written_down(replace(made, q=slow[0], k=slow[1])) @ slow[2].repeat_interleave(made.group, 1)
                    asked = torch.autograd.grad(out, slow, grad.double())
                    pairs |= {f"gradient {n}": p for n, p in enumerate(zip(found, asked, strict=True))}
                for what, (one, other) in pairs.items():
                    gap = float((one.cpu().double() - other).abs().max() / other.abs().max())
                    if not gap <= near:
                        yield f"map {shape}, {mask}, {dtype}, {what}: {gap:.1e}"


def again() -> Iterator[str]:
    for family, task in FAMILIES.items():
        specimen = build(task, family)
        model = specimen.model.to("cuda", torch.float32)
        inputs = {k: v.to("cuda") for k, v in specimen.inputs.items()}
        target = lambda outputs: outputs.logits.flatten(1)[:, 1]
        for method in ("exact", "gi", "attn_lrp"):
            kept, run = (whence.explain(model, inputs, method, target, memory=m) for m in ("keep", "recompute"))
            gap = max(float(np.abs(a.scores - b.scores).max()) for a, b in zip(kept, run, strict=True))
            if not gap <= 1e-4 * max(1.0, *(float(np.abs(a.scores).max()) for a in kept)):
                yield f"{family} {method}: run again, scores differ by {gap:.1e}"


def recordings() -> Iterator[str]:
    for family, task in FAMILIES.items():
        specimen = build(task, family)
        for dtype in (torch.float32, torch.bfloat16):
            model = whence.load(copy.deepcopy(specimen.model).to("cuda", dtype))
            inputs = {k: v.to("cuda") for k, v in specimen.inputs.items()}
            for method in ("exact", "attn_lrp"):
                computed = whence.explain(model, inputs, method, 1, receipt="full")
                for _ in range(3):
                    played = whence.explain(model, inputs, method, 1, receipt="full")
                gap = max(float(np.abs(a.scores - b.scores).max()) for a, b in zip(played, computed, strict=True))
                if not gap <= NEAR[dtype] * max(float(np.abs(a.scores).max()) for a in computed):
                    yield f"{family} {method} {dtype}: played, scores differ by {gap:.1e}"
            made = [r for r in model.recordings._made.values() if r is not None]
            print(f"  {family} {dtype}: {len(made)} of 2 recorded")


def main() -> int:
    steps: dict[str, Any] = {
        **{family: partial(compared, family, task) for family, task in FAMILIES.items()},
        "kernels": kernels, "gates": gates, "slopes": slopes_and_norms, "maps": maps, "again": again,
        "recordings": recordings,
    }  # fmt: skip
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"some of {', '.join(steps)}; default: all")
    parser.add_argument("--device", default="cuda", help="of the families")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    count, begin = 0, time.perf_counter()
    for name in options.steps or steps:
        for complaint in steps[name](options.device) if name in FAMILIES else steps[name]():
            count += 1
            print(complaint, flush=True)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    print(f"{count} disagree" if count else "everything agrees")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
