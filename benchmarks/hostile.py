"""What `whence serve` bears: each attack once, on a server of this machine, with the memory it took and who waited.

    python -m benchmarks.hostile              # all of them
    python -m benchmarks.hostile 260          # those with this word in their name

Every attack has a server of its own at a free port of the loopback address. Its peak of memory is compared with the one
before, and while it lasts a bystander asks for /api/health again and again.
"""

from __future__ import annotations

import base64
import io
import json
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.load import server

MOST_CONNECTIONS, MOST_SECONDS = 300, 60.0
HEAD = b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def post(port: int, body: bytes, path: str = "/api/explain") -> str:
    """The status of the answer, and the error's code."""
    address = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=MOST_SECONDS) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return f"{error.code} {json.load(error)['error']['code']}"


def objects(port: int) -> str:
    return post(port, b'{"model":"sentiment","text":"x","targets":[' + b"{}," * 4_300_000 + b"{}]}")


def nested(port: int) -> str:
    return post(port, b"[" * 13_000_000)


def digits(port: int) -> str:
    return post(port, b'{"generate":' + b"9" * 13_000_000 + b"}")


def quotes(port: int) -> str:
    return post(port, b'"' + b'\\"' * 6_500_000)


def picture(port: int) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGBA", (6300, 6300), (200, 30, 90, 128)).save(file, "PNG", compress_level=1)
    image = base64.b64encode(file.getvalue()).decode()
    return post(port, json.dumps({"model": "digits", "image": image}).encode())


def _held(port: int, count: int, said: bytes, more: bytes = b"") -> str:
    """Open connections that say only this much, and hold them while somebody else asks for an explanation."""
    with ExitStack() as stack:
        for _ in range(min(count, MOST_CONNECTIONS)):
            opened = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            try:
                opened.sendall(said + more)
            except OSError:  # the server has closed it to make room
                continue
        return f"then {_asked(port)}"


def _asked(port: int) -> str:
    return post(port, b'{"model": "sentiment", "text": "a gem"}')


def silent(port: int) -> str:
    return _held(port, 260, b"")


def half_heads(port: int) -> str:
    return _held(port, 260, HEAD)


def half_bodies(port: int) -> str:
    return _held(port, 260, HEAD + b"Content-Length: 13000000\r\n\r\n", b"x" * 300_000)


ATTACKS: dict[str, Callable[[int], str]] = {
    "13 MB of empty objects as targets": objects,
    "13 MB of opening brackets": nested,
    "a number of 13 million digits": digits,
    "13 MB of escaped quotes, never closed": quotes,
    "a picture of 6300 × 6300 with transparency": picture,
    "260 connections that say nothing": silent,
    "260 halves of a head": half_heads,
    "260 bodies of 13 MB, 300 kB of each sent": half_bodies,
}


def peak(number: int) -> float:
    """The most memory that a process has had, in MB."""
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1000


class Bystander(threading.Thread):
    """Asks how the server is, over and over; the longest wait is kept."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.longest, self.failed, self.over = port, 0.0, 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.02):
            begun = time.perf_counter()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/health", timeout=MOST_SECONDS).close()
            except OSError:
                self.failed += 1
            self.longest = max(self.longest, time.perf_counter() - begun)


def main() -> None:
    print("| attack | answer | seconds | memory, MB more | others waited, ms | not answered |")
    print("|---|---|---|---|---|---|")
    chosen = [name for name in ATTACKS if all(word in name for word in sys.argv[1:])]
    for name in chosen:
        with server(models=("sentiment", "digits")) as (port, number):
            _asked(port)
            before = peak(number)
            bystander = Bystander(port)
            bystander.start()
            begun = time.perf_counter()
            said = ATTACKS[name](port)
            seconds = time.perf_counter() - begun
            bystander.over.set()
            bystander.join(MOST_SECONDS)
            more = peak(number) - before
            waits = f"{1000 * bystander.longest:.0f} | {bystander.failed}"
            print(f"| {name} | {said} | {seconds:.1f} | {more:.0f} | {waits} |", flush=True)


if __name__ == "__main__":
    main()
