"""Requests per second of `whence serve`, and how long they take: a bounded load from this machine on itself.

    python -m benchmarks.load                              # 16 clients, 600 requests for one explanation each
    python -m benchmarks.load --clients 4 --requests 200 --method gae

Starts a server of its own at a free port of the loopback address and ends it. Clients keep their connections and send
the next request as soon as the last one was answered; every text is another one, so that nothing could be remembered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_CLIENTS, MOST_REQUESTS, MOST_SECONDS = 64, 5_000, 120
WORDS = "a gorgeous witty dull film with not much plot but very good jokes and a cast that never tires of it".split()


def text(number: int) -> str:
    """Eight to nineteen words, another text for every number."""
    return " ".join(WORDS[(number * 7 + n * (1 + number % 5)) % len(WORDS)] for n in range(8 + number % 12))


@contextmanager
def server(*arguments: str, models: tuple[str, ...] = ("sentiment",)) -> Iterator[tuple[int, int]]:
    """`whence serve` as a process: its port, and its number."""
    command = [sys.executable, "-m", "whence", "serve", *models, "--port", "0", "--no-open", *arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as it:
        try:
            assert it.stdout is not None
            line = it.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found is None:
                raise SystemExit(f"the server did not start: {line!r}")
            yield int(found[1]), it.pid
        finally:
            it.terminate()


def processor(number: int) -> float:
    """Seconds that a process has computed: what others do on the machine does not count."""
    user, system = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> int:
    """Send one request and read its answer; the status."""
    head = "POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    top = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    await reader.readexactly(int(re.search(r"content-length: (\d+)", top)[1]))
    return int(top.split()[1])


async def load(port: int, clients: int, requests: int, methods: list[str]) -> tuple[list[float], Counter[int], float]:
    """Seconds of each request, statuses, and seconds altogether."""
    waits: list[float] = []
    statuses: Counter[int] = Counter()
    numbers = iter(range(requests))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            body = json.dumps({"model": "sentiment", "text": text(number), "methods": methods}).encode()
            begun = time.perf_counter()
            statuses[await answered(reader, writer, body)] += 1
            waits.append(time.perf_counter() - begun)
        writer.close()

    begun = time.perf_counter()
    async with asyncio.timeout(MOST_SECONDS):
        await asyncio.gather(*(client() for _ in range(clients)))
    return waits, statuses, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=16, help=f"at a time, {MOST_CLIENTS} at most")
    parser.add_argument("--requests", type=int, default=600, help=f"altogether, {MOST_REQUESTS:,} at most")
    parser.add_argument("--method", action="append", help="repeat for several; default lrp")
    parser.add_argument("--workers", type=int, default=1, help="of the server")
    chosen = parser.parse_args()
    clients, requests = min(chosen.clients, MOST_CLIENTS), min(chosen.requests, MOST_REQUESTS)
    methods = chosen.method or ["lrp"]
    with server("--workers", str(chosen.workers), "--queue", str(MOST_CLIENTS)) as (port, number):
        asyncio.run(load(port, clients, 2 * clients, methods))  # the first requests build what later ones use
        spent = processor(number)
        waits, statuses, seconds = asyncio.run(load(port, clients, requests, methods))
        spent = processor(number) - spent
    waits.sort()
    at = lambda share: 1000 * waits[min(len(waits) - 1, int(share * len(waits)))]
    print(f"{' '.join(methods)}, {clients} clients, {len(waits)} requests: {len(waits) / seconds:.0f} requests/s")
    print(f"milliseconds: half {at(0.5):.0f}, p90 {at(0.9):.0f}, p99 {at(0.99):.0f}; statuses {dict(statuses)}")
    print(f"processor time of the server: {1000 * spent / len(waits):.1f} ms for each")


if __name__ == "__main__":
    main()
