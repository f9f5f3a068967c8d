"""Recipes between and beyond the presets, on prompts that the tables do not use: what the default was chosen from.

All measure as `recovery` does. What is tried: how much goes through q and k (`scores`) and through v (`values`), a
softmax of another temperature, other rules for activations, gates and norms, and LRP-γ.
"""

from __future__ import annotations

from benchmarks.language.recovery import CASES, OTHER, QUICK_CASES, measured, section

__all__ = ["METHODS", "NAMES", "QUICK_CASES", "QUICK_METHODS", "measured", "section"]

NAMES = tuple(f"{name}{OTHER}" for name in CASES)
BETWEEN = (
    "scores=0.05", "scores=0.1", "scores=0.5", "scores=1", "activation=gradient", "activation=gate", "product=detach",
    "activation=gradient product=detach", "scores=0.1 product=detach", "softmax=0.5", "softmax=1.5", "softmax=2",
    "softmax=2 scores=0.5", "norm=identity", "gamma=0.05",
)  # fmt: skip
METHODS = (
    "exact", "cp_lrp", "attn_lrp", "gim", "attn_lrp scores=0.1", "attn_lrp scores=0.5", "gim values=1",
    "exact gamma=0.05", "attn_lrp values=1", *(f"attn_lrp values=1 {change}" for change in BETWEEN),
)  # fmt: skip
QUICK_METHODS = ("exact", "attn_lrp values=1 scores=0.5")
