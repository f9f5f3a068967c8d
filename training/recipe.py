"""What both training recipes share: device, seeds, schedule, optimiser, and how a model is written to disk."""

import math
import platform
import random
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import PreTrainedModel

_START = time.perf_counter()


def say(message: str) -> None:
    """Print a progress line with the seconds since the start."""
    print(f"[{time.perf_counter() - _START:6.1f} s] {message}", flush=True)


class Clock:
    """How much of the time from now until `minutes` after the script's start has gone by."""

    def __init__(self, minutes: float) -> None:
        self._begin = time.perf_counter()
        self._length = max(1.0, _START + 60 * minutes - self._begin)

    def progress(self) -> float:
        """The share that has gone by; at 1 the training ends."""
        return (time.perf_counter() - self._begin) / self._length


def pick_device() -> torch.device:
    """Use the GPU where there is one."""
    torch.set_float32_matmul_precision("high")
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def half_precision(device: torch.device) -> torch.autocast:
    """bfloat16 arithmetic on a GPU, plain float32 on a CPU."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def seed_everything(seed: int) -> None:
    """Seed the three random number generators that the scripts draw from."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def warm_cosine(progress: float, warmup: float = 0.05) -> float:
    """Learning-rate factor at a progress in [0, 1]: a linear rise, then half a cosine down to zero."""
    if progress < warmup:
        return max(progress, 1e-3) / warmup
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - warmup) / (1 - warmup))))


def adamw(model: torch.nn.Module, lr: float, weight_decay: float) -> torch.optim.AdamW:
    """AdamW that decays matrices only: decaying biases, norms and gains gains nothing."""
    weights = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in weights if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), fused=weights[0].is_cuda)


def step(optimizer: torch.optim.Optimizer, model: torch.nn.Module, loss: torch.Tensor, lr: float) -> None:
    """One clipped optimisation step at the learning rate given."""
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def save_half(model: PreTrainedModel, folder: Path) -> int:
    """Write config.json and fp16 weights to `folder`; return the weight file's size in bytes.

    The config names float32: transformers then loads the weights as float32, which every method of
    attribution wants, although they are stored in half the space.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.dtype = "float32"
    model.config.save_pretrained(folder)
    weights = {name: tensor.detach().cpu().half().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return (folder / "model.safetensors").stat().st_size


def exact_float32() -> None:
    """Switch TF32 off, so that the final numbers are those of any other machine."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


def versions() -> str:
    """The versions that a model card names."""
    return f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
