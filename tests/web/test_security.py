"""What every request passes and every answer carries."""

from __future__ import annotations

import httpx
import pytest

from tests.web.conftest import refused, run_alone
from whence.web.app import create_app
from whence.web.settings import Limits, Settings

ADDRESSES = ["/", "/api/info", "/api/health", "/api/docs", "/api/docs.css", "/openapi.json", "/api/runs", "/nothing",
             "/static/nothing.js", "/examples/digit-3.png", "/api/runs/x/rows"]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_headers_on_every_answer(client, address):
    headers = client.get(address).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert not [name for name in headers if name.startswith("access-control")]


def test_headers_on_refusals_and_faults(client, monkeypatch):
    from whence.web import answer_explain as explaining

    monkeypatch.setattr(explaining, "checked", lambda *_: 1 / 0)
    for response in (
        client.post("/api/explain", json={"model": "sentiment", "text": "x"}),
        client.get("/api/info", headers={"Host": "evil.example"}),
        client.post("/api/explain", content="x", headers={"Content-Type": "text/plain"}),
    ):
        assert response.status_code >= 400
        assert "default-src 'none'" in response.headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "evil.example:8000", "", "[::2]", "1.2.3.4"]
)
def test_other_names_are_refused(client, host):
    """DNS rebinding: a page elsewhere makes its own name point at this machine."""
    refused(client.get("/api/info", headers={"Host": host}), 421, "unknown_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "[::1]"])
def test_own_names(client, host):
    assert client.get("/api/health", headers={"Host": host}).status_code == 200


def test_any_name_where_it_is_meant_for_others(sentiment):
    app = create_app(Settings(models={"sentiment": sentiment}, hosts=None))

    async def main():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://anything") as client:
            assert (await client.get("/api/info")).status_code == 200

    run_alone(main())


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_other_sites_may_send_is_refused(client, kind):
    """Browsers let any page post these here; JSON they let through only if we said so."""
    body = b'{"model": "sentiment", "text": "x"}'
    refused(client.post("/api/explain", content=body, headers={"Content-Type": kind}), 415, "not_json")


def test_no_other_site_is_let_in(client):
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    response = client.options("/api/explain", headers=asked)
    assert response.status_code == 405
    assert "access-control-allow-origin" not in response.headers


def _small(sentiment):
    limits = Limits(characters=100, image_bytes=100, sound_bytes=100)
    return create_app(Settings(models={"sentiment": sentiment}, limits=limits)), limits.body_bytes


def test_bodies_are_measured_while_they_come(sentiment):
    """Without Content-Length: no more than the limit is read."""
    app, most = _small(sentiment)
    taken = 0

    async def long():
        nonlocal taken
        for _ in range(1000):
            taken += 1000
            yield b"x" * 1000

    async def main():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            headers = {"Content-Type": "application/json"}
            refused(await client.post("/api/explain", content=long(), headers=headers), 413, "too_large")
            assert taken <= most + 2000
            lied = {**headers, "Content-Length": str(10**12)}
            refused(await client.post("/api/explain", content=b"{}", headers=lied), 413, "too_large")
            exact = b'{"model": "sentiment", "text": "x"' + b" " * (most - 35) + b"}"
            assert len(exact) == most
            assert (await client.post("/api/explain", content=exact, headers=headers)).status_code == 200
            refused(await client.post("/api/explain", content=exact + b" ", headers=headers), 413, "too_large")

    run_alone(main())


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/assets//etc/passwd", "/static/", "/static",
     "/examples/..%5capp.py", "/static/%00.js", "/examples/digit-3.png/x.png", "/examples/digit-3.PNG"],
)  # fmt: skip
def test_no_file_outside_its_folder(client, path):
    refused(client.get(path), 404, "not_found")


def test_a_folders_path_stays_private(tmp_path, sentiment):
    """A model from a folder goes by the folder's name; answers do not say where it lies."""
    folder = tmp_path / "my-model"
    sentiment.module.save_pretrained(folder)
    sentiment.tokenizer.save_pretrained(folder)
    app = create_app(Settings(models=(str(folder),)))

    async def main():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            info = await client.get("/api/info")
            answer = await client.post("/api/explain", json={"model": "my-model", "text": "a gem"})
            by_path = await client.post("/api/explain", json={"model": str(folder), "text": "a gem"})
        assert info.json()["models"][0]["name"] == "my-model"
        assert answer.status_code == 200
        assert str(tmp_path) not in info.text + answer.text
        refused(by_path, 404, "unknown_model")

    run_alone(main())
