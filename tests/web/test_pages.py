"""The page's files, the examples, and the API's documentation."""

from __future__ import annotations

import base64
import re
import shlex
from html import unescape
from importlib import resources

import pytest

import whence
from whence.models import BUNDLED
from whence.web import catalogue, docs
from whence.web.app import create_app
from whence.web.settings import Limits, Settings


def test_info(client):
    info = client.get("/api/info").json()
    models = {m["name"]: m for m in info["models"]}
    assert models["sentiment"]["labels"] == ["negative", "positive"]
    assert models["sentiment"]["max_tokens"] == 256
    assert {n: m["kind"] for n, m in models.items()} == {
        "sentiment": "text", "digits": "image", "tones": "sound", "writer": "generation", "viewer": "image_text",
    }  # fmt: skip
    assert (models["tones"]["max_tokens"], models["viewer"]["labels"]) == (None, [])
    methods = {m["name"]: m for m in info["methods"]}
    assert {n for n, m in methods.items() if m["slow"]} == {
        "attention_flow", "integrated_gradients", "occlusion", "shap", "smooth_grad",
    }  # fmt: skip
    assert all(m["summary"] for m in methods.values())
    assert set(info["default_methods"]) <= methods.keys()
    assert info["limits"]["characters"] == Limits().characters
    assert info["runs"] == []


def test_examples_work(client):
    for model in client.get("/api/info").json()["models"]:
        assert model["examples"]
        for example in model["examples"]:
            body = {"model": model["name"], "methods": ["gi"], **example}
            for name, kind in (("image", "image/png"), ("sound", "audio/wav")):
                if name in example:
                    file = client.get(example[name])
                    assert file.headers["content-type"] == kind
                    body[name] = base64.b64encode(file.content).decode()
            answer = client.post("/api/explain", json=body)
            assert answer.status_code == 200, answer.text
            best = answer.json()["prediction"]["labels"][0]
            if model["kind"] == "image":
                assert best == re.findall(r"\d", example["image"])[0]
            if model["kind"] == "sound":
                assert example["sound"] == f"/examples/{best}.wav"


def test_bundled_models_wait_until_they_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(catalogue, "load", lambda name, **_: asked.append(name) or whence.load("digits"))
    found = catalogue.Catalogue(Settings())
    found.load()
    assert asked == ["sentiment"]
    found.model("tones")
    assert asked == ["sentiment", "tones"]
    asked.clear()
    catalogue.Catalogue(Settings(loading={"task": "text-classification"})).load()
    assert asked == list(BUNDLED)  # what they were not made for may fail, and should at once
    asked.clear()
    catalogue.Catalogue(Settings(models=("digits", "my/model"))).load()
    assert asked == ["digits", "my/model"]


def test_the_shapes_are_told():
    """The questions that the page begins with, by the model that comes with whence."""
    model = whence.load("shapes")
    said = []
    for image, text in catalogue.SCENES:
        file = resources.files("whence.web") / image.removeprefix("/")
        said.append(whence.explain(model, {"image": file.read_bytes(), "text": text}).prediction.label)
    assert said == ["square", "triangle", "right", "left"]


@pytest.mark.parametrize(("package", "folder", "address"), [
    ("whence.web", "static", "/static"), ("whence.viz", "assets", "/assets"), ("whence.web", "examples", "/examples"),
])  # fmt: skip
def test_every_file_of_the_page(client, package, folder, address):
    entries = [e for e in (resources.files(package) / folder).iterdir() if e.is_file() and not e.name.startswith(".")]
    assert entries
    for entry in entries:
        response = client.get(f"{address}/{entry.name}")
        assert response.status_code == 200, entry.name
        assert response.content == entry.read_bytes()


def test_the_front_page(client):
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"


def test_docs_need_no_network_and_no_script(client):
    page = client.get("/api/docs").text
    assert "<script" not in page
    assert "style=" not in page
    assert not re.findall(r'(?:src|href)="(?!/)', page)
    document = client.get("/openapi.json").json()
    for path in document["paths"]:
        assert path in unescape(page)
    assert client.get("/api/docs.css").headers["content-type"].startswith("text/css")


def test_the_examples_in_the_docs_work(client):
    """Every curl command on the page, as it stands."""
    commands = [unescape(c) for c in re.findall(r"<pre>(.*?)</pre>", client.get("/api/docs").text, re.S)]
    posts = [shlex.split(c) for c in commands if " -d " in c]
    assert len(posts) == 10
    for words in posts:
        address = words[1].removeprefix("http://localhost")
        headers = {"Content-Type": "application/json"}
        response = client.post(address, content=words[words.index("-d") + 1].encode(), headers=headers)
        fits = 413 if address.startswith("/api/cite") else 200  # the tiny model that writes reads 64 characters
        assert response.status_code == fits, (words, response.text)


def test_the_examples_name_a_model_that_is_served(digits):
    app = create_app(Settings(models={"mine": digits}))
    page = docs.page(app.openapi(), "http://localhost/")
    assert "&quot;model&quot;: &quot;mine&quot;" in page
    assert "sentiment" not in page


def test_the_document_holds_the_limits(client, limited):
    def schema(opened):
        return opened.get("/openapi.json").json()["components"]["schemas"]["ExplainRequest"]["properties"]

    small = schema(limited(characters=123, sound_bytes=300, methods=2, targets=3, generate=4))
    assert small["text"]["anyOf"][0]["maxLength"] == 123
    assert small["sound"]["anyOf"][0]["maxLength"] == 400
    assert small["methods"]["maxItems"] == 2
    assert next(v for v in small["targets"]["anyOf"] if v.get("type") == "array")["maxItems"] == 3
    assert small["generate"]["anyOf"][0]["maximum"] == 4
    assert schema(client)["text"]["anyOf"][0]["maxLength"] == Limits().characters


def test_a_figure_is_a_file_of_the_type_it_says(client):
    content = client.get("/openapi.json").json()["paths"]["/api/figure"]["post"]["responses"]["200"]["content"]
    assert content["application/json"]["schema"]["type"] == "object"
    assert content["image/png"]["schema"]["format"] == "binary"


def test_every_answer_is_declared(client):
    """Every operation says what it may answer with; errors have one shape."""
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for operation in operations.values():
            assert {"200", "421", "500"} <= operation["responses"].keys(), path
            for code, response in operation["responses"].items():
                if code != "200":
                    body = response["content"]["application/json"]["schema"]
                    assert body["$ref"].endswith("/ErrorBody"), (path, code)
