"""Rows to examples beside the model: in a process of its own where the model is not needed for it, else in a thread.

The process is a fresh Python, not forked (threads of torch do not survive a fork) and not spawned by
`multiprocessing` (which would run the user's script again). It ends when its standard input does.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, Any, TypeVar

import torch
from torch import Tensor

from whence.data.rows import Row
from whence.errors import ModelError
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.runner.window import Encoded, message_of

__all__ = ["Beside", "Encoder", "ahead", "channels", "child", "encoder", "receive", "send"]

T = TypeVar("T")
DEPTH = 2
"""Windows that are encoded before the model asks for them."""
END = object()


@dataclass(frozen=True)
class Encoder:
    """Encodes rows here. A row that can't be encoded becomes its error."""

    adapter: AbstractAdapter
    options: dict[str, Any]

    def __call__(self, rows: Sequence[Row]) -> list[Encoded]:
        good = [n for n, row in enumerate(rows) if row.error is None and row.content is not None]
        try:
            made, _ = self.adapter.attempt([rows[n].content for n in good], **self.options)
        except Exception:  # an input that nobody can take apart: whose it is shows one by one
            made = []
        if len(made) != len(good):
            return [self._one(row) for row in rows]
        together = dict(zip(good, made, strict=True))
        return [self._told(together[n]) if n in together else self._one(row) for n, row in enumerate(rows)]

    def _told(self, made: Any) -> Encoded:
        return made if isinstance(made, Example) else message_of(made)

    def _one(self, row: Row) -> Encoded:
        if row.error is not None:
            return row.error
        if row.content is None:
            return "the text is missing: there is nothing to explain"
        try:
            return self._told(self.adapter.attempt([row.content], **self.options)[0][0])
        except Exception as error:
            return message_of(error)


@contextmanager
def encoder(adapter: AbstractAdapter, options: dict[str, Any], *, process: bool) -> Iterator[Callable[..., Any]]:
    """Something to call with rows, which gives examples."""
    here = Encoder(adapter, options)
    if not process or adapter.needs_weights(options):
        yield here
        return
    try:
        light = pickle.dumps(Encoder(adapter.without_weights(), options))
    except Exception:  # a tokenizer made of lambdas: it works here, and only here
        yield here
        return
    with ExitStack() as stack:
        started = [stack.enter_context(child("whence.runner.encoding", threads=1)) for _ in range(_children())]
        yield Beside(here, started, light)


def _children() -> int:
    """Encoders for one model: a GPU is fed by more than one."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if own < 8 else 3


class Beside:
    """Encodes rows in processes once they are up. Starting takes seconds, for which nobody waits."""

    def __init__(self, here: Encoder, processes: Sequence[subprocess.Popen[bytes]], light: bytes):
        self.here, self.processes, self.ready = here, processes, threading.Event()
        threading.Thread(target=self._wait, args=(light,), daemon=True).start()

    def _wait(self, light: bytes) -> None:
        with suppress(ModelError, OSError, ValueError):  # one ended before it was up: rows are encoded here
            for process in self.processes:
                send(process.stdin, light)
            for process in self.processes:
                receive(process.stdout)
            self.ready.set()

    def __call__(self, rows: Sequence[Row]) -> list[Encoded]:
        if not self.ready.is_set():
            return self.here(rows)
        step = -(-len(rows) // len(self.processes))
        parts = [(p, list(rows[n * step : (n + 1) * step])) for n, p in enumerate(self.processes)]
        for process, part in parts:
            send(process.stdin, part)
        return [made for process, _ in parts for made in _unpacked(*receive(process.stdout))]


def _packed(made: list[Encoded]) -> bytes:
    """Pickled with arrays for tensors, and sequences of ids end to end: one by one they would take most of the time."""
    ends: dict[tuple[str, torch.dtype], tuple[list[int], list[Tensor]]] = {}
    light: list[Encoded] = []
    for n, item in enumerate(made):
        if isinstance(item, Example) and all(value.dim() == 1 for value in item.inputs.values()):
            for name, value in item.inputs.items():
                owners, values = ends.setdefault((name, value.dtype), ([], []))
                owners.append(n)
                values.append(value)
            item = replace(item, inputs={})
        light.append(item)
    joined = [
        (name, owners, torch.cat(values), [len(v) for v in values]) for (name, _), (owners, values) in ends.items()
    ]
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = {**copyreg.dispatch_table, Tensor: lambda t: (torch.from_numpy, (t.numpy(),))}
    pickler.dump((light, joined))
    return buffer.getvalue()


def _unpacked(light: list[Encoded], joined: list[tuple[str, list[int], Tensor, list[int]]]) -> list[Encoded]:
    for name, owners, values, sizes in joined:
        for n, value in zip(owners, values.split(sizes), strict=True):
            light[n].inputs[name] = value  # type: ignore[union-attr]
    return light


@contextmanager
def child(module: str, *, threads: int, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process of our own that speaks pickles on its standard input and output."""
    env = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": str(threads), **(environment or {})}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    # A session of its own: Ctrl-C is for us, and we tell the child by closing its input.
    process = subprocess.Popen(
        [sys.executable, "-c", f"from {module} import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()  # it holds nothing that is not in a temporary file
        process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # what was still to be written has nobody to read it
                stream.close()  # type: ignore[union-attr]


def send(stream: IO[bytes] | None, value: Any) -> None:
    assert stream is not None
    stream.write(value if isinstance(value, bytes) else pickle.dumps(value))
    stream.flush()


def receive(stream: IO[bytes] | None) -> Any:
    assert stream is not None
    try:
        return pickle.load(stream)
    except EOFError:
        raise ModelError("a worker process ended unexpectedly (killed, or out of memory)") from None


def ahead(items: Iterable[T], depth: int = DEPTH) -> Iterator[T]:
    """The same items, made in a thread before they are asked for. An error in the making is raised here."""
    waiting: queue.Queue[Any] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: Any) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((END, None))
        except BaseException as error:
            put((END, error))

    thread = threading.Thread(target=make, name="whence-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = waiting.get()
            if error is not None:
                raise error
            if item is END:
                return
            yield item
    finally:
        stopped.set()


def serve() -> None:
    """The encoder process: an encoder, then rows until the input ends."""
    source, sink = channels()
    try:
        encode = pickle.load(source)
    except (EOFError, pickle.UnpicklingError):  # nobody needs it any more
        return
    send(sink, True)
    while True:
        try:
            rows = pickle.load(source)
        except EOFError:
            return
        send(sink, _packed(encode(rows)))


def channels() -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output for pickles; whatever prints goes to standard error from here on."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, sink
