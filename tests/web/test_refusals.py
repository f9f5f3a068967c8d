"""Requests that are too large, wrong, or unknown: every answer says what was wrong and what to do."""

from __future__ import annotations

import base64
import contextlib
import io
import random
import struct
import sys
import zlib

import numpy as np
import pytest

import whence
from tests.web.conftest import TEXT, picture, refused, sound
from whence.web.images import decoded
from whence.web.refusals import ApiError
from whence.web.settings import Limits
from whence.web.sounds import heard_in


def test_unknown_model_and_method_with_a_suggestion(client, explain):
    said = refused(client.post("/api/explain", json={"model": "sentimant", "text": "x"}), 404, "unknown_model")
    assert "Did you mean 'sentiment'?" in said
    for name in ("/etc", "../sentiment", "hf-internal-testing/tiny-bert", "sentiment/"):
        refused(client.post("/api/explain", json={"model": name, "text": "x"}), 404, "unknown_model")
    assert "'rollout'" in refused(explain(methods=["rolout"]), 422, "unknown_method")


def test_unknown_targets(explain):
    assert "'negative'" in refused(explain(targets=["negativ"]), 422, "unknown_label")
    assert "2 outputs" in refused(explain(targets=[7]), 422, "not_explained")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": 3},
        {"model": "sentiment", "text": 3},
        {"model": "sentiment", "text": "x", "methods": []},
        {"model": "sentiment", "text": "x", "methods": "lrp"},
        {"model": "sentiment", "text": "x", "methods": [{"recipe": "exact"}]},
        {"model": "sentiment", "text": "x", "targets": []},
        {"model": "sentiment", "text": "x", "targets": "none"},
        {"model": "sentiment", "text": "x", "targets": [{"this": "positive"}]},
        {"model": "sentiment", "text": "x", "targets": [1.5]},
        {"model": "sentiment", "text": "x", "targets": [True]},
        {"model": "sentiment", "text": "x", "targets": [10**400]},
        {"model": "sentiment", "text": "x", "special_tokens": "yes"},
        {"model": "sentiment", "text": "x", "trust_remote_code": True},
        {"model": "sentiment", "text": "x", "device": "cuda"},
        {"model": "writer", "text": "x", "generate": 3, "continuation": "y"},
        [],
        "text",
    ],
)
def test_invalid(client, body):
    said = refused(client.post("/api/explain", json=body), 422, "invalid")
    assert "pydantic" not in said


MAY_STAND = '; send a label, a class number or {"this": …, "that": …}'
NUMBER = "a class number is a whole number from 0 to 10,000,000"


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("-1", NUMBER),
        ("1.5", NUMBER),
        ("NaN", NUMBER),
        ("1e400", NUMBER),
        ("true", "this is no text, no number and no object"),
        ("[0]", "this is no text, no number and no object"),
        ('{"this": "positive"}', '"that" is missing'),
        ('{"this": "positive", "that": -1}', "the object has other names, or values of another kind"),
        ('""', "String should have at least 1 character"),
        ('"\\ud800"', "there is half a character (a lone surrogate) in the text"),
    ],
)
def test_what_is_wrong_with_a_target_and_what_may_stand_there(client, target, fault):
    headers = {"Content-Type": "application/json"}
    several = f'{{"model": "sentiment", "text": "x", "targets": ["positive", {target}]}}'
    said = refused(client.post("/api/explain", content=several, headers=headers), 422, "invalid")
    assert said.startswith(f"targets[1]: {fault}{MAY_STAND}, of a continuation also")
    one = f'{{"model": "sentiment", "text": "x", "removed": [1], "target": {target}}}'
    said = refused(client.post("/api/remove", content=one, headers=headers), 422, "invalid")
    assert said.startswith(f"target: {fault}{MAY_STAND} See")


@pytest.mark.parametrize("targets", ["none", 3, {}, True])
def test_targets_that_are_no_list(explain, targets):
    said = refused(explain(targets=targets), 422, "invalid")
    assert said.startswith('targets: send null, "all", or a list of targets: a label, a class number')


@pytest.mark.parametrize("body", [[], 3, "text", True])
def test_a_request_is_an_object(client, body):
    said = refused(client.post("/api/explain", json=body), 422, "invalid")
    assert said.startswith('the request must be a JSON object, as {"model": …, "text": …}')
    said = refused(client.post("/api/explain", json={"model": "writer", "messages": [body]}), 422, "invalid")
    assert said.startswith("messages[0] must be a JSON object See")


def test_not_json(client):
    headers = {"Content-Type": "application/json"}
    refused(client.post("/api/explain", content=b"{", headers=headers), 400, "not_json")
    refused(client.post("/api/explain", content=b"\xff\xfe", headers=headers), 400, "not_json")


def test_half_a_character(client):
    body = b'{"model": "sentiment", "text": "\\ud800 x"}'
    response = client.post("/api/explain", content=body, headers={"Content-Type": "application/json"})
    assert refused(response, 422, "invalid").startswith("text: there is half a character")
    body = b'{"model": "\\ud800", "text": "x"}'
    response = client.post("/api/explain", content=body, headers={"Content-Type": "application/json"})
    assert refused(response, 422, "invalid").startswith("model: there is half a character")


def test_wrong_kind_of_input(client):
    refused(client.post("/api/explain", json={"model": "digits", "text": "x"}), 422, "wrong_input")
    refused(client.post("/api/explain", json={"model": "sentiment", "image": picture()}), 422, "wrong_input")
    refused(client.post("/api/explain", json={"model": "sentiment"}), 422, "wrong_input")
    body = {"model": "sentiment", "text": "x", "generate": 3}
    refused(client.post("/api/explain", json=body), 422, "wrong_input")
    refused(client.post("/api/explain", json={"model": "writer", "text": "x", "targets": "all"}), 422, "invalid")
    both = {"model": "viewer", "text": "x", "image": picture()}
    refused(client.post("/api/explain", json=both | {"targets": "all"}), 422, "invalid")
    for body in (both | {"image": None}, both | {"text": None}, both | {"pair": "y"}, both | {"sound": sound()}):
        said = refused(client.post("/api/explain", json=body), 422, "wrong_input")
        assert said == "This model reads images with text. Send image, as base64, and text."
    for body in ({"text": "x"}, {"image": picture()}, {}, {"sound": sound(), "text": "x"}):
        assert "sound" in refused(client.post("/api/explain", json={"model": "tones", **body}), 422, "wrong_input")
    refused(client.post("/api/explain", json={"model": "sentiment", "sound": sound()}), 422, "wrong_input")


def test_empty(explain):
    for text in ("", "  \n\t "):
        refused(explain(text=text), 422, "empty")


def test_characters(limited):
    client = limited(characters=100)
    assert client.post("/api/explain", json={"model": "sentiment", "text": "a" * 100}).status_code == 200
    said = refused(client.post("/api/explain", json={"model": "sentiment", "text": "a" * 101}), 413, "too_long")
    assert "100" in said


def test_tokens_of_the_model_and_of_the_server(explain, limited):
    assert "256" in refused(explain(text="good " * 300), 413, "too_long")
    client = limited(tokens=8, attention_tokens=5)
    body = {"model": "sentiment", "text": "good " * 6}
    assert client.post("/api/explain", json=body).status_code == 200
    assert "9 tokens" in refused(client.post("/api/explain", json=body | {"text": "good " * 7}), 413, "too_long")
    assert "5" in refused(client.post("/api/attention", json=body), 413, "too_long")


def test_what_is_written_counts(client):
    body = {"model": "writer", "text": "x" * 60}
    assert client.post("/api/explain", json=body | {"generate": 4}).status_code == 200
    assert "65 tokens" in refused(client.post("/api/explain", json=body | {"generate": 5}), 413, "too_long")
    refused(client.post("/api/explain", json=body | {"continuation": "y" * 5}), 413, "too_long")
    refused(client.post("/api/explain", json=body | {"continuation": ""}), 422, "empty")


def test_counts(explain, client):
    assert "8" in refused(explain(methods=list(whence.methods)[:9]), 422, "too_many")
    assert "12" in refused(explain(targets=[0] * 13), 422, "too_many")
    assert "64" in refused(
        client.post("/api/explain", json={"model": "writer", "text": "x", "generate": 65}), 422, "too_many"
    )


def test_size_of_image_file_and_of_image(limited):
    client = limited(image_bytes=2000, image_pixels=1000)
    noise = base64.b64encode(bytes(2001)).decode()
    refused(client.post("/api/explain", json={"model": "digits", "image": noise}), 413, "too_large")
    large = {"model": "digits", "image": picture((40, 40))}
    assert "1,000" in refused(client.post("/api/explain", json=large), 413, "too_large")
    assert client.post("/api/explain", json=large | {"image": picture((20, 50))}).status_code == 200


def test_size_and_length_of_a_sound(limited):
    client = limited(sound_bytes=20_000, sound_seconds=0.5, sound_samples=5_000)
    body = {"model": "tones", "methods": ["gi"]}
    assert client.post("/api/explain", json=body | {"sound": sound(0.5)}).status_code == 200
    said = refused(client.post("/api/explain", json=body | {"sound": sound(0.51)}), 413, "too_long")
    assert said == "The sound is 0.5 s long, and the limit is 0.5 s. Cut it."
    assert "8,000" in refused(
        client.post("/api/explain", json=body | {"sound": sound(0.5, channels=2)}), 413, "too_long"
    )
    assert "20,000" in refused(client.post("/api/explain", json=body | {"sound": sound(2.0)}), 413, "too_large")
    silence = io.BytesIO()  # an hour in a few bytes
    pytest.importorskip("soundfile").write(silence, np.zeros(3600 * 100, np.int16), 100, format="FLAC")
    hours = base64.b64encode(silence.getvalue()).decode()
    assert len(hours) < 20_000
    assert "3,600.0 s" in refused(client.post("/api/explain", json=body | {"sound": hours}), 413, "too_long")


def test_other_sounds_need_soundfile_and_say_so(client, monkeypatch):
    body = {"model": "tones", "methods": ["gi"]}
    flac = sound(form="FLAC")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert client.post("/api/explain", json=body | {"sound": sound()}).status_code == 200
    said = refused(client.post("/api/explain", json=body | {"sound": flac}), 422, "not_installed")
    assert "pip install 'whence-xai[sound]'" in said


def test_what_is_wrong_with_a_sound_is_said(client):
    broken = base64.b64encode(b"fLaC" + bytes(100)).decode()
    response = client.post("/api/explain", json={"model": "tones", "sound": broken})
    said = refused(response, 422, "bad_sound")
    assert said.startswith("The sound can't be read: ")
    assert "}" not in said  # the end of what to pass in Python instead
    assert len(said) > 30


@pytest.mark.parametrize("form", ["AIFF", "AU", "CAF"])
def test_other_formats_of_sounds_are_not_read(client, form):
    response = client.post("/api/explain", json={"model": "tones", "sound": sound(form=form)})
    assert "WAV, FLAC" in refused(response, 422, "bad_sound")


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3"])
def test_damaged_sounds(form):
    """A few bytes changed at random, or the end missing: read, or refused; nothing else."""
    chance = random.Random(0)
    whole = base64.b64decode(sound(form=form))
    for _ in range(100):
        broken = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randint(1, 6)):
            broken[chance.randrange(min(len(broken), 60))] = chance.randrange(256)
        with contextlib.suppress(ApiError):
            samples, rate = heard_in(base64.b64encode(broken).decode(), Limits(sound_samples=10**6))
            assert samples.ndim == 1
            assert rate > 0


def _bomb(side: int) -> str:
    """A PNG that says it is huge, and of which nothing needs to be unpacked to know."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


@pytest.mark.parametrize("side", [7_000, 15_000, 100_000, 2**31 - 1])
def test_decompression_bombs(client, side):
    refused(client.post("/api/explain", json={"model": "digits", "image": _bomb(side)}), 413, "too_large")


@pytest.mark.parametrize("cut", [0, 1, 20, 40, 60])
def test_broken_images(client, cut):
    whole = base64.b64decode(picture((60, 60), mode="RGB"))
    body = {"model": "digits", "image": base64.b64encode(whole[:cut]).decode()}
    refused(client.post("/api/explain", json=body), 422, "bad_image")


@pytest.mark.parametrize("size", [(1, 51), (51, 1), (1, 20_000)])
def test_strips(client, size):
    refused(client.post("/api/explain", json={"model": "digits", "image": picture(size)}), 422, "bad_image")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_damaged_images(form):
    """A few bytes changed at random: read, or refused; nothing else."""
    chance = random.Random(0)
    whole = base64.b64decode(picture((9, 9), form=form, mode="RGB", colour=(200, 30, 90)))
    for _ in range(200):
        broken = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        with contextlib.suppress(ApiError):
            assert decoded(base64.b64encode(broken).decode(), Limits(image_pixels=10**6)).mode in ("L", "RGB")


@pytest.mark.parametrize("form", ["TIFF", "PPM", "ICO", "TGA"])
def test_other_formats_are_not_read(client, form):
    body = {"model": "digits", "image": picture(form=form)}
    refused(client.post("/api/explain", json=body), 422, "bad_image")


def test_unknown_addresses_and_verbs(client):
    refused(client.get("/api/nothing"), 404, "not_found")
    refused(client.get("/api/explain"), 405, "not_allowed")
    refused(client.delete("/api/info", headers={"Content-Type": "application/json"}), 405, "not_allowed")


def test_a_fault_is_logged_and_not_shown(client, monkeypatch, caplog):
    from whence.web import answer_explain as explaining

    def broken(*_):
        raise RuntimeError(f"secret {TEXT}")

    monkeypatch.setattr(explaining, "compared", broken)
    response = client.post("/api/explain", json={"model": "sentiment", "text": TEXT})
    said = refused(response, 500, "internal")
    assert "secret" not in response.text
    number = said.partition("id ")[2][:8]
    record = next(r for r in caplog.records if number in r.getMessage())
    assert record.exc_info
