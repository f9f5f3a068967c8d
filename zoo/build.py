"""Build a tiny random specimen of any architecture of the `transformers` auto mappings.

`python -m zoo.build [task or model type ...]` builds and runs the architectures and prints one line for each.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers.utils import logging

from zoo.configs import FIRST_PLAIN_TOKEN, tiny_config, walk
from zoo.inputs import Inputs, Maker, makers
from zoo.tasks import TASKS

# Families that cannot be built, and why.
CANNOT: dict[str, str] = {
    "dinat": "needs the package natten",
    "gemma3n": "needs the package timm for its vision tower",
    "gemma4_assistant": "a drafting head: it reads the key-value states of another model, not tokens",
    "gemma4_unified_assistant": "a drafting head: it reads the key-value states of another model, not tokens",
    "layoutlmv2": "needs the package detectron2",
    "pp_lcnet": "its output has no logits (the class scores are called last_hidden_state)",
    "timm_wrapper": "needs the package timm",
}


# The same of one task alone.
CANNOT_FOR: dict[tuple[str, str], str] = {
    ("image-text-to-text", "chameleon"): "it reads pictures as tokens that it looks up in a codebook, not as numbers",
    ("image-text-to-text", "diffusion_gemma"): "its pictures come with the place of every patch",
    ("image-text-to-text", "emu3"): "it reads pictures as tokens that it looks up in a codebook, not as numbers",
    ("image-text-to-text", "evolla"): "it reads proteins, not pictures",
    ("image-text-to-text", "fast_vlm"): "needs the package timm for its vision tower",
    ("image-text-to-text", "gemma4"): "its default configuration has no vision tower",
    ("image-text-to-text", "gemma4_unified"): "its default configuration has no vision tower",
    ("image-text-to-text", "granite4_vision"): "its default configuration does not say which layers go where",
    ("image-text-to-text", "inkling_mm_model"): "its pictures come in blocks of time and space of a size of its own",
    ("image-text-to-text", "minicpm_ocr"): "its pictures come packed in one strip, for the whole batch",
    ("image-text-to-text", "minicpmv4_6"): "its pictures come packed in one strip, for the whole batch",
    ("image-text-to-text", "minicpmv4_7"): "its pictures come packed in one strip, for the whole batch",
    ("image-text-to-text", "molmo2"): "its pictures come with a table of which patches each token pools",
    ("image-text-to-text", "muse_spark"): "its vision tower has a size of its own for each layer",
    ("image-text-to-text", "mistral4"): "the class of the mapping reads text alone",
    ("image-text-to-text", "perception_lm"): "needs the package timm for its vision tower",
    ("image-text-to-text", "pi0"): "it moves a robot and writes no text",
    ("object-detection", "pp_ocrv5_server_det"): "its default configuration leaves out the sizes of its neck",
    ("object-detection", "pp_ocrv6_medium_det"): "its default configuration leaves out the sizes of its neck",
    ("object-detection", "pp_ocrv6_small_det"): "the strides of its default backbone do not fit its neck",
    ("semantic-segmentation", "sapiens2"): "its default configuration leaves out the sizes of its head",
    ("speech-seq2seq", "kyutai_speech_to_text"): "it reads sound as tokens of a codec, 32 at each place",
    ("speech-seq2seq", "dia"): "it writes sound, and reads text",
    ("speech-seq2seq", "vibevoice"): "it writes sound, and reads text",
    ("universal-segmentation", "videomt"): "its outputs have a row for each frame of all films, none for a film",
    ("visual-question-answering", "blip"): "its forward pass gives no logits, only a loss",
    ("zero-shot-object-detection", "omdet-turbo"): "it takes the classes of all pictures in one list",
}


class CannotBuild(Exception):
    """An architecture cannot be built; the message is the reason."""


@dataclass(frozen=True)
class Specimen:
    """A tiny random model in eval mode, with a batch of two different examples of the same length."""

    task: str
    model_type: str
    model: torch.nn.Module
    inputs: Inputs
    """The examples first."""
    flat: frozenset[str] = frozenset()
    """Inputs that the model takes with the examples end to end: patches of all pictures in one line."""

    def given(self, inputs: Inputs) -> Inputs:
        """Inputs as the model takes them."""
        return {name: value.flatten(0, 1) if name in self.flat else value for name, value in inputs.items()}

    def forward(self, inputs: Inputs) -> Any:
        return self.model(**self.given(inputs))

    def scores(self, outputs: Any, padding: int = 0) -> torch.Tensor:
        """(example, score): one of these is explained."""
        return TASKS[self.task].scores(outputs, padding)


def architectures() -> list[tuple[str, str]]:
    """Every (task, model type) of the auto mappings, task by task."""
    return [(task, name) for task, about in TASKS.items() for name in sorted(about.classes)]


def build(task: str, model_type: str, *, seed: int = 0) -> Specimen:
    """Build one specimen, or raise `CannotBuild` with the reason."""
    if model_type in CANNOT:
        raise CannotBuild(CANNOT[model_type])
    if (task, model_type) in CANNOT_FOR:
        raise CannotBuild(CANNOT_FOR[task, model_type])
    try:
        model = random_model(task, model_type, seed)
        refusals = []
        for maker in makers(task, model):
            try:
                return specimen_by(maker, task, model_type, model, seed)
            except Exception as error:
                refusals.append(error)
        raise refusals[0]
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise CannotBuild(f"{type(error).__name__}: {' '.join(lines)[:300]}") from error


def specimen_by(maker: Maker, task: str, model_type: str, model: torch.nn.Module, seed: int) -> Specimen:
    """The specimen with inputs of one maker, which the model must take."""
    calibrate_batch_norms(model, maker, seed)
    specimen = Specimen(task, model_type, model, *maker(model, torch.Generator().manual_seed(seed + 1)))
    with torch.no_grad():
        scores = specimen.scores(specimen.forward(specimen.inputs))
        if scores.dim() != 2 or scores.shape[0] != 2 or not scores.isfinite().all():
            raise CannotBuild(f"its scores for two examples are {tuple(scores.shape)} numbers, or not finite")
        specimen.forward({name: value[:1] for name, value in specimen.inputs.items()})
        unread = [n for n, v in specimen.inputs.items() if v.is_floating_point() and not sees(specimen, n, v, scores)]
    if unread:
        raise CannotBuild(f"it takes {', '.join(unread)} and does not read it")
    return specimen


def random_model(task: str, model_type: str, seed: int) -> torch.nn.Module:
    """The model of a tiny configuration, every parameter random."""
    class_name = TASKS[task].classes[model_type]
    model_class = getattr(transformers, class_name if isinstance(class_name, str) else class_name[0])
    # The model of a composite family may take one part of the configuration only, such as the decoder's.
    parts = list(walk(tiny_config(task, model_type)))
    config = next((part for part in parts if isinstance(part, model_class.config_class)), parts[0])
    with torch.random.fork_rng(devices=[]), uninitialised_memory_reads_nan():
        torch.manual_seed(seed)
        model = model_class._from_config(config)
    model = model.float().eval()
    randomize(model, seed)
    return model


@contextmanager
def uninitialised_memory_reads_nan() -> Iterator[None]:
    """Within the context `torch.empty` gives NaN instead of whatever was in memory, so that it can be recognised."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@torch.no_grad()
def randomize(model: torch.nn.Module, seed: int) -> None:
    """Draw every parameter at random, at a scale that keeps activations of order one."""
    generator = torch.Generator().manual_seed(seed)
    done: set[int] = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in done or not parameter.is_floating_point():
                continue
            done.add(id(parameter))
            noise = torch.randn(parameter.shape, generator=generator)
            if isinstance(module, torch.nn.Linear) and name == "weight":
                parameter.copy_(noise * module.in_features**-0.5)
            elif isinstance(module, torch.nn.modules.conv._ConvNd) and name == "weight":
                # Convolutional networks are deep and rectified: each layer would halve the variance without the 2.
                parameter.copy_(noise * (2 / parameter[0].numel()) ** 0.5)
            elif isinstance(module, torch.nn.Embedding):
                parameter.copy_(noise * 0.25)
            else:
                # Norm weights, decay rates, layer scales and the like mean something where they were initialised.
                parameter.copy_(parameter.nan_to_num(0.0) + noise * (0.1 if parameter.dim() < 2 else 0.18))
    for buffer in model.buffers():
        if buffer.is_floating_point() and buffer.isnan().any():
            buffer.nan_to_num_(0.0)


@torch.no_grad()
def calibrate_batch_norms(model: torch.nn.Module, maker: Maker, seed: int) -> None:
    """Set the running statistics of batch norms from random inputs; deep networks die out or blow up without."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    generator = torch.Generator().manual_seed(seed + 2)
    momenta = [norm.momentum for norm in norms]
    drawn, flat = zip(*(maker(model, generator) for _ in range(8)), strict=True)
    inputs = {name: torch.cat([one[name] for one in drawn]) for name in drawn[0]}
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    try:
        model(**{name: value.flatten(0, 1) if name in flat[0] else value for name, value in inputs.items()})
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.eval()
            norm.momentum = momentum


@torch.no_grad()
def remarks_on(specimen: Specimen) -> list[str]:
    """What is unusual about the scores of a specimen."""
    scores = specimen.scores(specimen.forward(specimen.inputs))
    remarks = []
    if scores.abs().max() < 1e-3 or scores.abs().max() > 1e3:
        remarks.append(f"scores up to {scores.abs().max():.2g}")
    if (scores[0] - scores[1]).abs().max() < 1e-2 * scores.abs().max():
        remarks.append("both examples have nearly the same scores")
    if not torch.equal(specimen.scores(specimen.forward(specimen.inputs)), scores):
        remarks.append("not deterministic")
    blind = [name for name, value in specimen.inputs.items() if not sees(specimen, name, value, scores)]
    if blind:
        remarks.append(f"blind to {', '.join(blind)}")
    alone = [{name: value[i : i + 1] for name, value in specimen.inputs.items()} for i in range(2)]
    apart = torch.cat([specimen.scores(specimen.forward(one)) for one in alone])
    if not torch.allclose(apart, scores, rtol=0, atol=1e-4 * float(scores.abs().max())):
        remarks.append("examples of a batch depend on each other")
    return remarks


def sees(specimen: Specimen, name: str, value: torch.Tensor, before: torch.Tensor) -> bool:
    """Whether the scores change with an input; what only says how to read others is left alone."""
    changed = value.clone()
    if value.is_floating_point():
        changed = value * torch.linspace(0.5, 1.5, value.numel()).reshape(value.shape)
    elif name.endswith(("input_ids", "inputs")):
        changed[..., 1] = FIRST_PLAIN_TOKEN
    else:
        return True
    after = specimen.scores(specimen.forward(specimen.inputs | {name: changed}))
    return not torch.allclose(before, after, rtol=0, atol=1e-6 * float(before.abs().max()))


def main(wanted: list[str]) -> None:
    """Print one line per architecture and the counts per task."""
    logging.set_verbosity_error()
    counts: Counter[tuple[str, bool]] = Counter()
    for task, model_type in architectures():
        if wanted and model_type not in wanted and task not in wanted:
            continue
        start = time.perf_counter()
        try:
            specimen = build(task, model_type)
            remarks = "; ".join(remarks_on(specimen))
            size = sum(p.numel() for p in specimen.model.parameters())
            outcome = f"ok {time.perf_counter() - start:6.2f} s {size:9,} parameters  {remarks}"
            good = True
        except Exception as error:
            outcome, good = f"-- {type(error).__name__}: {str(error)[:400]}", False
        counts[task, good] += 1
        print(f"{task:32}{model_type:28}{outcome}", flush=True)
    for task in TASKS:
        print(f"{task}: {counts[task, True]} of {counts[task, True] + counts[task, False]} build and run")


if __name__ == "__main__":
    main(sys.argv[1:])
