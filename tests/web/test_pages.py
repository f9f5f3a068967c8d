"""The page's files, the examples, and the API's documentation."""

from __future__ import annotations

import base64
import re
import shlex
from html import unescape
from importlib import resources

import pytest

from whence.web import docs
from whence.web.app import create_app
from whence.web.settings import Limits, Settings


def test_info(client):
    info = client.get("/api/info").json()
    models = {m["name"]: m for m in info["models"]}
    assert models["sentiment"]["labels"] == ["negative", "positive"]
    assert models["sentiment"]["max_tokens"] == 256
    assert {n: m["kind"] for n, m in models.items()} == {
        "sentiment": "text", "digits": "image", "writer": "generation",
    }  # fmt: skip
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
            body = {"model": model["name"], "methods": ["gi"], "text": example}
            if model["kind"] == "image":
                file = client.get(example)
                assert file.headers["content-type"] == "image/png"
                body = {"model": model["name"], "methods": ["gi"], "image": base64.b64encode(file.content).decode()}
            answer = client.post("/api/explain", json=body)
            assert answer.status_code == 200
            if model["kind"] == "image":
                assert answer.json()["prediction"]["labels"][0] == re.findall(r"\d", example)[0]


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
    assert len(posts) == 3
    for words in posts:
        address = words[1].removeprefix("http://localhost")
        headers = {"Content-Type": "application/json"}
        response = client.post(address, content=words[words.index("-d") + 1].encode(), headers=headers)
        assert response.status_code == 200, (words, response.text)


def test_the_examples_name_a_model_that_is_served(digits):
    app = create_app(Settings(models={"mine": digits}))
    page = docs.page(app.openapi(), "http://localhost/")
    assert "&quot;model&quot;: &quot;mine&quot;" in page
    assert "sentiment" not in page


def test_the_document_holds_the_limits(client, limited):
    def schema(opened):
        return opened.get("/openapi.json").json()["components"]["schemas"]["ExplainRequest"]["properties"]

    small = schema(limited(characters=123, methods=2, targets=3, generate=4))
    assert small["text"]["anyOf"][0]["maxLength"] == 123
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
