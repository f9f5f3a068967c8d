"""Tokens in a batch, found by measuring: grow until memory is used up or throughput stops improving."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from whence.methods.explaining import explain_examples
from whence.methods.method import AbstractMethod
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.playing import may_play

__all__ = ["Budget", "grown", "probe"]

CPU = (512, 4096)
CUDA = (4096, 1 << 20)
RECORDED = (8192, 16384)
"""First and last budget that is tried; of passes that are recorded, small ones are not worth a try."""
RUNS = 4
"""Runs after which a pass is recorded and was played once."""
GAIN = 1.05
"""Twice the tokens must be at least this much faster to be worth their memory."""
PATIENCE = 4.0
"""Seconds after which a larger batch is not tried: losing it would cost too much."""
SHARE = 0.7
"""Part of a device's memory that a batch may use; the rest is for longer rows than those of the sample."""


class Budget(NamedTuple):
    """What was found."""

    tokens: int
    tokens_per_second: float


def probe(adapter: AbstractAdapter, method: AbstractMethod, examples: Sequence[Example]) -> Budget:
    """The budget for rows like `examples`."""
    ordered = sorted(examples, key=lambda e: e.cost)
    typical, longest = ordered[len(ordered) // 2], ordered[-1]
    on_cuda = adapter.device.type == "cuda"
    targets = [adapter.default_target(typical)]
    recorded = may_play(adapter, [typical] * max(1, RECORDED[0] // typical.cost), targets)
    times = RUNS if recorded else 2

    def measure(tokens: int) -> float:
        """Tokens per second; 0 if they do not fit."""
        try:
            if on_cuda:
                torch.cuda.reset_peak_memory_stats(adapter.device)
                _seconds(adapter, method, longest, tokens, times)
                total = torch.cuda.get_device_properties(adapter.device).total_memory
                if torch.cuda.max_memory_allocated(adapter.device) > SHARE * total:
                    return 0.0
            count = max(1, tokens // typical.cost)
            return count * typical.cost / _seconds(adapter, method, typical, tokens, times)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return 0.0

    _seconds(adapter, method, typical, typical.cost, 1)  # the first call pays for what is set up once
    return grown(measure, *(RECORDED if recorded else CUDA if on_cuda else CPU))


def grown(measure: Callable[[int], float], first: int, last: int) -> Budget:
    """Double the budget as long as it pays.

    >>> grown(lambda tokens: min(tokens, 2000.0), 512, 8192)
    Budget(tokens=2048, tokens_per_second=2000.0)
    """
    best = Budget(first, max(measure(first), 1e-9))
    while best.tokens * 2 <= last and best.tokens / best.tokens_per_second < PATIENCE / 2:
        rate = measure(best.tokens * 2)
        if rate < best.tokens_per_second * GAIN:
            break
        best = Budget(best.tokens * 2, rate)
    return best


def _seconds(adapter: AbstractAdapter, method: AbstractMethod, example: Example, tokens: int, times: int) -> float:
    """The fastest of some runs of a batch of copies."""
    batch = [replace(example) for _ in range(max(1, tokens // example.cost))]  # one and the same would share a pass
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        goals = [adapter.default_target(example)] * len(batch)
        explain_examples(adapter, method, batch, goals, batch_tokens=max(tokens, example.cost))
        if adapter.device.type == "cuda":
            torch.cuda.synchronize(adapter.device)
        spent.append(time.perf_counter() - begin)
        if spent[-1] > PATIENCE:
            break
    return min(spent)
