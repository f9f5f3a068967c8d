"""Other libraries on the same inputs and the same score: `PYTHON -m benchmarks.peers --json FILE`.

Runs in an environment that has them beside whence. What can't be imported or fails is reported with its error.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import logging
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.methods import by_hand, frozen, plain_forward, relevance
from benchmarks.timing import alternated, use_clock
from benchmarks.workloads import SHAPES, Workload, workload

__all__ = ["PEERS", "Peer", "main"]

STEPS = 20
"""Steps of integrated gradients."""


@dataclass(frozen=True)
class Peer:
    """A method of another library."""

    package: str
    method: str
    families: tuple[str, ...]
    prepare: Callable[[Workload], Callable[[], Tensor]]
    same_as: str | None = "gi"
    """The preset of whence that computes the same relevance."""
    slow: bool = False
    """Many passes by design: timed for information, once, on the first shape only."""
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.package}: {self.method}"


# -- captum ------------------------------------------------------------------------------------------------------


def _scores_of_embeddings(work: Workload) -> Callable[[Tensor], Tensor]:
    rest = {k: v for k, v in work.inputs.items() if k != "input_ids"}
    return lambda x: work.target(work.forward({"inputs_embeds": x, **rest}))


def _scores_of_ids(work: Workload) -> Callable[[Tensor], Tensor]:
    def scores(ids: Tensor) -> Tensor:
        return work.target(work.forward({"input_ids": ids, "attention_mask": torch.ones_like(ids)}))

    return scores


def _captum_input(work: Workload) -> Callable[[], Tensor]:
    from captum.attr import InputXGradient

    method = InputXGradient(_scores_of_embeddings(work))
    return lambda: method.attribute(work.embedded()["inputs_embeds"].requires_grad_()).sum(-1)


def _captum_layer(work: Workload) -> Callable[[], Tensor]:
    from captum.attr import LayerGradientXActivation

    method = LayerGradientXActivation(_scores_of_ids(work), work.embedding)
    return lambda: method.attribute(work.inputs["input_ids"]).sum(-1)


def _captum_integrated(work: Workload) -> Callable[[], Tensor]:
    from captum.attr import LayerIntegratedGradients

    method = LayerIntegratedGradients(_scores_of_ids(work), work.embedding)
    ids = work.inputs["input_ids"]
    options = {"n_steps": STEPS, "internal_batch_size": ids.shape[0]}
    return lambda: method.attribute(ids, torch.zeros_like(ids), **options).sum(-1)


# -- LXT ---------------------------------------------------------------------------------------------------------


def _lxt(work: Workload) -> Callable[[], Tensor]:
    """As its documentation shows: patched classes, frozen weights, x · x.grad."""

    def run() -> Tensor:
        with patched_by_lxt(), frozen(work.module):
            inputs = work.embedded()
            x = inputs["inputs_embeds"].requires_grad_()
            work.target(work.forward(inputs)).sum().backward()
            return (x.detach() * x.grad).sum(-1)

    return run


@cache
def _lxt_patches() -> Any:
    """LXT's table for Llama.

    Importing `lxt.efficient` loads all its model files, also those that do not load with this transformers. Then
    the package is entered without its `__init__`, and the one file that is needed is loaded unchanged.
    """
    try:
        return importlib.import_module("lxt.efficient").models.llama
    except ImportError:
        root = Path(importlib.import_module("lxt").__file__).parent / "efficient"
        for name, folder in (("lxt.efficient", root), ("lxt.efficient.models", root / "models")):
            package = types.ModuleType(name)
            package.__path__ = [str(folder)]
            sys.modules[name] = package
        return importlib.import_module("lxt.efficient.models.llama")


class _Interfaces(dict):
    """LXT puts a plain dict where transformers now asks for `get_interface`."""

    def get_interface(self, name: str, default: Any) -> Any:
        return self.get(name, default)


@contextmanager
def patched_by_lxt() -> Iterator[None]:
    """LXT's patches, taken back afterwards: they change classes that other methods use."""
    llama = _lxt_patches()
    module = llama.modeling_llama
    classes = [target for target in llama.attnLRP if isinstance(target, type)]
    forwards = [target.forward for target in classes]
    attention = module.eager_attention_forward, module.ALL_ATTENTION_FUNCTIONS
    try:
        for target, patch in llama.attnLRP.items():
            patch(target)
        module.ALL_ATTENTION_FUNCTIONS = _Interfaces(module.ALL_ATTENTION_FUNCTIONS)
        yield
    finally:
        for target, forward in zip(classes, forwards, strict=True):
            target.forward = forward
        module.eager_attention_forward, module.ALL_ATTENTION_FUNCTIONS = attention


# -- libraries that take text: words are spelled w<id>, so that they meet the same ids -----------------------------


@cache
def _tokenizer(vocabulary: int) -> Any:
    """A tokenizer made in memory whose word `w<id>` is the token `id`."""
    import tokenizers
    import transformers

    words = {f"w{i}": i for i in range(10, vocabulary)} | {f"[{name}]": i for i, name in enumerate(_SPECIAL)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    special = {f"{name.lower()}_token": f"[{name}]" for name in _SPECIAL}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **special)


_SPECIAL = ("PAD", "BOS", "EOS", "UNK", "CLS", "SEP", "MASK")


def _texts(work: Workload) -> list[str]:
    return [" ".join(f"w{i}" for i in row) for row in work.inputs["input_ids"].tolist()]


def _transformers_interpret(work: Workload) -> Callable[[], Tensor]:
    from transformers_interpret import SequenceClassificationExplainer

    method = SequenceClassificationExplainer(work.module, _tokenizer(work.module.config.vocab_size))
    texts = _texts(work)

    def run() -> Tensor:
        rows = [method(text, index=work.label, n_steps=STEPS, internal_batch_size=len(texts)) for text in texts]
        return torch.tensor([[score for _, score in row] for row in rows])

    return run


def _interpreto(work: Workload) -> Callable[[], Tensor]:
    from interpreto import Granularity, Saliency

    batch, _ = work.inputs["input_ids"].shape
    tokenizer = _tokenizer(work.module.config.vocab_size)
    # A batch would go through the backward pass as a whole for each of its texts: 1 is the fastest setting.
    method = Saliency(work.module, tokenizer, batch_size=1, granularity=Granularity.ALL_TOKENS)
    texts = _texts(work)
    targets: Any = torch.full((batch,), work.label) if work.family == "bert" else [f"w{work.label}"] * batch

    def run() -> Tensor:
        rows = method.explain(texts, targets)
        return torch.stack([row.attributions.reshape(row.attributions.shape[0], -1)[0] for row in rows])

    return run


def _inseq(work: Workload) -> Callable[[], Tensor]:
    import inseq

    method = inseq.load_model(work.module, "input_x_gradient", tokenizer=_tokenizer(work.module.config.vocab_size))
    texts = _texts(work)
    batch, length = work.inputs["input_ids"].shape
    continued = [f"{text} w{work.label}" for text in texts]

    def run() -> Tensor:
        options = {"attributed_fn": "logit", "show_progress": False, "batch_size": batch}
        out = method.attribute(texts, continued, **options)
        return torch.stack([row.target_attributions[:length, 0].sum(-1) for row in out.sequence_attributions])

    return run


PEERS = (
    Peer("captum", "InputXGradient", ("bert", "llama"), _captum_input),
    Peer("captum", "LayerGradientXActivation", ("bert", "llama"), _captum_layer),
    Peer(
        "captum", f"LayerIntegratedGradients, {STEPS} steps", ("bert", "llama"), _captum_integrated, None, slow=True,
        note="another method, many passes by design",
    ),
    Peer(
        "lxt", "AttnLRP, efficient", ("llama",), _lxt, "attn_lrp",
        note="`get_interface` added to its table of attention functions, which transformers asks for",
    ),
    Peer(
        "transformers-interpret", f"SequenceClassificationExplainer, {STEPS} steps", ("bert",),
        _transformers_interpret, None, slow=True, note="integrated gradients, one text at a time",
    ),
    Peer(
        "interpreto", "Saliency (input × gradient)", ("bert", "llama"), _interpreto, None,
        note="mean absolute value over channels, one text at a time",
    ),
    Peer("inseq", "input_x_gradient", ("llama",), _inseq, note="one text at a time"),
)  # fmt: skip


# -- running -----------------------------------------------------------------------------------------------------


def measured(work: Workload, peers: list[Peer], rounds: int) -> dict[str, Any]:
    """Ratios for what runs, reasons for what does not, and how far results are from whence's own."""
    ready: dict[str, Callable[[], Tensor]] = {}
    failed: dict[str, str] = {}
    distance: dict[str, float] = {}
    for peer in peers:
        try:
            method = peer.prepare(work)
            found = method()
        except Exception as error:  # whatever a library raises is its reason
            failed[peer.name] = one_line(error)
            continue
        ready[peer.name] = method
        if peer.same_as is not None:
            distance[peer.name] = _distance(found, relevance(work, peer.same_as, "short"))
    unit = partial(plain_forward, work)
    slow = {peer.name for peer in peers if peer.slow}
    quick = {name: method for name, method in ready.items() if name not in slow}
    own = {
        "Gradient×Input by hand": partial(by_hand, work),
        "whence gi, short": partial(relevance, work, "gi", "short"),
        "whence attn_lrp, short": partial(relevance, work, "attn_lrp", "short"),
    }
    series = alternated(unit, {**own, **quick}, rounds)
    once = {name: method for name, method in ready.items() if name in slow}
    series |= alternated(unit, once, 1, warm=False) if once else {}
    return {"series": {k: asdict(v) for k, v in series.items()}, "failed": failed, "distance": distance}


def _distance(found: Tensor, expected: Tensor) -> float:
    """Largest difference over the largest value; infinite where shapes differ."""
    if found.shape != expected.shape:
        return float("inf")
    return float((found - expected).abs().max() / expected.abs().max())


def one_line(error: BaseException) -> str:
    """The error's type and first line, without places on this machine."""
    message = (str(error).strip().splitlines() or [""])[0].split(" (/")[0]
    return f"{type(error).__name__}: {message}"[:240]


def imported(package: str) -> str | None:
    """Why a package can't be imported as it is, if so."""
    name = {"lxt": "lxt.efficient", "captum": "captum.attr"}.get(package, package.replace("-", "_"))
    try:
        importlib.import_module(name)
    except Exception as error:  # whatever a library raises is its reason
        return one_line(error)
    return None


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description="Time other libraries beside whence.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    use_clock(options.clock)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    packages = list(dict.fromkeys(peer.package for peer in PEERS))
    result: dict[str, Any] = {
        "versions": {package: version(package) for package in packages},
        "notes": {peer.name: peer.note for peer in PEERS if peer.note},
        "import": {package: reason for package in packages if (reason := imported(package))},
        "workloads": {},
    }
    for family in ("bert", "llama"):
        for shape in SHAPES:
            work = workload(family, *shape, layers=options.layers)
            peers = [p for p in PEERS if family in p.families and (shape == SHAPES[0] or not p.slow)]
            result["workloads"][work.name] = measured(work, peers, options.rounds)
            options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
