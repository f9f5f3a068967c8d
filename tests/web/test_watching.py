"""What operators see: counters, health and a line for each request, without what was explained."""

from __future__ import annotations

import json
import logging
import re

import pytest

from tests.web.conftest import TEXT
from whence.web.watching import JsonLines, Meters

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"\\\n]*"(,[a-z]+="[^"\\\n]*")*\})? [0-9.e+-]+')


def metrics(client):
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return response.text


def value(page, name):
    return float(next((line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(name + " ")), 0))


def test_the_format(client):
    client.get("/no%22such%0Aaddress")
    for line in metrics(client).splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or LINE.fullmatch(line), line


def test_requests_are_counted_by_route(client, explain):
    asked = 'whence_requests_total{method="POST",route="/api/explain",status="200"}'
    timed = 'whence_request_seconds_count{route="/api/explain"}'
    done = 'whence_jobs_total{outcome="done"}'
    before = metrics(client)
    explain()
    after = metrics(client)
    for name in (asked, timed, done):
        assert value(after, name) == value(before, name) + 1


def test_addresses_that_there_are_not_share_a_line(client):
    def tried(number):
        client.get(f"/{number}")
        client.request(f"M{number}", "/")
        return len(metrics(client).splitlines())

    tried(0)
    known = tried(1)  # the second time, /metrics counts itself as well
    assert tried(2) == tried(3) == known
    assert "M3" not in metrics(client)


def test_boxes_of_the_histogram():
    meters = Meters()
    for seconds in (0.001, 0.005, 0.3, 100.0):
        meters.count("GET", "/", 200, seconds)
    found = re.findall(
        r'le="([^"]+)"} (\d+)',
        meters.page(dict.fromkeys(("running", "waiting", "done", "cancelled", "timed_out", "refused"), 0)),
    )
    boxes = {edge: int(count) for edge, count in found}
    assert (boxes["0.005"], boxes["0.25"], boxes["0.5"], boxes["60.0"], boxes["+Inf"]) == (2, 2, 3, 3, 4)


def test_health_needs_neither_name_nor_token(client, app):
    response = client.get("/health", headers={"Host": "10.0.0.7"})
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    app.state.jobs.stop()
    try:
        assert client.get("/health").status_code == 503
    finally:
        app.state.jobs.start()


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "whence.web.requests")
    return lambda: [JsonLines().format(r) for r in caplog.records if r.name == "whence.web.requests"]


def test_a_line_of_json_for_each_request(client, explain, lines):
    explain()
    client.get("/?token=secret-that-nobody-should-read", headers={"Cookie": "whence=secret"})
    first, second = map(json.loads, lines())
    assert {"method": "POST", "path": "/api/explain", "status": 200, "level": "info"}.items() <= first.items()
    assert first["seconds"] > 0
    assert first["bytes"] > 100
    assert second["path"] == "/"
    assert not [line for line in lines() if TEXT in line or "secret" in line]


def test_a_line_stays_a_line(client, lines):
    client.get("/a%0Ab%22" + "x" * 1000)
    (line,) = lines()
    assert "\n" not in line
    assert len(json.loads(line)["path"]) == 200


def test_faults_carry_their_traceback():
    fault = (ZeroDivisionError, ZeroDivisionError("by nothing"), None)
    record = logging.LogRecord("whence.web", logging.ERROR, "", 0, "failed, id %s", ("3",), fault)
    line = json.loads(JsonLines().format(record))
    assert line["message"] == "failed, id 3"
    assert line["traceback"] == "ZeroDivisionError: by nothing"
