"""The queue: back-pressure, time limits, and work that stops when nobody waits for it."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx
import pytest

import whence
from tests import small
from tests.web.conftest import refused, run_alone
from whence import cancel
from whence.web import answer_explain
from whence.web.app import create_app
from whence.web.jobs import Jobs
from whence.web.refusals import ApiError
from whence.web.settings import Limits, Settings

PATIENCE = 60
"""Seconds after which a test gives up; none is spent where all is well."""


def run(coroutine):
    async def bounded():
        async with asyncio.timeout(PATIENCE):
            return await coroutine

    return run_alone(bounded())


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


class Gate:
    """Work that says when it has begun, and goes on when it is let."""

    def __init__(self):
        self.begun, self.open, self.passes = threading.Event(), threading.Event(), 0

    def __call__(self):
        self.passes += 1
        self.begun.set()
        assert self.open.wait(PATIENCE)
        cancel.check()
        return "done"


def endless():
    while True:
        cancel.check()


def test_results_and_errors_come_back():
    async def main():
        jobs = Jobs(2, 4, 60)
        assert await asyncio.gather(*(jobs.run(lambda n=n: n * n) for n in range(5))) == [0, 1, 4, 9, 16]
        with pytest.raises(ZeroDivisionError):
            await jobs.run(lambda: 1 / 0)
        await until(lambda: jobs.running == 0)
        assert jobs.info() == {
            "running": 0, "waiting": 0, "done": 5, "cancelled": 0, "timed_out": 0, "refused": 0,
        }  # fmt: skip

    run(main())


def test_off_the_event_loop():
    async def main():
        assert await Jobs(1, 1, 60).run(threading.current_thread) is not threading.current_thread()

    run(main())


def test_the_queue_fills_and_empties():
    async def main():
        jobs, gate = Jobs(1, 2, 60), Gate()
        first = [asyncio.ensure_future(jobs.run(gate)) for _ in range(3)]
        await until(lambda: jobs.waiting == 2 and gate.begun.is_set())
        with pytest.raises(ApiError) as refusal:
            await jobs.run(gate)
        assert refusal.value.status == 429
        assert int(refusal.value.headers["Retry-After"]) >= 1
        gate.open.set()
        assert await asyncio.gather(*first) == ["done"] * 3
        assert await jobs.run(gate) == "done"
        assert jobs.counts["refused"] == 1

    run(main())


def test_leaving_while_waiting_frees_the_place():
    async def main():
        jobs, gate, never = Jobs(1, 1, 60), Gate(), Gate()
        running = asyncio.ensure_future(jobs.run(gate))
        waiting = asyncio.ensure_future(jobs.run(never))
        await until(lambda: jobs.waiting == 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (jobs.waiting, jobs.counts["cancelled"]) == (0, 1)
        gate.open.set()
        assert await running == "done"
        assert never.passes == 0

    run(main())


def test_a_cancelled_job_keeps_its_place_until_it_has_stopped():
    async def main():
        jobs, gate = Jobs(1, 0, 60), Gate()
        running = asyncio.ensure_future(jobs.run(gate))
        await until(gate.begun.is_set)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert jobs.running == 1
        with pytest.raises(ApiError):
            await jobs.run(gate)
        gate.open.set()
        await until(lambda: jobs.running == 0)
        assert await jobs.run(lambda: 1) == 1

    run(main())


def test_the_time_limit_stops_the_work():
    async def main():
        jobs = Jobs(1, 1, 0.001)
        with pytest.raises(ApiError) as refusal:
            await jobs.run(endless)
        assert refusal.value.status == 504
        await until(lambda: jobs.running == 0)
        assert jobs.counts["timed_out"] == 1

    run(main())


def test_waiting_has_an_end_too():
    """Whatever keeps the thread busy and does not look whether it is wanted."""

    async def main():
        jobs, gate = Jobs(1, 1, 0.001), Gate()
        running = asyncio.ensure_future(jobs.run(gate.open.wait))
        await until(lambda: jobs.running == 1)
        with pytest.raises(ApiError) as refusal:
            await jobs.run(lambda: 1)
        assert refusal.value.status == 429
        assert jobs.waiting == 0
        gate.open.set()
        await asyncio.gather(running, return_exceptions=True)

    run(main())


def test_stopping_cancels_what_runs_and_refuses_what_comes():
    async def main():
        jobs = Jobs(1, 1, 60)
        running = asyncio.ensure_future(jobs.run(endless))
        await until(lambda: jobs.running == 1)
        jobs.stop()
        for work in (running, jobs.run(endless)):
            with pytest.raises(ApiError) as refusal:
                await work
            assert refusal.value.status == 503
        jobs.start()
        assert await jobs.run(lambda: 1) == 1

    run(main())


# -- several clients, several jobs in one go ---------------------------------------------------------------------


def test_who_has_most_waiting_makes_room_for_others():
    async def main():
        jobs, gate = Jobs(1, 4, 60), Gate()
        greedy = [asyncio.ensure_future(jobs.run(gate, client="greedy")) for _ in range(5)]
        await until(lambda: jobs.waiting == 4 and gate.begun.is_set())
        with pytest.raises(ApiError):  # nor can it make room for itself
            await jobs.run(gate, client="greedy")
        other = asyncio.ensure_future(jobs.run(lambda: "other", client="other"))
        await until(greedy[-1].done)
        assert greedy[-1].exception().status == 429
        gate.open.set()
        assert await other == "other"
        assert await asyncio.gather(*greedy[:-1]) == ["done"] * 4

    run(main())


def test_clients_take_turns():
    async def main():
        jobs, gate, order = Jobs(1, 9, 60), Gate(), []
        first = asyncio.ensure_future(jobs.run(gate, client="a"))
        await until(gate.begun.is_set)
        names = ["a", "a", "a", "b", "c", "b"]
        rest = [asyncio.ensure_future(jobs.run(lambda n=n: order.append(n), client=n)) for n in names]
        await until(lambda: jobs.waiting == 6)
        gate.open.set()
        await asyncio.gather(first, *rest)
        assert order == ["b", "c", "a", "b", "a", "a"]

    run(main())


def squares(numbers):
    return [ZeroDivisionError() if n == 0 else n * n for n in numbers]


def test_what_waits_is_done_in_one_go():
    async def main():
        jobs, gate, calls = Jobs(1, 9, 60, together=4), Gate(), []
        first = asyncio.ensure_future(jobs.run(gate))
        await until(gate.begun.is_set)
        work = lambda numbers: calls.append(numbers) or squares(numbers)
        keys = ["a", "a", "b", "a", None, "a", "a", None]
        rest = [asyncio.ensure_future(jobs.share(work, n, key, client="")) for n, key in enumerate(keys)]
        await until(lambda: jobs.waiting == 8)
        gate.open.set()
        await first
        found = await asyncio.gather(*rest, return_exceptions=True)
        assert isinstance(found[0], ZeroDivisionError)  # one that fails is alone in that
        assert found[1:] == [n * n for n in range(1, 8)]
        assert calls == [[0, 1, 3, 5], [2], [4], [6], [7]]

    run(main())


def test_one_that_leaves_does_not_stop_the_others():
    async def main():
        jobs, gate = Jobs(1, 9, 60, together=4), Gate()
        both = Gate()
        first = asyncio.ensure_future(jobs.run(gate))
        await until(gate.begun.is_set)
        work = lambda items: [both()] * len(items)
        stays, leaves = (asyncio.ensure_future(jobs.share(work, n, "a", client="")) for n in range(2))
        await until(lambda: jobs.waiting == 2)
        gate.open.set()
        await first
        await until(both.begun.is_set)
        leaves.cancel()
        await asyncio.gather(leaves, return_exceptions=True)
        both.open.set()
        assert await stays == "done"
        assert (both.passes, jobs.counts["cancelled"]) == (1, 1)

    run(main())


def test_when_all_have_left_it_stops():
    async def main():
        jobs = Jobs(1, 9, 60, together=4)
        work = lambda items: [endless()]
        both = [asyncio.ensure_future(jobs.share(work, n, "a", client="")) for n in range(2)]
        await until(lambda: jobs.running == 1)
        for one in both:
            one.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        await until(lambda: jobs.running == 0)
        assert jobs.waiting == 0

    run(main())


# -- through the application -------------------------------------------------------------------------------------


@pytest.fixture
def tiny():
    """An application with a tiny model, whose passes can be held up."""

    def start(**limits):
        model = whence.load((small.classifier(), small.wordpiece()))
        return create_app(Settings(models={"tiny": model}, limits=Limits(**limits))), model

    return start


def asked(app):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", timeout=PATIENCE)


BODY = {"model": "tiny", "text": "the movie is not good but very witty", "methods": ["occlusion"]}


async def leave(app, path, body, gone):
    """A client that sends a request and disconnects when `gone` is set. What it was sent comes back."""
    sent, messages = [], [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive():
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
             "headers": headers, "scheme": "http", "server": ("localhost", 80), "client": ("127.0.0.1", 1),
             "http_version": "1.1", "root_path": "", "asgi": {"version": "3.0"}}  # fmt: skip
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("path", ["/api/explain", "/api/figure"])
def test_a_client_that_leaves_cancels_its_work(tiny, path):
    app, model = tiny()
    gate = Gate()
    handle = model.module.register_forward_pre_hook(lambda *_: gate() and None)

    async def main():
        gone = asyncio.Event()
        request = asyncio.ensure_future(leave(app, path, BODY | ({"format": "csv"} if "figure" in path else {}), gone))
        await until(gate.begun.is_set)
        gone.set()
        await request
        async with asked(app) as client:
            assert (await client.get("/api/health")).json()["cancelled"] == 1
            gate.open.set()
            await until(lambda: app.state.jobs.running == 0)
            assert gate.passes == 1  # occlusion takes more: it was stopped before the next
            handle.remove()
            assert (await client.post("/api/explain", json=BODY)).status_code == 200

    run(main())


def test_a_full_queue_answers_429(tiny):
    app, model = tiny(queue=1)
    gate = Gate()
    handle = model.module.register_forward_pre_hook(lambda *_: gate() and None)

    async def main():
        async with asked(app) as client:
            two = [asyncio.ensure_future(client.post("/api/explain", json=BODY)) for _ in range(2)]
            await until(lambda: gate.begun.is_set() and app.state.jobs.waiting == 1)
            third = await client.post("/api/explain", json=BODY)
            refused(third, 429, "busy")
            assert int(third.headers["retry-after"]) >= 1
            assert (await client.get("/api/info")).status_code == 200  # what needs no model does not wait
            gate.open.set()
            assert [r.status_code for r in await asyncio.gather(*two)] == [200, 200]

    run(main())
    handle.remove()


def test_too_slow_answers_504(tiny):
    app, model = tiny(seconds=0.001)
    gate = Gate()
    handle = model.module.register_forward_pre_hook(lambda *_: gate() and None)

    async def main():
        async with asked(app) as client:
            assert "0.001 seconds" in refused(await client.post("/api/explain", json=BODY), 504, "too_slow")
            gate.open.set()
            await until(lambda: app.state.jobs.running == 0)
            assert gate.passes <= 1

    run(main())
    handle.remove()


def test_many_at_a_time_say_the_same_as_one(sentiment):
    """Four threads share a model; interception, tokenizers and numpy's generator must not mix them up."""
    app = create_app(Settings(models={"sentiment": sentiment}, workers=4, limits=Limits(queue=100)))
    texts = ["a gem", "a dull plot", "not good, but not bad", "the worst"]
    methods = ["lrp", "gi", "gae", "rollout", "shap", "smooth_grad"]
    bodies = [{"model": "sentiment", "text": t, "methods": methods, "targets": "all"} for t in texts]

    async def main():
        async with asked(app) as client:
            ask = lambda body: client.post("/api/explain", json=body)
            alone = [(await ask(body)).json()["explanations"] for body in bodies]
            together = await asyncio.gather(*(ask(body) for body in bodies * 2))
        assert [r.json()["explanations"] for r in together] == alone * 2

    run(main())


def test_what_was_explained_together_is_as_alone(sentiment, monkeypatch):
    """One that can't be explained gets its own error, and the others their answers."""
    app = create_app(Settings(models={"sentiment": sentiment}, limits=Limits(queue=100)))
    texts = ["a gem", "a dull plot and worse jokes", "", "not good, but not bad", "good " * 300]
    bodies = [{"model": "sentiment", "text": t, "methods": ["lrp", "gae"]} for t in texts]
    bodies += [bodies[0] | {"targets": ["positive", {"this": "negative", "that": "positive"}]}]
    wrong = bodies[0] | {"targets": ["no such label"]}
    calls = []
    explain = answer_explain.explain
    monkeypatch.setattr(answer_explain, "explain", lambda *a, **o: calls.append(a[1]) or explain(*a, **o))

    async def asked_at_once(client, bodies):
        gate = Gate()
        held = asyncio.ensure_future(app.state.jobs.run(gate))
        await until(gate.begun.is_set)
        answers = [asyncio.ensure_future(client.post("/api/explain", json=body)) for body in bodies]
        await until(lambda: app.state.jobs.waiting == len(bodies))
        gate.open.set()
        await held
        return await asyncio.gather(*answers)

    async def main():
        async with asked(app) as client:
            alone = [await client.post("/api/explain", json=body) for body in bodies]
            calls.clear()
            together = await asked_at_once(client, bodies)
            assert [len(items) for items in calls] == [5, 5]  # one call for each method
            _same(together, alone)
            *rest, refusal = await asked_at_once(client, [*bodies, wrong])
            _same(rest, alone)
            refused(refusal, 422, "unknown_label")

    run(main())


def _same(answers, others):
    assert [a.status_code for a in answers] == [o.status_code for o in others]
    for answer, other in zip(answers, others, strict=True):
        if answer.status_code != 200:
            assert answer.json() == other.json()
            continue
        for one, two in zip(answer.json()["explanations"], other.json()["explanations"], strict=True):
            assert [one[k] for k in ("method", "target", "tokens")] == [two[k] for k in ("method", "target", "tokens")]
            # padding changes how sums are split among vector lanes: a few units in the last place of float32
            assert one["scores"] == pytest.approx(two["scores"], rel=1e-4, abs=1e-5)
