"""Answers in lines: explanations as they come, how faithful they are, and what a model says without some words."""

from __future__ import annotations

import asyncio
import json
import threading

import numpy as np
import pytest
from starlette.testclient import TestClient

import whence
from tests import small
from tests.web.conftest import TEXT, refused, run_alone
from whence import cancel
from whence.results.explanation_files import to_wire
from whence.web import answer_stream, answer_writing, streams
from whence.web.app import create_app
from whence.web.jobs import Jobs
from whence.web.refusals import ApiError
from whence.web.settings import Settings


@pytest.fixture(scope="session")
def stream(client):
    def ask(**body):
        return client.post("/api/stream", json={"model": "sentiment", "text": TEXT} | body)

    return ask


def events(response):
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in response.text.splitlines()]


def test_every_method_is_a_line_and_quick_ones_come_first(stream, sentiment):
    found = events(stream(methods=["occlusion", "lrp", "gi"]))
    made = [e for e in found if e["event"] == "explained"]
    assert [e["method"] for e in made] == ["lrp", "gi", "occlusion"]
    assert made[0]["explanations"] == [to_wire(whence.explain(sentiment, TEXT))]
    assert found[-1]["event"] == "done"
    assert not [e for e in found if e["event"] == "judged"]


def test_methods_are_judged_by_what_the_model_says_without_what_they_name(stream):
    found = events(stream(methods=["lrp", "gi"], faithfulness=True))
    judged = {e["method"]: e for e in found if e["event"] == "judged"}
    lrp = judged["lrp"]
    assert lrp["most"][0] == pytest.approx(lrp["least"][0])  # nothing is gone yet
    assert lrp["most"][-1] == pytest.approx(lrp["least"][-1])  # all is gone
    assert lrp["area"] > 0 > judged["gi"]["area"]
    (alike,) = [e for e in found if e["event"] == "agreement"]
    assert alike["methods"] == ["lrp", "gi"]
    assert alike["correlations"][0][0] == pytest.approx(1)
    assert -1 <= alike["correlations"][0][1] <= 1


def test_a_target_that_cannot_be_followed_is_said_and_explanations_stand(stream):
    found = events(stream(methods=["lrp"], special_tokens=False, faithfulness=True))
    assert [e["event"] for e in found] == ["explained", "all_explained", "not_judged", "done"]


def test_what_is_refused_has_a_status_before_the_first_line(stream):
    refused(stream(text=" "), 422, "empty")
    refused(stream(methods=["nope"]), 422, "unknown_method")
    refused(stream(faithfulness="yes"), 422, "invalid")


def test_progress_is_told_with_the_time_that_is_left(monkeypatch):
    told = []
    clock = iter([0.0, 1.0, 1.1, 4.0])
    monkeypatch.setattr(answer_stream.time, "perf_counter", lambda: next(clock))
    heard = answer_stream._Progress("shap", told.append)
    for done in (2, 3, 8):
        heard(done, 10)
    assert told == [  # the second came too soon after the first
        {"event": "progress", "method": "shap", "done": 2, "total": 10, "left": 4.0},
        {"event": "progress", "method": "shap", "done": 8, "total": 10, "left": 1.0},
    ]


class Asked:
    """A request whose client leaves when it is told to."""

    client = None

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}


def test_a_client_that_leaves_between_two_lines_cancels_the_work():
    ended = threading.Event()

    async def main():
        jobs, request = Jobs(1, 1, 60), Asked()

        def work(tell):
            tell({"event": "first"})
            try:
                while True:
                    cancel.check()
            finally:
                ended.set()

        response = await streams.lines(request, jobs, work)
        lines = response.body_iterator
        assert json.loads(await anext(lines)) == {"event": "first"}
        request.left.set()
        with pytest.raises(StopAsyncIteration):
            await anext(lines)
        await asyncio.to_thread(ended.wait, 20)
        return jobs.counts

    assert run_alone(main())["cancelled"] == 1
    assert ended.is_set()


def test_a_client_that_leaves_before_the_body_is_asked_for_cancels_the_work():
    ended = threading.Event()

    async def main():
        jobs, request = Jobs(1, 1, 60), Asked()

        def work(tell):
            tell({"event": "first"})
            try:
                while True:
                    cancel.check()
            finally:
                ended.set()

        await streams.lines(request, jobs, work)
        request.left.set()
        gone = await asyncio.to_thread(ended.wait, 20)
        jobs.stop()
        return gone

    assert run_alone(main())


def test_a_fault_after_the_first_line_is_a_line():
    async def main():
        def work(tell):
            tell({"event": "first"})
            raise ApiError(422, "broken", "It broke.", "Mend it.")

        response = await streams.lines(Asked(), Jobs(1, 1, 60), work)
        return [json.loads(line) async for line in response.body_iterator]

    _, last = run_alone(main())
    assert last == {"event": "error", "error": {"code": "broken", "message": "It broke.", "hint": "Mend it."}}


# -- words taken away ----------------------------------------------------------------------------------------------


def test_what_the_model_says_without_a_word_is_what_it_says_of_the_masked_text(client, sentiment):
    answer = client.post(
        "/api/remove", json={"model": "sentiment", "text": TEXT, "removed": [2], "target": "negative"}
    ).json()
    masked = whence.explain(sentiment, TEXT.replace("gorgeous", sentiment.tokenizer.mask_token), target="negative")
    whole = whence.explain(sentiment, TEXT, target="negative")
    # float32 in a batch of another size
    np.testing.assert_allclose(answer["without"]["score"], masked.target_score, rtol=1e-4)
    np.testing.assert_allclose(answer["whole"]["score"], whole.target_score, rtol=1e-4)
    np.testing.assert_allclose(answer["whole"]["probability"], whole.prediction.probabilities[1], rtol=1e-4)
    assert answer["whole"]["label"] == "positive"
    assert answer["random"] == []


def test_as_many_words_are_drawn_at_random(client):
    body = {"model": "sentiment", "text": TEXT, "removed": [2, 3, 4, 5], "draws": 4}
    first, again = (client.post("/api/remove", json=body).json() for _ in range(2))
    assert len(first["random"]) == 4
    assert first == again
    assert len({one["score"] for one in first["random"]}) > 1


def test_features_that_are_not_there_are_refused(client, limited):
    body = {"model": "sentiment", "text": TEXT, "removed": [99]}
    assert "no feature 99" in refused(client.post("/api/remove", json=body), 422, "not_explained")
    refused(client.post("/api/remove", json=body | {"removed": [-1]}), 422, "invalid")
    refused(limited(removed=2).post("/api/remove", json=body | {"removed": [1, 2, 3]}), 422, "too_many")


def test_tokens_are_counted_and_the_cut_is_at_a_word(client, sentiment, limited):
    short = client.post("/api/tokens", json={"model": "sentiment", "text": TEXT}).json()
    assert short == {"tokens": 11, "limit": 256, "cut": len(TEXT)}
    found = limited(tokens=8).post("/api/tokens", json={"model": "sentiment", "text": TEXT}).json()
    assert found == {"tokens": 11, "limit": 8, "cut": len("a gorgeous, witty,")}
    assert sentiment.tokens_in(TEXT[: found["cut"]]) <= 8
    long = {"model": "sentiment", "text": TEXT, "pair": "a" * 41}
    refused(limited(characters=40).post("/api/tokens", json=long), 413, "too_long")


# -- writing -------------------------------------------------------------------------------------------------------


def test_a_model_writes_token_by_token_and_the_trace_follows(client):
    found = events(client.post("/api/write", json={"model": "writer", "text": "abc", "generate": 3}))
    *tokens, trace = found
    assert {e["event"] for e in tokens} == {"token"}
    assert trace["event"] == "trace"
    assert len(trace["data"]["places"]) == 3
    assert len(trace["data"]["target_scores"]) == 3
    assert trace["verdict"].endswith(".")


def test_only_models_that_write_are_asked_to(client):
    refused(client.post("/api/write", json={"model": "sentiment", "text": "abc"}), 422, "wrong_input")
    refused(client.post("/api/write", json={"model": "writer", "text": "abc", "generate": 999}), 422, "too_many")
    refused(client.post("/api/similarity", json={"model": "writer", "text": "a", "pair": "b"}), 422, "wrong_input")


def test_citations_are_by_the_method_that_is_asked_for(monkeypatch):
    asked = []
    real = answer_writing.cite
    monkeypatch.setattr(answer_writing, "cite", lambda *a, **k: (asked.append(k["method"]), real(*a, **k))[1])
    app = create_app(Settings(models={"writer": whence.load((small.long_llama(), small.bytelevel(limit=512)))}))
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    body = {"model": "writer", "question": "a b", "documents": ["One text.", "Two texts."], "answer": "abc."}
    drawn = {method: client.post("/api/cite", json=body | {"method": method}).json() for method in ("gi", "rollout")}
    plain = client.post("/api/cite", json=body).json()
    assert asked == ["gi", "rollout", "lrp"]
    assert drawn["gi"]["data"] != drawn["rollout"]["data"] != plain["data"]
    assert plain["verdict"]
    for method in ("nope", "/etc/passwd", ""):
        code = "unknown_method" if method else "invalid"
        refused(client.post("/api/cite", json=body | {"method": method}), 422, code)


def test_an_unknown_method_is_refused_before_it_waits(client):
    body = {"model": "no such model", "text": "abc", "pair": "abc", "method": "nope"}
    for address in ("write", "similarity"):
        given = {k: v for k, v in body.items() if k != "pair" or address == "similarity"}
        refused(client.post(f"/api/{address}", json=given), 422, "unknown_method")
