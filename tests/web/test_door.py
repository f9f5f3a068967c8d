"""The token: in a header, in the page's address, in a cookie; and nobody else."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.web.conftest import TEXT, refused
from whence.errors import InputError
from whence.web.app import create_app
from whence.web.door import Door, new_token, token_of
from whence.web.settings import Settings

TOKEN = "correct-horse-battery-staple"
ADDRESSES = ["/", "/static/app.js", "/api/info", "/api/health", "/api/docs", "/openapi.json", "/metrics", "/nothing"]


@pytest.fixture(scope="module")
def closed(sentiment):
    return create_app(Settings(models={"sentiment": sentiment}, token=TOKEN))


@pytest.fixture
def visitor(closed):
    return TestClient(closed, base_url="http://localhost", raise_server_exceptions=False)


@pytest.mark.parametrize("address", ADDRESSES)
def test_nobody_without_it(visitor, address):
    response = visitor.get(address)
    refused(response, 401, "no_token")
    assert response.headers["www-authenticate"] == "Bearer"
    assert "set-cookie" not in response.headers
    assert TOKEN not in response.text


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer x", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xff"]
)
def test_nor_with_another(visitor, given):
    refused(visitor.get("/api/info", headers={"Authorization": given.encode("latin-1")}), 401, "no_token")
    refused(visitor.get("/", params={"token": given}) if given != TOKEN else visitor.get("/"), 401, "no_token")
    refused(visitor.get("/api/info", headers={"Cookie": f"{Door(TOKEN).cookie}=x; whence={TOKEN}"}), 401, "no_token")


def test_the_header(visitor):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert visitor.get("/api/health", headers=bearer).status_code == 200
    body = {"model": "sentiment", "text": TEXT}
    assert visitor.post("/api/explain", json=body, headers=bearer).status_code == 200
    refused(visitor.post("/api/explain", json=body), 401, "no_token")


def test_the_page_sets_a_cookie_that_scripts_and_other_sites_do_not_get(visitor):
    page = visitor.get("/", params={"token": TOKEN})
    assert page.status_code == 200
    name, *rules = page.headers["set-cookie"].split("; ")
    assert name == f"{Door(TOKEN).cookie}={TOKEN}"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(rules)
    assert visitor.get("/static/app.js").status_code == 200  # the client keeps cookies
    assert visitor.post("/api/explain", json={"model": "sentiment", "text": TEXT}).status_code == 200


def test_the_cookie_of_an_encrypted_page_stays_encrypted(closed):
    with TestClient(closed, base_url="https://localhost") as visitor:
        assert "; Secure" in visitor.get("/", params={"token": TOKEN}).headers["set-cookie"]


def test_only_the_page_takes_it_from_its_address(visitor):
    """Addresses are logged, shown and shared."""
    refused(visitor.get("/api/info", params={"token": TOKEN}), 401, "no_token")


def test_unknown_names_are_refused_before_the_token_is_looked_at(visitor):
    response = visitor.get("/", params={"token": TOKEN}, headers={"Host": "evil.example"})
    refused(response, 421, "unknown_host")
    assert "set-cookie" not in response.headers


def test_a_body_is_not_read_from_strangers(visitor):
    taken = []

    def long():
        for _ in range(100):
            taken.append(1)
            yield b"x" * 100_000

    refused(visitor.post("/api/explain", content=long(), headers={"Content-Type": "application/json"}), 401, "no_token")


def test_health_is_open_to_look_at_and_to_nothing_else(visitor):
    assert visitor.get("/health").status_code in (200, 503)  # 503: the server of a test is never up
    refused(visitor.post("/health", json={"text": "x" * 1000}), 401, "no_token")
    refused(visitor.post("/health", json={}, headers={"Host": "evil.example"}), 421, "unknown_host")


def test_cookies_of_others_may_be_malformed(visitor):
    cookies = f'other={{"a": 1}}; {Door(TOKEN).cookie}={TOKEN}'
    assert visitor.get("/api/info", headers={"Cookie": cookies}).status_code == 200


def test_tokens_are_long_and_never_the_same():
    assert len({new_token() for _ in range(100)}) == 100
    assert min(len(new_token()) for _ in range(100)) >= 43


def test_there_is_one_unless_the_server_is_at_localhost():
    assert token_of(None, local=True) is None
    assert token_of("", local=True) is None
    assert len(token_of(None, local=False)) >= 43
    assert len(token_of("new", local=True)) >= 43


WEAK = ["secret", "fifteen-letters", "with a space in it", 'with"a"quote-in-it', "mit-Ümlaut-im-Wort"]


@pytest.mark.parametrize("weak", WEAK)
def test_short_ones_are_refused(weak):
    with pytest.raises(InputError, match="--token new"):
        token_of(weak, local=True)
