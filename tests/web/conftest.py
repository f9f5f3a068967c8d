"""Servers in memory, with bundled and tiny models."""

from __future__ import annotations

import asyncio
import base64
import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image
from starlette.testclient import TestClient

import whence
from tests import small
from whence.web.app import create_app
from whence.web.settings import Limits, Settings

TEXT = "a gorgeous, witty, seductive movie"


@pytest.fixture(scope="session")
def app(sentiment, digits):
    tiny = whence.load((small.llama(), small.bytelevel()))
    return create_app(Settings(models={"sentiment": sentiment, "digits": digits, "writer": tiny}))


@pytest.fixture(scope="session")
def client(app):
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture(scope="session")
def explain(client):
    """POST /api/explain of a text by the bundled model."""

    def ask(**body):
        return client.post("/api/explain", json={"model": "sentiment", "text": TEXT} | body)

    return ask


@pytest.fixture
def limited(sentiment, digits):
    """A client of a server with the given limits."""

    def start(**limits):
        app = create_app(Settings(models={"sentiment": sentiment, "digits": digits}, limits=Limits(**limits)))
        return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)

    return start


def run_alone(coroutine):
    """The result of a coroutine on an event loop in a thread of its own: browser tests keep one in the main thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def picture(size=(28, 28), form="PNG", mode="L", colour=0, **options) -> str:
    """An image file as base64."""
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, form, **options)
    return base64.b64encode(file.getvalue()).decode()


def refused(response, status, code):
    """Check an error's status, code and shape; its text comes back."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert response.json().keys() == {"error"}
    assert error.keys() == {"code", "message", "hint"}
    assert error["code"] == code, error
    assert error["message"]
    assert error["hint"]
    assert "Traceback" not in response.text
    return f"{error['message']} {error['hint']}"
