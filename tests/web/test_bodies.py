"""Bodies: measured before they are parsed, parsed in a thread, and waited for only so long."""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc

import pytest
from starlette.datastructures import Headers

from tests.web.conftest import refused, run_alone
from whence.web import bodies
from whence.web.bodies import parsed, taken
from whence.web.refusals import ApiError
from whence.web.settings import Limits

HEADERS = {"Content-Type": "application/json"}
FLOODS = {
    "empty objects": b'{"model":"sentiment","text":"x","targets":[' + b"{}," * 1_000_000 + b"{}]}",
    "numbers": b'{"model":"sentiment","methods":[' + b"1," * 1_000_000 + b"1]}",
    "keys": b"{" + b",".join(b'"%d":0' % n for n in range(300_000)) + b"}",
    "the same key": b"{" + b'"text":"x",' * 300_000 + b'"text":"x"}',
    "strings": b'{"methods":[' + b'"lrp",' * 500_000 + b'"lrp"]}',
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_is_refused_unparsed(client, flood):
    """13 MB of these made 18 GB of errors."""
    tracemalloc.start()
    try:
        response = client.post("/api/explain", content=FLOODS[flood], headers=HEADERS)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(response.content) < 1000
    refused(response, 422, "too_many")
    assert most < 8 * len(FLOODS[flood])  # copies on the way from the client, which is in this process; it was 1,400


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_depth(client, opening):
    refused(client.post("/api/explain", content=opening * 100_000, headers=HEADERS), 422, "too_deep")


def test_long_numbers(client):
    body = b'{"model": "sentiment", "text": "x", "generate": %s}' % (b"1" * 2_000_000)
    refused(client.post("/api/explain", content=body, headers=HEADERS), 422, "too_long")


def test_what_looks_like_lists_inside_of_strings_counts_as_text():
    text = '[{,:]}\\" ' * 10_000
    assert parsed(json.dumps({"text": text, "pair": "\\"}).encode(), 3) == {"text": text, "pair": "\\"}


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'"', b'"\\', b'{"a": "x', b"\xff\xfe", b"]]]]", b"nan x", '{"a":1}'.encode("utf-16")]
)
def test_what_is_no_json(raw):
    with pytest.raises(ApiError) as refusal:
        parsed(raw, 10)
    assert refusal.value.status == 400


def test_unended_strings_are_read_once():
    """A pattern that gave up at every quote would take hours for this."""
    with pytest.raises(ApiError):
        parsed(b'"' + b'\\"' * 2_000_000, 10)


def test_parsing_is_off_the_event_loop(client, monkeypatch):
    seen = []
    monkeypatch.setattr(bodies, "parsed", lambda raw, items: seen.append(threading.current_thread().name) or {})
    client.post("/api/explain", content=b"{}", headers=HEADERS)
    assert seen[0].startswith("whence-parse")


def take(messages, limits=None, headers=()):
    left = list(messages)

    async def receive():
        if not left:
            await asyncio.Event().wait()  # a client that sends no more, and stays
        return left.pop(0)

    return run_alone(taken(Headers(dict(headers)), receive, limits or Limits()))


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_that_does_not_come_is_not_waited_for():
    with pytest.raises(ApiError) as refusal:
        take([part(b"{")], Limits(body_seconds=0.01))
    assert (refusal.value.status, refusal.value.headers) == (408, {"Connection": "close"})


def test_large_bodies_wait_on_the_disk():
    chunk = b"x" * 100_000
    with (
        take([part(chunk), part(chunk, more=False)]) as small,
        take([part(chunk)] * 20 + [part(b"", more=False)]) as big,
    ):
        assert not small._rolled
        assert big._rolled
        big.seek(0)
        assert big.read() == chunk * 20


@pytest.mark.parametrize("said", ["99999999999", "9" * 5000])
def test_a_length_beyond_the_limit_is_refused_at_once(said):
    with pytest.raises(ApiError) as refusal:
        take([], headers={"Content-Length": said})
    assert refusal.value.status == 413
