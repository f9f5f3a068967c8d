"""POST /api/write, /api/write/figure, /api/cite/figure: texts and conversations, and files of what was written."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

import whence
from tests import small
from tests.web.conftest import refused
from whence import cancel
from whence.results import Citations, Trace
from whence.web import answer_writing, figures
from whence.web.app import create_app
from whence.web.catalogue import Catalogue
from whence.web.requests import CitedFormat, MessageBody, WriteFigureRequest, WrittenFormat
from whence.web.settings import Limits, Settings

CHAT = [{"role": "system", "content": "terse"}, {"role": "user", "content": "a plot?"}]
RENDERED = "system:terse;user:a plot?;"
STARTS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!doctype html", "json": b"{", "npz": b"PK"}


def silent():
    """A tokenizer without a chat template."""
    tokenizer = copy.deepcopy(small.bytelevel(limit=512))
    tokenizer.chat_template = None
    return tokenizer


@pytest.fixture(scope="module")
def writer():
    return whence.load((small.long_llama(), small.bytelevel(limit=512)))


@pytest.fixture(scope="module")
def client(writer, sentiment):
    plain = whence.load((small.long_llama(), silent()))
    teller = whence.load((small.t5(), small.wordpiece()))
    models = {"writer": writer, "plain": plain, "teller": teller, "sentiment": sentiment}
    app = create_app(Settings(models=models, limits=Limits(characters=2000, generate=16)))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as opened:
        yield opened


def write(client, model="writer", **body):
    response = client.post("/api/write", json={"model": model, "generate": 5} | body)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def test_models_say_whether_they_take_messages(client):
    models = {m["name"]: m for m in client.get("/api/info").json()["models"]}
    assert {name: m["chats"] for name, m in models.items()} == {
        "writer": True, "plain": False, "teller": False, "sentiment": False,
    }  # fmt: skip
    assert models["writer"]["examples"][0] != models["plain"]["examples"][0]


def test_a_conversation_is_answered_as_in_python(client, writer):
    *told, trace = write(client, messages=CHAT)
    wanted = whence.explain(writer, CHAT, generate=5)
    assert "".join(event["text"] for event in told).rstrip("\N{REPLACEMENT CHARACTER}") in wanted.text
    assert trace["ids"] == list(wanted.ids)
    assert [p["name"] for p in trace["data"]["passages"]] == [
        "template", "system", "template", "user", "template", "written",
    ]  # fmt: skip
    np.testing.assert_allclose(trace["data"]["target_scores"], wanted.target_scores, atol=1e-4)
    bare = write(client, text="a plot?")[-1]
    assert [p["name"] for p in bare["data"]["passages"]] == ["prompt", "written"]


def test_what_is_no_conversation_is_refused(client):
    def ask(model="writer", **body):
        return client.post("/api/write", json={"model": model} | body)

    assert "missing" in refused(ask(), 422, "wrong_input")
    assert "there twice" in refused(ask(text="a", messages=CHAT), 422, "wrong_input")
    assert "no chat template" in refused(ask("plain", messages=CHAT), 422, "wrong_input")
    assert "no chat template" in refused(ask("teller", messages=CHAT), 422, "wrong_input")
    refused(ask("sentiment", messages=CHAT), 422, "wrong_input")
    refused(ask(messages=[{"role": "user", "content": " "}]), 422, "empty")
    refused(ask(messages=[]), 422, "invalid")
    refused(ask(messages=[{"role": "wizard", "content": "a"}]), 422, "invalid")
    refused(ask(messages=[{"role": "user"}]), 422, "invalid")
    half = b'{"model": "writer", "messages": [{"role": "user", "content": "\\ud800"}]}'
    refused(client.post("/api/write", content=half, headers={"Content-Type": "application/json"}), 422, "invalid")
    refused(ask(messages=[{"role": "user", "content": "a"}] * 33), 422, "invalid")
    refused(ask(messages=[{"role": "user", "content": "a" * 1001}] * 2), 413, "too_long")
    assert "512" in refused(ask(messages=[{"role": "user", "content": "a" * 500}]), 413, "too_long")
    refused(ask(messages=[{"role": "user", "content": "a" * 600}]), 413, "too_long")


def test_the_most_messages_fit_into_a_request(client):
    assert len(write(client, messages=[{"role": "user", "content": "a"}] * 32)) > 1


def test_what_a_template_refuses_is_the_client_s_mistake(writer):
    tokenizer = copy.deepcopy(small.bytelevel(limit=512))
    tokenizer.chat_template = "{{ raise_exception('no system prompt here') }}"
    app = create_app(Settings(models={"strict": whence.load((small.long_llama(), tokenizer))}))
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    answer = client.post("/api/write", json={"model": "strict", "messages": CHAT})
    assert "no system prompt here" in refused(answer, 422, "not_explained")


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("prompt", [{"messages": CHAT}, {"text": "a plot"}], ids=["chat", "text"])
def test_why_this_rather_than_that_is_the_model_called_by_hand(client, prompt, place):
    ids = write(client, **prompt)[-1]["ids"]
    before = small.bytelevel(limit=512)(RENDERED if "messages" in prompt else prompt["text"])["input_ids"]
    rival = next(n for n in small.bytelevel()("xy")["input_ids"] if n != ids[place])
    with torch.no_grad():
        row = small.long_llama()(torch.tensor([[*before, *ids[:place]]])).logits[0, -1].double()
    others = row[torch.arange(len(row)) != ids[place]]
    for target, wanted in (
        ({"than": small.bytelevel().decode([rival])}, row[ids[place]] - row[rival]),
        ({}, row[ids[place]] - others.max()),
    ):
        body = {"model": "writer", **prompt, "continuation": ids, "methods": ["gi"]}
        answer = client.post("/api/explain", json=body | {"targets": [{"written": place, **target}]}).json()
        (exp,) = answer["explanations"]
        assert exp["target_score"] == pytest.approx(float(wanted), abs=1e-4)
        assert len(exp["tokens"]) == len(before) + place
        assert " rather than " in exp["target"]
        assert answer["prediction"]["scores"][0] == pytest.approx(float(row.max()), abs=1e-4)


def test_messages_stand_alone_in_an_explanation(client):
    def ask(**body):
        return client.post("/api/explain", json={"model": "writer", "methods": ["gi"]} | body)

    (exp,) = ask(messages=CHAT).json()["explanations"]
    assert len(exp["tokens"]) == len(RENDERED)
    assert set(exp["sides"]) == {"system", "user", "template"}
    refused(ask(messages=CHAT, text="a"), 422, "invalid")
    refused(ask(messages=CHAT, model="sentiment"), 422, "wrong_input")
    refused(ask(messages=CHAT, targets=[{"written": 0}]), 422, "not_explained")
    refused(ask(messages=CHAT, continuation=[5], targets=[{"written": 1}]), 422, "not_explained")
    refused(ask(messages=CHAT, continuation=[999_999]), 422, "not_explained")
    assert "continuation: " in refused(ask(messages=CHAT, continuation=[]), 422, "invalid")
    refused(ask(messages=[{"role": "user", "content": "a" * 500}], continuation=[5] * 16), 413, "too_long")


# -- files ---------------------------------------------------------------------------------------------------------


def figure(client, address, form, **body):
    response = client.post(f"/api/{address}/figure", json={"model": "writer", "format": form} | body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == figures.TYPES[form]
    assert response.headers["content-disposition"] == f'attachment; filename="whence.{form}"'
    assert response.content.lstrip()[:20].lower().startswith(STARTS.get(form, b"").lower())
    return response.content


@pytest.fixture(scope="module")
def said(client):
    return write(client, messages=CHAT)[-1]


@pytest.mark.filterwarnings("ignore:no installed font")  # bytes that are no letters
@pytest.mark.parametrize("form", WrittenFormat.__args__)
def test_files_of_what_was_written(client, said, form, tmp_path, monkeypatch):
    monkeypatch.setattr(type(small.long_llama()), "generate", lambda *a, **k: pytest.fail("the model wrote again"))
    made = figure(client, "write", form, messages=CHAT, continuation=said["ids"])
    if form in ("json", "npz"):
        path = tmp_path / f"trace.{form}"
        path.write_bytes(made)
        trace = Trace.load(path)
        assert list(trace.ids) == said["ids"]
        assert set(trace.whole.sides) == {"system", "user", "template", "continuation"}
        np.testing.assert_allclose(trace.target_scores, said["data"]["target_scores"], atol=1e-4)
    if form == "txt":
        assert "user:" in made.decode()


def test_a_file_is_in_every_format_that_the_result_has(writer):
    for result, kind in (
        (whence.explain(writer, "a", generate=2), WrittenFormat),
        (whence.cite(writer, "a?", ["b."], answer="c"), CitedFormat),
    ):
        able = {*result._writers(), *(f".{name}" for name in ("svg", "png", "pdf", "tex", "txt", "html"))}
        assert able == {f".{form}" for form in kind.__args__}
        with pytest.raises(whence.WhenceError) as refusal:
            result.save("x.doc")
        assert str(refusal.value).split("ends in ")[1].split() == sorted(able)


def test_a_file_of_a_text_and_of_a_translation(client, tmp_path):
    for model, prompt in (("writer", "abc"), ("plain", "abc"), ("teller", "a good movie")):
        ids = write(client, model, text=prompt, generate=3)[-1]["ids"]
        path = tmp_path / f"{model}.json"
        path.write_bytes(figure(client, "write", "json", model=model, text=prompt, continuation=ids))
        assert list(Trace.load(path).ids) == ids
    path.write_bytes(figure(client, "write", "json", text="abc", continuation=" def"))
    assert Trace.load(path).text == " def"


def test_files_have_the_limits_of_writing(client):
    def ask(**body):
        given = {"model": "writer", "text": "abc", "continuation": [5], "format": "svg"} | body
        return client.post("/api/write/figure", json={k: v for k, v in given.items() if v is not None})

    refused(ask(continuation=[5] * 17), 422, "too_many")
    refused(ask(continuation="a" * 17), 422, "too_many")
    refused(ask(continuation=None), 422, "invalid")
    refused(ask(continuation=""), 422, "empty")
    refused(ask(continuation=[-1]), 422, "invalid")
    refused(ask(continuation=[999_999]), 422, "not_explained")
    refused(ask(text="a" * 510, continuation=[5] * 3), 413, "too_long")
    refused(ask(messages=CHAT), 422, "wrong_input")
    refused(ask(model="sentiment"), 422, "wrong_input")
    refused(ask(format="csv"), 422, "invalid")
    refused(ask(method="nope"), 422, "unknown_method")


class Soon(cancel.Token):
    """Cancelled once it has been asked a few times: in the middle of whatever asks."""

    def __init__(self, times):
        self.left = times

    @property
    def reason(self):
        self.left -= 1
        return None if self.left > 0 else "the client left"


def test_a_file_stops_when_the_client_leaves(writer, said):
    catalogue = Catalogue(Settings(models={"writer": writer}))
    request = WriteFigureRequest(
        model="writer", messages=[MessageBody(**m) for m in CHAT], continuation=said["ids"], format="html"
    )
    with pytest.raises(cancel.Cancelled), cancel.scope(Soon(3)):
        answer_writing.written_again(request, catalogue, Limits())


ASKED = {"question": "a b", "documents": ["One text.", "Two texts."]}


@pytest.mark.filterwarnings("ignore:no installed font")
@pytest.mark.parametrize("form", CitedFormat.__args__)
def test_files_of_citations(client, form, tmp_path, monkeypatch):
    found = client.post("/api/cite", json={"model": "writer", "generate": 8, **ASKED}).json()
    monkeypatch.setattr(type(small.long_llama()), "generate", lambda *a, **k: pytest.fail("the model wrote again"))
    made = figure(client, "cite", form, **ASKED, answer=found["ids"])
    if form == "json":
        path = tmp_path / "cited.json"
        path.write_bytes(made)
        cited = Citations.load(path)
        assert list(cited.trace.ids) == found["ids"]
        np.testing.assert_allclose(cited.documents, found["data"]["documents"], atol=1e-4)  # rounded to as many digits


def test_citations_are_asked_for_in_the_chat_template(client, writer):
    found = client.post("/api/cite", json={"model": "writer", "generate": 8, **ASKED}).json()
    wanted = whence.cite(writer, *ASKED.values(), generate=8)
    assert wanted.trace.whole.text.startswith("user:")
    assert found["ids"] == list(wanted.trace.ids)


def test_a_file_of_citations_needs_the_answer(client):
    refused(client.post("/api/cite/figure", json={"model": "writer", "format": "svg", **ASKED}), 422, "invalid")
    body = {"model": "writer", "format": "svg", "answer": " ", **ASKED}
    refused(client.post("/api/cite/figure", json=body), 422, "empty")
