"""Build a tiny random specimen of any architecture of the `transformers` auto mappings.

`python -m zoo.build [task or model type ...]` builds and runs the architectures and prints one line for each.
"""

import inspect
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.utils import logging

from zoo.configs import FIRST_PLAIN_TOKEN, SEQUENCE_LENGTH, VOCAB, tiny_config, walk

TASKS = {
    "causal-lm": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "image-classification": modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
    "seq2seq-lm": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "sequence-classification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
}

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


class CannotBuild(Exception):
    """An architecture cannot be built; the message is the reason."""


@dataclass(frozen=True)
class Specimen:
    """A tiny random model in eval mode, with a batch of two different examples of the same length."""

    task: str
    model_type: str
    model: torch.nn.Module
    inputs: dict[str, torch.Tensor]


def architectures() -> list[tuple[str, str]]:
    """Every (task, model type) of the four auto mappings, sorted."""
    return sorted((task, name) for task, names in TASKS.items() for name in names)


def build(task: str, model_type: str, *, seed: int = 0) -> Specimen:
    """Build one specimen, or raise `CannotBuild` with the reason."""
    if model_type in CANNOT:
        raise CannotBuild(CANNOT[model_type])
    try:
        model = random_model(task, model_type, seed)
        if task == "image-classification":
            calibrate_batch_norms(model, seed)
        return Specimen(task, model_type, model, make_inputs(task, model, seed))
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise CannotBuild(f"{type(error).__name__}: {' '.join(lines)[:300]}") from error


def random_model(task: str, model_type: str, seed: int) -> torch.nn.Module:
    """The model of a tiny configuration, every parameter random."""
    class_name = TASKS[task][model_type]
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
def calibrate_batch_norms(model: torch.nn.Module, seed: int) -> None:
    """Set the running statistics of batch norms from random images; deep networks die out or blow up without."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    generator = torch.Generator().manual_seed(seed + 2)
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    model(torch.cat([random_images(model, generator) for _ in range(8)]))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval()
        norm.momentum = momentum


def make_inputs(task: str, model: torch.nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Two different examples of the same length, with what the forward of the model takes."""
    generator = torch.Generator().manual_seed(seed + 1)
    accepted = inspect.signature(model.forward).parameters
    special = SPECIAL_INPUTS.get(model.config.model_type)
    main = model.main_input_name if model.main_input_name in accepted else "input_ids"
    if task == "image-classification" and main != "input_ids":  # ImageGPT reads an image as a sequence of tokens
        return special(model, generator) if special else {main: random_images(model, generator)}
    inputs = {main: random_tokens(generator)}
    if "attention_mask" in accepted:
        inputs["attention_mask"] = torch.ones_like(inputs[main])
    if task == "seq2seq-lm" and "decoder_input_ids" in accepted:
        inputs["decoder_input_ids"] = random_tokens(generator)
    if "bbox" in accepted:
        corners = torch.randint(0, 60, (2, SEQUENCE_LENGTH, 2), generator=generator)
        inputs["bbox"] = torch.cat([corners, corners + 20], dim=-1)
    return inputs | (special(model, generator) if special else {})


def siglip2_inputs(model: torch.nn.Module, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Images as sequences of flat patches."""
    config = model.config.vision_config
    patches = torch.randn(2, config.num_patches, config.num_channels * config.patch_size**2, generator=generator)
    side = round(config.num_patches**0.5)
    return {
        "pixel_values": patches,
        "pixel_attention_mask": torch.ones(2, config.num_patches, dtype=torch.long),
        "spatial_shapes": torch.full((2, 2), side),
    }


def shieldgemma2_inputs(model: torch.nn.Module, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """An image, and a prompt that begins with the places of the image's tokens."""
    ids = random_tokens(generator)
    image_places = torch.arange(SEQUENCE_LENGTH) < model.config.mm_tokens_per_image
    ids[:, image_places] = model.config.image_token_index
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": image_places.long().repeat(2, 1),
        "pixel_values": random_images(model, generator),
    }


def voxtral_realtime_inputs(model: torch.nn.Module, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Speech, of which eight frames go with each token."""
    frames = SEQUENCE_LENGTH * model.config.audio_length_per_tok
    return {"input_features": torch.randn(2, model.config.audio_config.num_mel_bins, frames, generator=generator)}


SPECIAL_INPUTS = {
    "shieldgemma2": shieldgemma2_inputs,
    "siglip2": siglip2_inputs,
    "voxtral_realtime": voxtral_realtime_inputs,
}


def random_tokens(generator: torch.Generator) -> torch.Tensor:
    """Token ids of two sentences that end with the end-of-sequence token (some classifiers pool there)."""
    ids = torch.randint(FIRST_PLAIN_TOKEN, VOCAB, (2, SEQUENCE_LENGTH), generator=generator)
    ids[:, -1] = 2
    return ids


def random_images(model: torch.nn.Module, generator: torch.Generator) -> torch.Tensor:
    """Two images of the size the model expects."""
    config = getattr(model.config, "vision_config", model.config)
    size = getattr(config, "image_size", None) or 32
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return torch.randn(2, getattr(config, "num_channels", 3), height, width, generator=generator)


@torch.no_grad()
def check(specimen: Specimen) -> list[str]:
    """Run a specimen; raise where its logits are no good, return remarks on what is unusual."""
    model, inputs = specimen.model, specimen.inputs
    logits = model(**inputs).logits
    if logits.shape[0] != 2 or not logits.is_floating_point() or not logits.isfinite().all():
        raise CannotBuild(f"bad logits: {tuple(logits.shape)} {logits.dtype}, finite {bool(logits.isfinite().all())}")
    remarks = []
    if logits.std() < 1e-3 or logits.abs().max() > 1e3:
        remarks.append(f"logits of scale {logits.std():.2g}")
    if (logits[0] - logits[1]).abs().max() < 1e-2 * logits.abs().max():
        remarks.append("both examples have nearly the same logits")
    if not torch.equal(model(**inputs).logits, logits):
        remarks.append("not deterministic")
    if not sees_everything(specimen):
        remarks.append("blind to an input that should matter")
    alone = [model(**{name: value[i : i + 1] for name, value in inputs.items()}).logits for i in range(2)]
    if not torch.allclose(torch.cat(alone), logits, rtol=0, atol=1e-4 * float(logits.abs().max())):
        remarks.append("examples of a batch depend on each other")
    return remarks


def sees_everything(specimen: Specimen) -> bool:
    """Whether the prediction, that of the last position for a language model, changes with an early input."""
    name = next(iter(specimen.inputs))
    changed = specimen.inputs[name].clone()
    if changed.is_floating_point():
        changed[..., 5] += 1.0
    else:
        changed[:, 5] = FIRST_PLAIN_TOKEN
    before = specimen.model(**specimen.inputs).logits
    after = specimen.model(**(specimen.inputs | {name: changed})).logits
    return not torch.allclose(before[:, -1], after[:, -1], rtol=0, atol=1e-6 * float(before.abs().max()))


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
            remarks = "; ".join(check(specimen))
            size = sum(p.numel() for p in specimen.model.parameters())
            outcome = f"ok {time.perf_counter() - start:6.2f} s {size:9,} parameters  {remarks}"
            good = True
        except Exception as error:
            outcome, good = f"-- {type(error).__name__}: {str(error)[:400]}", False
        counts[task, good] += 1
        print(f"{task:24}{model_type:26}{outcome}", flush=True)
    for task in TASKS:
        print(f"{task}: {counts[task, True]} of {counts[task, True] + counts[task, False]} build and run")


if __name__ == "__main__":
    main(sys.argv[1:])
