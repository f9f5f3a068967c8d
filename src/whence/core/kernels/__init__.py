"""What a backward pass spends its time in, written for it.

attention_map    P = softmax(q kᵀ · scale + mask) of a fused call, which is never written down: what it gives, and its
                 transpose times anything, in torch
layer_map        rows and columns of such maps, for methods that read attention
constant_map     fused attention whose backward pass is that product and nothing else
kept_attention   fused attention that is not computed again where its block is
triton_map       transposes, rows and columns as Triton kernels, for GPUs
triton_gate      the gradients of activations and of gated products, in one pass
triton_norm      the gradient of a layer norm, in one pass
triton_chain     the gradients of norms and rotations that are spelled out, in one pass
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

__all__ = ["triton_kernels"]


@cache
def triton_kernels(module: str) -> Any:
    """One of the modules for GPUs, where Triton is installed. It takes a second to import, and nobody else needs it."""
    found = importlib.util.find_spec("triton") is not None
    return importlib.import_module(f"{__name__}.{module}") if found else None
