"""Servers in memory, with bundled and tiny models."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

import whence
from tests import small
from whence.web.app import create_app
from whence.web.settings import Limits, Settings

TEXT = "a gorgeous, witty, seductive movie"


@pytest.fixture(scope="session")
def app(sentiment, digits, tones):
    writer, viewer = whence.load((small.llama(), small.bytelevel())), whence.load(small.llava())
    models = {"sentiment": sentiment, "digits": digits, "tones": tones, "writer": writer, "viewer": viewer}
    return create_app(Settings(models=models))


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
def limited(sentiment, digits, tones):
    """A client of a server with the given limits."""

    def start(**limits):
        models = {"sentiment": sentiment, "digits": digits, "tones": tones}
        app = create_app(Settings(models=models, limits=Limits(**limits)))
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


def sound(seconds=0.2, rate=8000, channels=1, form="WAV") -> str:
    """A sound file of a rising tone as base64; WAV is written by Python itself."""
    time = np.arange(int(seconds * rate)) / rate
    wave_ = 0.5 * np.sin(2 * np.pi * (300 + 400 * time) * time)
    samples = np.repeat((32000 * wave_).astype(np.int16)[:, None], channels, 1)
    file = io.BytesIO()
    if form == "WAV":
        with wave.open(file, "wb") as opened:
            opened.setnchannels(channels), opened.setsampwidth(2), opened.setframerate(rate)
            opened.writeframes(samples.tobytes())
    else:
        pytest.importorskip("soundfile").write(file, samples, rate, format=form)
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
