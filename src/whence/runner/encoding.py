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

__all__ = ["Beside", "DiedError", "Encoder", "ahead", "channels", "child", "encoder", "receive", "send"]

T = TypeVar("T")
DEPTH = 2
"""Windows that are encoded before the model asks for them."""
TRIES = 2
"""Times that a row is encoded alone before it is blamed for the death of its process."""
PATIENCE = 2.0
"""Seconds for what is being encoded when nobody wants it any more."""
END = object()


class DiedError(ModelError):
    """A process of ours that does not answer any more."""

    def __init__(self) -> None:
        super().__init__("a worker process ended unexpectedly (killed, or out of memory)")


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
def encoder(
    adapter: AbstractAdapter, options: dict[str, Any], *, process: bool, crew: int = 1
) -> Iterator[Callable[..., Any]]:
    """Something to call with rows, which gives examples. `crew`: how many on this machine have one of their own."""
    here = Encoder(adapter, options)
    if not process or adapter.needs_weights(options):
        yield here
        return
    try:
        light = pickle.dumps(Encoder(adapter.without_weights(), options))
    except Exception:  # a tokenizer made of lambdas: it works here, and only here
        yield here
        return
    beside = Beside(here, light, _children(crew))
    try:
        yield beside
    finally:
        beside.close()


def _children(crew: int) -> int:
    """Encoders for one model: a GPU is fed by more than one, where there are cores for them."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if own < 8 * crew else 3


class Beside:
    """Encodes rows in processes, as many as are up: each takes seconds to start, for which nobody waits.

    One is started after the other. All at once would be up no sooner, and the first of them much later.
    """

    def __init__(self, here: Callable[[Sequence[Row]], list[Encoded]], light: bytes, count: int):
        self.here, self.light, self.ready = here, light, threading.Event()
        """Set once the first is up."""
        self.sides: list[_Side] = []
        self._begun: _Side | None = None
        """The one that is not up yet."""
        self._is_closed = False
        self._starting, self._turn = threading.Lock(), threading.Lock()
        """Whoever asks a process is the one who hears its answer."""
        threading.Thread(target=self._start, args=(count,), daemon=True).start()

    def _start(self, count: int) -> None:
        for _ in range(count):
            with self._starting:
                if self._is_closed:
                    return
                side = self._begun = _Side(self.light)
            if not side.is_up():  # it ended before: rows are encoded by those that are up, or here
                return
            with self._starting:
                if self._is_closed:
                    return
                self.sides.append(side)
                self._begun = None
            self.ready.set()

    def __call__(self, rows: Sequence[Row]) -> list[Encoded]:
        if not self.ready.is_set():
            return self.here(rows)
        with self._turn:
            return self._asked(rows, len(self.sides))

    def _asked(self, rows: Sequence[Row], count: int) -> list[Encoded]:
        """By the first `count` of the processes."""
        step = -(-len(rows) // count)
        parts = [list(rows[n * step : (n + 1) * step]) for n in range(count)]
        asked = [self.sides[n].ask(part) for n, part in enumerate(parts)]
        found: list[Encoded] = []
        for n, part in enumerate(parts):
            made = self.sides[n].answer() if asked[n] else None
            found += self._one_by_one(n, part) if made is None else made
        return found

    def _one_by_one(self, n: int, rows: Sequence[Row]) -> list[Encoded]:
        """Rows on which a process died: one of them is the reason, and only that one is lost."""
        return [made for row in rows for made in self._alone(n, row)]

    def _alone(self, n: int, row: Row) -> list[Encoded]:
        for _ in range(TRIES):
            if self.sides[n].is_dead:
                self._begin_again(n)
            if self.sides[n].ask([row]) and (made := self.sides[n].answer()) is not None:
                return made
        return [f"its process died each of {TRIES} times the row was encoded (crashed, out of memory)"]

    def _begin_again(self, n: int) -> None:
        """Another process in the place of one that died, unless all were ended."""
        self.sides[n].close()
        with self._starting:
            if self._is_closed:
                raise DiedError
            side = self.sides[n] = _Side(self.light)
        if not side.is_up():
            raise ModelError("the process that encodes rows died, and another can't be started: out of memory?")

    def close(self) -> None:
        with self._starting:
            self._is_closed = True
            for side in (*self.sides, *filter(None, [self._begun])):
                side.close()


class _Side:
    """One process that encodes. It is dead once it did not answer."""

    def __init__(self, light: bytes):
        self.stack = ExitStack()
        self.process = self.stack.enter_context(child("whence.runner.encoding", threads=1))
        self.light, self.is_dead = light, False

    def is_up(self) -> bool:
        """Wait until it is, or until it is clear that it never will be."""
        return self._send(self.light) and self._receive() is not None

    def ask(self, rows: list[Row]) -> bool:
        return self._send(rows)

    def answer(self) -> list[Encoded] | None:
        found = self._receive()
        return None if found is None else _unpacked(*found)

    def _send(self, value: Any) -> bool:
        try:
            send(self.process.stdin, value)
        except (DiedError, ValueError):  # a pipe that is closed
            self.is_dead = True
        return not self.is_dead

    def _receive(self) -> Any:
        try:
            return receive(self.process.stdout)
        except (DiedError, ValueError):
            self.is_dead = True
            return None

    def close(self) -> None:
        self.stack.close()


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


CODE = """
import os, sys, threading
def watch():
    os.read({fd}, 1)
    os._exit(1)
if {fd}:
    threading.Thread(target=watch, daemon=True).start()
sys.path[:] = {path}
from {module} import serve
serve()
"""
"""What a process of ours runs. Nothing is ever written to the pipe that it watches: it ends when we do, however that
happens. `-P` keeps a file of the current folder from being taken for a module of Python's own."""


@contextmanager
def child(module: str, *, threads: int, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process of our own that speaks pickles on its standard input and output."""
    env = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": str(threads), **(environment or {})}
    watched, ours = os.pipe() if os.name == "posix" else (0, 0)
    # A session of its own: Ctrl-C is for us, and we tell the child by closing its input.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", CODE.format(fd=watched, path=_path(), module=module)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
        start_new_session=True,
        pass_fds=[watched] if watched else [],
    )
    if watched:
        os.close(watched)
    try:
        yield process
    finally:
        process.kill()  # it holds nothing that is not in a temporary file
        process.wait()
        if ours:
            os.close(ours)
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # what was still to be written has nobody to read it
                stream.close()  # type: ignore[union-attr]


def _path() -> list[str]:
    """Where this process finds modules, with the current folder last: data may lie there."""
    here = os.getcwd()
    found = [os.path.abspath(place) for place in sys.path]
    return [place for place in found if place != here] + ([here] if here in found else [])


def send(stream: IO[bytes] | None, value: Any) -> None:
    assert stream is not None
    try:
        stream.write(value if isinstance(value, bytes) else pickle.dumps(value))
        stream.flush()
    except BrokenPipeError:
        raise DiedError from None


def receive(stream: IO[bytes] | None) -> Any:
    assert stream is not None
    try:
        return pickle.load(stream)
    except (EOFError, pickle.UnpicklingError):
        raise DiedError from None


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
        # A thread that is in torch while Python ends takes the process down with it. One that waits for its input does
        # not, and may wait for ever.
        thread.join(PATIENCE)


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
