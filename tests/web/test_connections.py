"""Clients that say nothing, little or only half, and those that do not listen: none keeps the others out."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from unittest.mock import Mock

import pytest
import uvicorn

from tests.web.conftest import run_alone
from whence.web.connections import Connection
from whence.web.serving import bound
from whence.web.settings import Limits

PATIENCE = 60
"""Seconds after which a test gives up; none is spent where all is well."""
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def plain(scope, receive, send):
    """Answers "/" at once, "/slow" when its client has gone, "/much" with more than fits into any buffer."""
    if scope["path"] == "/slow":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    body = b"x" * (50_000_000 if scope["path"] == "/much" else 4)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def serving(**limits):
    """A server on a free port of this machine; how to reach it."""
    opened = bound("127.0.0.1", 0)
    http = partial(Connection, limits=Limits(**limits))
    server = uvicorn.Server(uvicorn.Config(plain, http=http, ws="none", lifespan="off", log_level="critical"))
    server.capture_signals = contextlib.nullcontext  # not the main thread
    running = asyncio.ensure_future(server.serve(sockets=[opened]))
    clients = []

    async def connect(sent=b""):
        reader, writer = await asyncio.open_connection(*opened.getsockname())
        clients.append(writer)
        writer.write(sent)
        return reader, writer

    while not server.started:
        await asyncio.sleep(0)
    connect.state = server.server_state
    try:
        yield connect
    finally:
        for client in clients:
            client.transport.abort()
        server.should_exit = True
        await running


def run(main):
    async def bounded():
        async with asyncio.timeout(PATIENCE):
            await main()

    run_alone(bounded())


async def ended(reader):
    """Wait until the server has ended the connection."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(65536):
            pass


async def answered(connect):
    reader, _ = await connect(ASK)
    return (await reader.readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n"])
def test_half_a_head_is_not_waited_for(said):
    async def main():
        async with serving(head_seconds=0.01) as connect:
            reader, _ = await connect(said)
            await ended(reader)

    run(main)


def test_a_head_that_drips_is_not_waited_for_either():
    async def main():
        async with serving(head_seconds=0.05) as connect:
            reader, writer = await connect(b"GET / HTTP/1.1\r\n")
            over = asyncio.ensure_future(ended(reader))
            while not over.done():
                writer.write(b"A: b\r\n")
                await asyncio.sleep(0.001)

    run(main)


def test_nor_the_second_head_of_a_connection():
    async def main():
        async with serving(head_seconds=0.05) as connect:
            reader, writer = await connect(ASK)
            await reader.readuntil(b"xxxx")
            writer.write(b"GET ")  # uvicorn's own limit ends with the first byte
            await ended(reader)

    run(main)


def test_a_request_under_way_has_all_the_time_it_needs():
    async def main():
        async with serving(head_seconds=0.01) as connect:
            await connect(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
            reader, _ = await connect()
            await ended(reader)  # the clock has run out for this one
            assert len(connect.state.tasks) == 1

    run(main)


def test_one_client_has_so_many_answers_waiting_for_it():
    """They are in memory until they are read: the one that was asked for first goes."""

    async def main():
        async with serving(unread_bytes=120_000_000, body_seconds=PATIENCE) as connect:
            asked = b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n"
            slow = []
            for _ in range(4):
                slow.append(await connect(asked))
                await slow[-1][0].readline()
            await ended(slow[0][0])
            assert await answered(connect)
            held = [c.unread for c in connect.state.connections]
            assert 50_000_000 < sum(held) <= 120_000_000

    run(main)


HALF = [b"", b"GET / HT", b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"]


@pytest.mark.parametrize("said", HALF)
def test_many_that_say_half_keep_nobody_out(said):
    """260 half-open connections once made the server unreachable."""

    async def main():
        async with serving(connections=8, head_seconds=PATIENCE) as connect:
            silent = [await connect(said) for _ in range(30)]
            assert await answered(connect)
            assert len(connect.state.connections) <= 8
            await ended(silent[0][0])  # the oldest has gone
            assert await answered(connect)

    run(main)


def test_requests_under_way_are_not_pushed_out():
    async def main():
        async with serving(connections=4, head_seconds=PATIENCE) as connect:
            slow = [await connect(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(3)]
            while len(connect.state.tasks) < 3:
                await asyncio.sleep(0)
            for _ in range(10):
                await connect(b"GET ")
            assert await answered(connect)
            assert len(connect.state.tasks) == 3
            assert not any(reader.at_eof() for reader, _ in slow)
            fourth = await connect(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while len(connect.state.tasks) < 4:
                await asyncio.sleep(0)
            await ended((await connect(ASK))[0])  # full of requests: this one has to go
            assert not fourth[0].at_eof()

    run(main)


def test_who_has_most_makes_room():
    """Somebody with one connection keeps it, however many another opens."""
    protocols = []

    class Transport:
        gone = False

        def __init__(self, host):
            self.host = host

        def get_extra_info(self, name):
            return (self.host, 1) if name == "peername" else None

        def is_closing(self):
            return self.gone

        def abort(self):
            self.gone = True
            next(p for p in protocols if p.transport is self).connection_lost(OSError())

    async def main():
        config = uvicorn.Config(plain, lifespan="off")
        config.load()
        state = uvicorn.server.ServerState()
        for host in ("10.0.0.1", *["10.0.0.2"] * 9):
            one = Connection(config, state, {}, limits=Limits(connections=4))
            protocols.append(one)
            one.connection_made(Transport(host))
        assert [p.transport.host for p in protocols if not p.transport.gone] == ["10.0.0.1", *["10.0.0.2"] * 3]
        for one in tuple(state.connections):
            one.transport.abort()

    run(main)


def test_who_does_not_read_the_answer_is_left():
    async def main():
        async with serving(body_seconds=0.05) as connect:
            await connect(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while not connect.state.tasks:
                await asyncio.sleep(0)
            while connect.state.connections:
                await asyncio.sleep(0.001)

    run(main)


def test_who_reads_slowly_is_left_only_once_nothing_is_read():
    class Transport(Mock):
        unread = [5, 4, 3, 3, 2]

        def get_write_buffer_size(self):
            return self.unread.pop(0)

    async def main():
        config = uvicorn.Config(plain, lifespan="off")
        config.load()
        one = Connection(config, uvicorn.server.ServerState(), {}, limits=Limits(body_seconds=0.001))
        gone = asyncio.Event()
        one.transport, one.flow = Transport(abort=gone.set), Mock()
        one.pause_writing()
        await gone.wait()
        assert one.transport.unread == [2]

    run(main)
