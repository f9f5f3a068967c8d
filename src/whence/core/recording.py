"""A pass that is recorded once and played again, for batches so small that a GPU would wait for Python.

Forward and backward pass under a recipe are recorded as two CUDA graphs over buffers of fixed size. For every further
batch of that size the buffers are filled and the graphs launched, and no line of Python runs in the model. Between the
two, the model's outputs come home and the targets are chosen: a target is a weighted sum of outputs, and its weights
are where the backward pass begins. Where the choice can be guessed (a class, the prediction), the device does not wait
for it: the backward pass is under way while the guess is compared with the choice, and played again if it was wrong.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from whence.core.batch import Batch
from whence.core.interception import Interception
from whence.core.ledger import Ledger
from whence.core.memory import planned
from whence.core.numerics import at_hand, sent, widened
from whence.core.propagation import (
    Forward,
    Propagation,
    Receipt,
    account,
    backward,
    followed,
    gathered,
    intercepted,
    names_between,
)
from whence.core.questions import Questions
from whence.core.recipe import Recipe
from whence.core.rules import table

__all__ = ["Aim", "CannotRecord", "Guess", "Recording", "Recordings", "Tape", "even_length", "even_rows", "slots_for"]

DEVICES = ("cuda",)
"""Where passes are recorded."""
SLOTS = 4
"""Terms of a target per example that fit into a recording."""
MOST = 48
"""Recordings that are held for one model."""
OFTEN = 2
"""How often a size must be seen before a pass of it is recorded, which takes as long as a few passes."""
FEWEST = 64
"""A recording is played for batches down to this part of its rows: a GPU has room for more, and Python is slower."""
ROOMY, WASTED = 4, 0.125
"""Where it has more than so many times a batch's rows, the batch counts as this part of one that had to be computed."""


def even_length(length: int) -> int:
    """The length to which a short input is padded, so that few lengths are many inputs'.

    >>> [even_length(n) for n in (5, 8, 40, 65, 300, 5000)]
    [8, 8, 40, 80, 320, 5000]
    """
    step = 8 if length <= 64 else 16 if length <= 256 else 64 if length <= 1024 else 1
    return -(-length // step) * step


def even_rows(rows: int) -> int:
    """The number of rows that a recording has for so many.

    >>> [even_rows(n) for n in (1, 2, 3, 5, 9, 20, 64, 65)]
    [1, 2, 3, 6, 12, 24, 64, 96]
    """
    power = 1 << max(0, (rows - 1).bit_length() - 1)
    return rows if rows <= 2 else power * 3 // 2 if rows <= power * 3 // 2 else power * 2


def slots_for(examples: int) -> int:
    """Terms of targets that fit into a recording of so many rows."""
    return max(16, SLOTS * even_rows(examples))


_one_at_a_time = threading.Lock()
"""While one stream is recorded, nobody may wait for the whole device, as whoever begins to record does."""


class CannotRecord(Exception):
    """This model, batch or target can't be played from a recording."""


class Aim(NamedTuple):
    """One term of a target: an element of an output, flat, of one example, and its weight."""

    output: int
    element: int
    example: int
    weight: float


class Tape:
    """Records on the CPU: by running again. So a recording is tested where there is no GPU."""

    runs_again = True
    """Whether playing needs what was recorded, and not the device alone."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        work()
        return work

    def rehearse(self, work: Callable[[], None]) -> None:
        work()

    def mark(self) -> Callable[[], None]:
        """Waits until all is done that was asked of the device up to here."""
        return lambda: None

    def follow(self) -> None:
        """What is asked of the device from here on comes after what was asked up to the last mark, whoever did."""

    def held(self) -> int:
        """Bytes of the device that belong to what was recorded, and to nobody else."""
        return 0


class CudaTape(Tape):
    """Records the kernels that some work launches. All recordings of a model share their memory: one plays at a time,
    and what it gave is on its way home before the next.
    """

    runs_again = False

    def __init__(self) -> None:
        self.pool, self.stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
        self._last: torch.cuda.Event | None = None

    def rehearse(self, work: Callable[[], None]) -> None:
        """Run once as it will be recorded: libraries make their workspaces, kernels are compiled."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            work()
        torch.cuda.current_stream().wait_stream(self.stream)
        torch.cuda.synchronize()

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            work()
        return graph.replay

    def mark(self) -> Callable[[], None]:
        self._last = torch.cuda.Event()
        self._last.record()
        return self._last.synchronize

    def follow(self) -> None:
        if self._last is not None:
            self._last.wait()

    def held(self) -> int:
        parts = torch.cuda.memory_snapshot()
        return sum(part["total_size"] for part in parts if tuple(part["segment_pool_id"]) == tuple(self.pool))


Choice = Callable[[list[Tensor]], Sequence[Aim]]
"""Outputs at hand to the terms of the targets."""
Guess = Sequence[Aim] | Literal["best"] | None
"""What will be chosen: these terms; the largest of the first output of each example, if there is one for each (`best`);
nobody knows."""


class Recording:
    """One pass over batches of one size, `rows` or a few more. `read` picks the outputs that targets may ask for."""

    def __init__(
        self,
        forward: Forward,
        read: Callable[[Any], list[Tensor]],
        batch: Batch,
        recipe: Recipe,
        receipt: Receipt,
        tape: Tape,
        by_example: frozenset[str],
        rows: int,
    ):
        self.forward, self.read, self.recipe, self.receipt = forward, read, recipe, receipt
        self.tape, self.by_example = tape, by_example
        """Inputs that have one row for each example."""
        self._reading = threading.Lock()
        self.examples = even_rows(max(rows, batch.examples))
        held = {
            k: _turned(self._filled_up(k, v), k in batch.names) if isinstance(v, Tensor) else v
            for k, v in batch.inputs.items()
        }
        self.batch = Batch(held, batch.sources)
        device = next(v.device for v in held.values() if isinstance(v, Tensor))
        slots = slots_for(self.examples)
        self._marks = torch.zeros(3, slots, dtype=torch.long, device=device)
        """Output, element and example of each term."""
        self._weights = torch.zeros(slots, dtype=torch.float32, device=device)
        self._ones = (torch.arange(slots, device=device) < self.examples).float()
        self._questions = Questions()
        with planned("keep"), torch.inference_mode(False), _one_at_a_time:
            tape.rehearse(self._whole)
            try:
                self._play_there = tape.record(self._once_more)
            except RuntimeError:
                if self._questions.open:
                    raise
                self._questions.open = True  # it waits for something that was not heard: let it know
                self._play_there = tape.record(self._once_more)
            self._play_back = tape.record(self._back)
        if not tape.runs_again:  # who holds a recording does not keep the model alive
            del self.forward, self.read

    def _filled_up(self, name: str, value: Tensor) -> Tensor:
        """An input of a batch with as many rows as are recorded."""
        more = self.examples - len(value) if name in self.by_example else 0
        return torch.cat([value, value[:1].expand(more, *value.shape[1:])]) if more else value

    @property
    def slots(self) -> int:
        return self._weights.shape[0]

    # -- what is recorded ------------------------------------------------------------------------------------

    def _whole(self) -> None:
        self._there(self._questions.heard)
        self._back()

    def _once_more(self) -> None:
        self._there(self._questions.answered)

    def _there(self, listening: Callable[[], AbstractContextManager[None]]) -> None:
        ledger = Ledger(self.examples) if self.receipt == "full" else None
        follows = followed(self.batch, ledger is not None, "word")
        self.mode = Interception(self.batch, table(self.recipe), recipe=self.recipe, ledger=ledger, follows=follows)
        with intercepted(self.mode):
            inputs = self.mode.prepared()
            with listening():
                outputs = self.forward(inputs)
            self.roots = self.read(outputs)
        if self.mode.recomputes or not all(root.requires_grad for root in self.roots) or not self.mode.leaves:
            raise CannotRecord("a part runs without gradients")
        self.outputs = [widened(root.detach()) for root in self.roots]
        self.best = self._best(self.outputs[0])
        """The largest of the first output of each example, as terms: output, element, example."""
        self.mode.in_backward = True
        if ledger is not None:
            ledger.open = False

    def _best(self, first: Tensor) -> Tensor | None:
        if first.dim() != 2 or first.shape[0] != self.examples:
            return None
        marks, rows = torch.zeros_like(self._marks), torch.arange(self.examples, device=first.device)
        marks[1, : self.examples] = rows * first.shape[1] + first.argmax(-1)
        marks[2, : self.examples] = rows
        return marks

    def _back(self) -> None:
        """From the terms, which stand in buffers, to the inputs."""
        output, element, example = self._marks
        starts, scores = [], torch.zeros(self.examples, dtype=torch.float32, device=self._weights.device)
        for n, (root, value) in enumerate(zip(self.roots, self.outputs, strict=True)):
            own = torch.where(output == n, self._weights, 0.0).to(value.dtype)
            flat = torch.zeros(value.numel(), dtype=value.dtype, device=value.device)
            place = element.clamp_max(value.numel() - 1)
            starts.append(flat.index_add_(0, place, own).view(root.shape).to(root.dtype))
            scores = scores.to(value.dtype).index_add_(0, example, value.reshape(-1)[place] * own)
        with closing(self.mode):
            with intercepted(self.mode):
                leaves = [leaf.tensor for leaf in self.mode.leaves]
                grads = backward(self.roots, leaves, start=starts)
            self.relevance, self.numbers = gathered(self.mode, grads, scores)
            self.relevance = {name: r.float() for name, r in self.relevance.items()}
        # Outside of the recorded kernels: names, which are the same for every batch.
        gaps = tuple(self.mode.gaps)
        self.bypasses = tuple(sorted(set().union(*(
            names_between(root.grad_fn, gaps, self.mode.transformed) for root in self.roots
        )))) if gaps else ()  # fmt: skip
        self.roots = []  # the graph of a pass must not outlive it

    # -- playing ---------------------------------------------------------------------------------------------

    def play(self, batch: Batch, choose: Choice, guess: Guess = None) -> Callable[[], Propagation]:
        """Play the pass for a batch of the same shapes, with as many rows or fewer.

        It is under way when this returns, and another may be played. What comes back waits for what it gave: copies, on
        the CPU unless they are large.
        """
        rows = batch.examples
        with torch.no_grad(), torch.inference_mode(False):
            self.tape.follow()
            self._fill(batch.inputs)
            self._play_there()
            best = self.best if isinstance(guess, str) else None
            outputs = [at_hand(value[:rows], wait=False) for value in self.outputs]
            elements = None if best is None else at_hand(best[1, :rows], wait=False)
            arrived = self.tape.mark()
            if best is not None:
                self._marks.copy_(best)
                self._weights.copy_(self._ones)
                self._play_back()
            elif guess is not None and not isinstance(guess, str):
                self._aim(guess)
                self._play_back()
            arrived()
            try:
                aims = list(choose(outputs))
            except BaseException:
                self.tape.mark()  # whoever fills the buffers next waits for the backward pass that was guessed
                raise
            if elements is not None:
                guess = [Aim(0, element, n, 1.0) for n, element in enumerate(elements.tolist())]
            if guess != aims:
                if guess is not None:  # the backward pass wrote over what it had of the forward pass
                    self._play_there()
                self._aim(aims)
                self._play_back()
            numbers = self.numbers.to("cpu", non_blocking=True)
            relevance = {name: r[:rows].to("cpu", non_blocking=True) for name, r in self.relevance.items()}
            return partial(self._read, self.mode, numbers, relevance, outputs, self.tape.mark(), rows)

    def _read(
        self,
        mode: Interception,
        numbers: Tensor,
        relevance: dict[str, Tensor],
        outputs: list[Tensor],
        arrived: Callable[[], None],
        rows: int,
    ) -> Propagation:
        arrived()
        ledger = mode.ledger if isinstance(mode.ledger, Ledger) else None
        with self._reading:  # the books are the same for every batch, and know what was read of them last
            found = account(numbers, self.examples, ledger, outputs[0].dtype, rows)
            is_split = ledger is None or ledger.is_split
        return Propagation(
            relevance=relevance,
            target=found.target.float(),
            inputs=found.inputs,
            outputs=outputs,
            sinks=found.sinks,
            unruled=dict(mode.unruled),
            is_split=is_split,
            bypassed=lambda: self.bypasses,
        )

    def _fill(self, inputs: dict[str, Any]) -> None:
        for name, held in self.batch.inputs.items():
            if isinstance(held, Tensor):
                value, rows = inputs[name], len(inputs[name]) if name in self.by_example else len(held)
                held[:rows].copy_(value, non_blocking=True)
                if rows < len(held):
                    held[rows:].copy_(value[:1].expand_as(held[rows:]), non_blocking=True)

    def _aim(self, aims: Sequence[Aim]) -> None:
        if len(aims) > self.slots:
            raise CannotRecord(f"{len(aims)} terms for {self.slots} places")
        marks = torch.zeros(3, self.slots, dtype=torch.long)
        weights = torch.zeros(self.slots, dtype=torch.float32)
        columns = list(zip(*aims, strict=True))
        marks[:, : len(aims)] = torch.tensor(columns[:3])
        weights[: len(aims)] = torch.tensor(columns[3])
        self._marks.copy_(sent(marks, self._marks.device))
        self._weights.copy_(sent(weights, self._weights.device))


def _turned(value: Tensor, explained: bool) -> Tensor:
    """A buffer for an input. What is explained is recorded from its end to its beginning: whoever compares what is
    played with what was computed then compares two inputs, and a number that was taken for a constant shows.
    """
    return value.flip(min(1, value.dim() - 1)) if explained and value.dim() else value.clone()


@dataclass
class _Wanted:
    """What came since the last recording of a pass like this, and found none, or none that fits well."""

    often: float = 0.0
    rows: int = 0
    """Of the largest."""

    def add(self, rows: int, often: float) -> _Wanted:
        self.often, self.rows = self.often + often, max(self.rows, rows)
        return self


Key = tuple[Hashable, ...]
"""The number of the state that the model was in, and all else that a recording holds for, but the number of rows."""


class Recordings:
    """The recordings of one model: few, and made for what comes often."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Of whoever plays: buffers are filled and read by one at a time."""
        self._made: OrderedDict[tuple[Key, int], Recording | None] = OrderedDict()
        self._wanted: defaultdict[Key, _Wanted] = defaultdict(_Wanted)
        self._tape: Tape | None = None
        self.too_many: float = float("inf")
        """Tokens of a pass that did not fit into what they may hold."""

    def __reduce__(self) -> Any:
        return Recordings, ()  # they belong to a device and a process

    def find(self, key: Key, rows: int) -> Recording | None:
        """The smallest recording with room for so many rows.

        None now and then where it is much too large: the pass is computed once, and a smaller one may be recorded.
        """
        fits = [
            size
            for (held, size), recording in self._made.items()
            if held == key and recording is not None and rows <= size <= FEWEST * rows
        ]
        if not fits:
            return None
        if min(fits) > ROOMY * rows:
            wanted = self._wanted[key].add(rows, WASTED)
            if wanted.often >= OFTEN and (key, even_rows(wanted.rows)) not in self._made:
                wanted.often = OFTEN - 1
                return None
        self._made.move_to_end((key, min(fits)))
        return self._made[key, min(fits)]

    def due(self, key: Key, rows: int) -> int:
        """For how many rows a pass that was computed is to be recorded: the most that were seen, if often enough.

        0 where it was not, or was tried before.
        """
        if len(self._wanted) > 100 * MOST:  # a model that is another one every time
            self._wanted.clear()
        wanted = self._wanted[key].add(rows, 1)
        untried = (size for size in (wanted.rows, rows) if (key, even_rows(size)) not in self._made)
        return next(untried, 0) if wanted.often >= OFTEN else 0

    def tape(self, device: torch.device) -> Tape:
        if self._tape is None:
            self._tape = CudaTape() if device.type == "cuda" else Tape()
        return self._tape

    def keep(self, key: Key, rows: int, recording: Recording | None) -> None:
        """Remember a recording, or that there can be none."""
        self._wanted.pop(key, None)
        self._made[key, even_rows(rows)] = recording
        while len(self._made) > MOST:
            self._made.popitem(last=False)

    def __len__(self) -> int:
        return sum(recording is not None for recording in self._made.values())

    def forget(self, number: int) -> None:
        """Drop what belongs to a state that the model is in no more: keys begin with its number."""
        with self.lock:
            for held, rows in [place for place in self._made if place[0][0] == number]:
                del self._made[held, rows]
            for key in [key for key in self._wanted if key[0] == number]:
                del self._wanted[key]
            if not len(self):
                self._tape = None

    def clear(self) -> None:
        """Give their memory back."""
        with self.lock:
            self._made.clear()
            self._tape = None
