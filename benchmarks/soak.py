"""Does `whence serve` stay as it is? A bounded load for a long time, with memory and waits as it goes.

    nice -n 19 python -m benchmarks.soak --minutes 60 --rate 4
    python -m benchmarks.soak --minutes 60 --clients 16

Starts a server of its own at a free port of the loopback address and ends it. Requests come at a rate, whoever has to
wait; or from so many clients that each ask again as soon as they are answered, which is all that the server can do. In
turn explanations by two methods, attention, figures, requests that are refused, and clients that leave before
they are answered. A row of the table for each part of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load import processor, server, text

MOST_MINUTES, MOST_RATE, MOST_WAITING = 90, 50, 64
PART = 600
"""Seconds of a row."""


@dataclass
class Part:
    """What was seen in a part of the time."""

    waits: list[float] = field(default_factory=list)
    statuses: Counter[int | str] = field(default_factory=Counter)

    def at(self, share: float) -> float:
        """Milliseconds within which this share was answered."""
        ordered = sorted(self.waits) or [float("nan")]
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def asked(number: int) -> tuple[str, dict[str, object], bool]:
    """The path and body of a request, and whether its client leaves at once."""
    body: dict[str, object] = {"model": "sentiment", "text": text(number)}
    match number % 20:
        case 3:
            return "/api/figure", body | {"format": ("svg", "png", "pdf", "html")[number // 20 % 4]}, False
        case 7 | 17:
            return "/api/attention", body, False
        case 11:
            return "/api/explain", body | {"methods": ["no such method"]}, False
        case 13:
            return "/api/explain", body | {"methods": ["lrp", "gae"]}, True
        case _:
            return "/api/explain", body | {"methods": ["gae" if number % 2 else "lrp"]}, False


async def answered(port: int, number: int, part: Part) -> None:
    """One request on a connection of its own."""
    path, body, leaves = asked(number)
    content = json.dumps(body).encode()
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()
        if leaves:
            part.statuses["left"] += 1
            return
        top = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        await reader.readexactly(int(re.search(r"content-length: (\d+)", top)[1]))
        part.statuses[int(top.split()[1])] += 1
        part.waits.append(time.perf_counter() - begun)
    except (OSError, asyncio.IncompleteReadError) as error:
        part.statuses[type(error).__name__] += 1
    finally:
        writer.close()


def memory(number: int) -> int:
    """Resident memory of a process in MB."""
    status = Path(f"/proc/{number}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024


def handles(number: int) -> int:
    return len(list(Path(f"/proc/{number}/fd").iterdir()))


async def soak(port: int, number: int, seconds: float, rate: float, clients: int) -> None:
    tasks: set[asyncio.Task[None]] = set()
    begun, spent, sent, held = time.monotonic(), processor(number), 0, 0
    while (passed := time.monotonic() - begun) < seconds:
        part, ends = Part(), min(seconds, (passed // PART + 1) * PART)
        while time.monotonic() - begun < ends:
            if len(tasks) < (clients or MOST_WAITING):
                task = asyncio.create_task(answered(port, sent, part))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                sent += 1
            elif clients:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            else:
                held += 1  # the machine is too busy for the rate: not sent, and said
            if not clients:
                await asyncio.sleep(max(0.0, (sent + held) / rate - (time.monotonic() - begun)))
        now = processor(number)
        told = ", ".join(f"{k}: {v:,}" for k, v in sorted(part.statuses.items(), key=str))
        print(
            f"| {ends / 60:.0f} | {sum(part.statuses.values()):,} ({told}) | {part.at(0.5):.0f} | {part.at(0.99):.0f} "
            f"| {memory(number)} | {handles(number)} | {now - spent:.0f} |",
            flush=True,
        )
        spent = now
    await asyncio.wait_for(asyncio.gather(*tasks), 60) if tasks else None
    print(f"{sent:,} sent, {held:,} held back because {MOST_WAITING} were waiting")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60, help=f"{MOST_MINUTES} at most")
    parser.add_argument("--rate", type=float, default=4, help=f"requests per second, {MOST_RATE} at most")
    parser.add_argument("--clients", type=int, default=0, help=f"full load, not a rate; {MOST_WAITING} at most")
    chosen = parser.parse_args()
    seconds, rate = 60 * min(chosen.minutes, MOST_MINUTES), min(chosen.rate, MOST_RATE)
    with server("--queue", str(MOST_WAITING)) as (port, number):
        print(f"memory at the start: {memory(number)} MB, {handles(number)} files")
        print("| minutes | requests (status: count) | half within, ms | p99, ms | memory, MB | files | processor, s |")
        print("|---|---|---|---|---|---|---|")
        asyncio.run(soak(port, number, seconds, rate, min(chosen.clients, MOST_WAITING)))


if __name__ == "__main__":
    main()
