"""Models that choose among labels that come with the request: texts, pictures and sounds."""

from __future__ import annotations

import base64
import json
import re
import shlex
from html import unescape

import numpy as np
import pytest
from starlette.testclient import TestClient

import whence
from tests import small
from tests.choosers import LABELS, choosers
from tests.web.conftest import picture, refused, sound
from whence.web import docs
from whence.web.app import create_app
from whence.web.requests import ExplainRequest
from whence.web.settings import Limits, Settings

TEXT = "the film was slow"


@pytest.fixture(scope="module")
def models():
    return choosers() | {"plain": whence.load((small.classifier(), small.wordpiece()))}


@pytest.fixture(scope="module")
def app(models):
    return create_app(Settings(models=models))


@pytest.fixture(scope="module")
def client(app):
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def given():
    """What each model is asked about."""
    seen = {"image": picture((40, 50), mode="RGB", colour="red")}
    return {"judge": {"text": TEXT}, "chooser": {"text": TEXT}, "clip": seen, "clap": {"sound": sound()}}


CHOOSERS = ["judge", "chooser", "clip", "clap"]


def in_python(name, body):
    """The same input, as Python has it."""
    key = "choices" if name == "chooser" else "labels"
    if "text" in body:
        return {"text": body["text"], key: LABELS}
    sort, called = ("image", "image") if "image" in body else ("sound", "audio")
    return {called: base64.b64decode(body[sort]), key: LABELS}


def test_info_says_what_a_model_chooses_for(client):
    models = {m["name"]: m for m in client.get("/api/info").json()["models"]}
    assert {n: m["kind"] for n, m in models.items()} == {
        "judge": "text", "chooser": "text", "clip": "pair", "clap": "sound", "plain": "text",
    }  # fmt: skip
    assert models["plain"]["chooses"] is None
    told = {n: (m["chooses"]["kind"], m["chooses"]["texts"]) for n, m in models.items() if m["chooses"]}
    assert told == {
        "judge": ("text", "labels"), "chooser": ("text", "choices"), "clip": ("image", "labels"),
        "clap": ("sound", "labels"),
    }  # fmt: skip
    for name in CHOOSERS:
        assert {"lrp", "occlusion"} <= set(models[name]["chooses"]["methods"])
        assert "gae" not in models[name]["chooses"]["methods"]
    assert "occlusion" not in models["clip"]["methods"]  # of similarities
    assert "labels" not in models["clip"]["examples"][0]
    assert models["judge"]["examples"] == models["judge"]["chooses"]["examples"]


@pytest.mark.parametrize("name", CHOOSERS)
def test_the_examples_have_labels_and_work(client, name):
    models = {m["name"]: m for m in client.get("/api/info").json()["models"]}
    for example in models[name]["chooses"]["examples"]:
        body = {"model": name, "methods": ["gi"], **example}
        for file in {"image", "sound"} & example.keys():
            body[file] = base64.b64encode(client.get(example[file]).content).decode()
        answer = client.post("/api/explain", json=body)
        assert answer.status_code == 200, answer.text
        assert set(answer.json()["prediction"]["labels"]) == set(example["labels"])


@pytest.mark.parametrize("name", CHOOSERS)
def test_an_answer_is_what_python_says(client, models, given, name):
    body = {"model": name, **given[name], "labels": LABELS, "targets": ["good", {"this": "good", "that": "a bad film"}]}
    one, other = client.post("/api/explain", json=body).json()["explanations"]
    wanted = whence.explain(models[name], in_python(name, given[name]), target="good")
    # the two targets are explained in one batch, and python's alone
    np.testing.assert_allclose(one["scores"], wanted.scores, atol=1e-4 * np.abs(wanted.scores).max())
    assert (one["target"], one["verdict"][1]["kind"]) == ("good", "said")
    assert other["target"] == "good rather than a bad film"
    assert set(one["prediction"]["labels"]) == set(LABELS)
    assert len(one["parts"]) == (1 if "text" in given[name] else 2)


@pytest.mark.parametrize("name", CHOOSERS)
def test_streams_figures_and_what_is_taken_away(client, given, name):
    body = {"model": name, **given[name], "labels": LABELS}
    lines = client.post("/api/stream", json=body | {"methods": ["lrp", "gi"], "faithfulness": True}).text.splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert events.count("explained") == 2
    assert "judged" in events
    assert events[-1] == "done"
    drawn = client.post("/api/figure", json=body | {"format": "svg"})
    assert drawn.status_code == 200, drawn.text
    assert drawn.text.startswith("<svg")
    gone = client.post("/api/remove", json=body | {"target": "good", "removed": [1, 2], "draws": 2}).json()
    assert gone["whole"]["label"] in LABELS
    assert gone["whole"]["score"] != gone["without"]["score"]
    assert len(gone["random"]) == 2


def test_all_targets_are_the_labels(client):
    body = {"model": "judge", "text": TEXT, "labels": LABELS, "targets": "all"}
    found = client.post("/api/explain", json=body).json()["explanations"]
    assert {e["target"] for e in found} == set(LABELS)


def test_another_label_is_unknown(client):
    body = {"model": "judge", "text": TEXT, "labels": LABELS, "targets": ["goood"]}
    assert "'good'" in refused(client.post("/api/explain", json=body), 422, "unknown_label")


@pytest.mark.parametrize("address", ["explain", "stream", "figure", "remove"])
def test_labels_are_needed_by_those_that_choose_and_by_no_other(client, given, address):
    more = {"remove": {"removed": [1]}, "figure": {"format": "svg"}}.get(address, {})

    def ask(**body):
        return client.post(f"/api/{address}", json=body | more)

    for name in CHOOSERS:
        assert "and labels" in refused(ask(model=name, **given[name]), 422, "wrong_input")
    assert "Leave labels out" in refused(ask(model="plain", text=TEXT, labels=LABELS), 422, "wrong_input")
    assert "/api/similarity" in refused(ask(model="clip", text=TEXT), 422, "wrong_input")
    assert "Send image" in refused(ask(model="clip", text=TEXT, labels=LABELS), 422, "wrong_input")
    assert "Send sound" in refused(ask(model="clap", image=picture(), labels=LABELS), 422, "wrong_input")
    refused(ask(model="judge", text=TEXT, pair="x", labels=LABELS), 422, "wrong_input")
    refused(ask(model="judge", text=" ", labels=LABELS), 422, "empty")


def test_labels_have_limits(client, models):
    def ask(labels, text=TEXT):
        return client.post("/api/explain", json={"model": "judge", "text": text, "labels": labels})

    assert "64 at most" in refused(ask([f"l {n}" for n in range(65)]), 422, "too_many")
    refused(ask(["x" * 201]), 422, "invalid")
    refused(ask([""]), 422, "invalid")
    refused(ask("good"), 422, "invalid")
    refused(ask([3]), 422, "invalid")
    refused(ask([]), 422, "empty")
    refused(ask(["good", " "]), 422, "empty")
    assert "each once" in refused(ask(["good", "bad", " good"]), 422, "invalid")
    assert "text with a label has" in refused(ask(["good"], "good " * 155), 413, "too_long")
    assert ask(["good"]).status_code == 200  # a choice of one
    few = TestClient(create_app(Settings(models={"judge": models["judge"]}, limits=Limits(labels=2, tokens=20))),
                     base_url="http://localhost")  # fmt: skip
    few.app.state.jobs.start()
    body = {"model": "judge", "text": "good"}
    assert "2 at most" in refused(few.post("/api/explain", json=body | {"labels": ["a", "b", "c"]}), 422, "too_many")
    assert few.post("/api/explain", json=body | {"labels": ["a"]}).status_code == 200
    said = refused(few.post("/api/explain", json=body | {"labels": ["good", "bad"]}), 413, "too_long")
    assert "more than 20 tokens" in said


def test_as_many_labels_as_are_allowed_are_parsed(client):
    """The count of values in a body has room for them."""
    assert Limits(labels=300).items - Limits(labels=0).items == 300
    assert Limits(labels=300).body_bytes - Limits(labels=0).body_bytes == 300 * 200 * 12
    removed = [n % 64 for n in range(512)]
    body = {"model": "clap", "sound": sound(), "labels": [f"{n}" for n in range(64)], "removed": removed}
    answer = client.post("/api/remove", json=body)
    assert answer.status_code == 200, answer.text


def test_a_label_that_is_the_path_of_a_picture_is_a_text(client, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.png").write_bytes(base64.b64decode(picture()))
    answer = client.post("/api/explain", json={"model": "clip", **given["clip"], "labels": ["x.png", "good"]}).json()
    assert set(answer["prediction"]["labels"]) == {"x.png", "good"}
    assert answer["explanations"][0]["tokens"][1:5] == ["x", ".", "p", "n"]


@pytest.mark.parametrize("name", ["judge", "chooser", "clap"])
def test_there_is_no_attention_over_all(client, given, name):
    body = {"model": name, **given[name], "labels": LABELS}
    assert "no attention" in refused(client.post("/api/attention", json=body), 422, "wrong_input")


def test_attention_of_a_clip_is_of_one_of_the_two(client, given):
    seen = {"model": "clip", **given["clip"]}
    assert client.post("/api/attention", json=seen).status_code == 200
    said = refused(client.post("/api/attention", json=seen | {"labels": LABELS}), 422, "wrong_input")
    assert "without labels" in said


def test_requests_with_other_labels_are_explained_in_one_call(client, models):
    from whence.web.answer_explain import answered_together, likeness
    from whence.web.catalogue import Catalogue

    found = [["good", "bad"], ["a bad film", "slow", "good"], ["good"]]
    bodies = [ExplainRequest(model="judge", text=TEXT, labels=labels, targets=["good" if "good" in labels else "slow"])
              for labels in found]  # fmt: skip
    assert len({likeness(body) for body in bodies}) == 1
    assert likeness(ExplainRequest(model="judge", text=TEXT * 10, labels=[f"{n}" for n in range(20)])) is None
    answers = answered_together(bodies, Catalogue(Settings(models=models)), Limits())
    for body, answer in zip(bodies, answers, strict=True):
        alone = whence.explain(models["judge"], {"text": TEXT, "labels": body.labels}, target="good")
        np.testing.assert_allclose(answer["explanations"][0]["scores"], alone.scores, atol=1e-5)


def test_the_document_says_how_many_and_its_examples_work(client, models):
    document = client.get("/openapi.json").json()
    for schema in ("ExplainRequest", "StreamRequest", "FigureRequest", "RemoveRequest", "AttentionRequest"):
        fields = document["components"]["schemas"][schema]["properties"]
        bounds = next(v for v in fields["labels"]["anyOf"] if v.get("type") == "array")
        assert (bounds["maxItems"], bounds["items"]["maxLength"]) == (64, 200)
    page = docs.page(document, "http://localhost/")
    posts = [shlex.split(unescape(c)) for c in re.findall(r"<pre>(.*?)</pre>", page, re.S) if " -d " in c]
    asked = [words for words in posts if re.search("api/(explain|stream|figure|remove|attention)$", words[1])]
    assert len(asked) == 5
    for words in asked:
        body = words[words.index("-d") + 1].encode()
        response = client.post(words[1], content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 200, response.text
    seen = create_app(Settings(models={"clip": models["clip"]})).openapi()
    example = seen["components"]["schemas"]["ExplainRequest"]["example"]
    assert example["image"] == "…"
    assert example["labels"]
