"""POST /api/explain."""

from __future__ import annotations

import base64
import json
from importlib import resources

import numpy as np
import pytest

import whence
from tests.web.conftest import TEXT, picture, refused, sound
from whence.results.explanation_files import to_wire


@pytest.fixture(scope="module")
def digit():
    file = resources.files("whence.web") / "examples" / "digit-3.png"
    return base64.b64encode(file.read_bytes()).decode()


def test_text_is_what_the_library_says(explain, sentiment):
    answer = explain(methods=["lrp"]).json()
    (wire,) = answer["explanations"]
    expected = json.loads(json.dumps(to_wire(whence.explain(sentiment, TEXT, "lrp"))))
    assert wire == expected
    assert answer["model"] == "sentiment"
    assert answer["prediction"] == expected["prediction"]
    assert answer["failed"] == []
    assert answer["seconds"] >= 0


def test_image(client, digit, digits):
    body = {"model": "digits", "image": f"data:image/png;base64,{digit}", "methods": ["lrp", "gae"]}
    answer = client.post("/api/explain", json=body).json()
    assert answer["prediction"]["labels"][0] == "3"
    first = answer["explanations"][0]
    assert np.asarray(first["scores"]).shape == (7, 7)
    assert first["image"].startswith("data:image/png;base64,")
    bare = client.post("/api/explain", json=body | {"image": digit}).json()
    assert bare["explanations"] == answer["explanations"]


def test_sound_is_what_the_library_says(client, tones):
    data = sound()
    body = {"model": "tones", "sound": f"data:audio/wav;base64,{data}", "methods": ["lrp", "gae"]}
    answer = client.post("/api/explain", json=body).json()
    expected = json.loads(json.dumps(to_wire(whence.explain(tones, base64.b64decode(data), "lrp"))))
    assert answer["explanations"][0] == expected
    assert expected["parts"][0]["kind"] == "frame"
    assert expected["parts"][0]["seconds"] * len(expected["scores"]) == pytest.approx(0.2)
    assert answer["explanations"][1]["method"] == "gae"
    bare = client.post("/api/explain", json=body | {"sound": data}).json()
    assert bare["explanations"] == answer["explanations"]


@pytest.mark.parametrize("form", ["FLAC", "OGG", "MP3"])
def test_sounds_of_other_formats(client, form):
    body = {"model": "tones", "methods": ["gi"]}
    plain = client.post("/api/explain", json=body | {"sound": sound(1.0)}).json()
    other = client.post("/api/explain", json=body | {"sound": sound(1.0, form=form)}).json()
    assert other["prediction"]["labels"][0] == plain["prediction"]["labels"][0]
    if form == "FLAC":  # without loss
        np.testing.assert_allclose(other["prediction"]["scores"], plain["prediction"]["scores"], atol=1e-4)


def test_image_with_text(client, digit):
    body = {"model": "viewer", "image": digit, "text": "what is this?", "methods": ["lrp", "gi"]}
    answer = client.post("/api/explain", json=body).json()
    first, second = answer["explanations"]
    text, picture = first["parts"]
    assert (text["kind"], picture["kind"], picture["shape"]) == ("token", "patch", [2, 2])
    assert len(first["scores"]) == text["shape"][0] + 4
    assert first["image"].startswith("data:image/png;base64,")
    assert second["method"] == "gi"
    chosen = client.post("/api/explain", json=body | {"targets": ["a"]}).json()["explanations"][0]
    assert chosen["target"] == "a"
    written = client.post("/api/explain", json=body | {"generate": 2}).json()["explanations"][0]
    assert written["sides"].count("continuation") == 1


def test_targets_by_label_number_and_contrast(explain):
    one = explain(targets=["negative", 0, {"this": "positive", "that": 0}], methods=["lrp", "gi"]).json()
    wires = one["explanations"]
    assert [w["target"] for w in wires] == ["negative"] * 4 + ["positive rather than negative"] * 2
    assert [w["method"] for w in wires] == ["lrp", "gi"] * 3
    np.testing.assert_allclose(wires[0]["scores"], wires[2]["scores"])


def test_all_targets_likeliest_first(explain, client, digit):
    assert [w["target"] for w in explain(targets="all").json()["explanations"]] == ["positive", "negative"]
    answer = client.post("/api/explain", json={"model": "digits", "image": digit, "targets": "all"}).json()
    targets = [w["target"] for w in answer["explanations"]]
    assert sorted(targets) == [str(n) for n in range(10)]
    assert targets == answer["prediction"]["labels"]


def test_words_and_special_tokens(explain):
    kept, without = explain().json(), explain(special_tokens=False).json()
    assert kept["explanations"][0]["tokens"][0] == "[CLS]"
    wire = without["explanations"][0]
    assert "[CLS]" not in wire["tokens"]
    assert wire["left_out"] != 0
    assert [w["text"] for w in wire["words"]] == ["a", "gorgeous,", "witty,", "seductive", "movie"]
    for word in wire["words"]:
        assert word["score"] == pytest.approx(sum(wire["scores"][i] for i in word["tokens"]), abs=1e-5)


def test_language_model(client):
    body = {"model": "writer", "text": "a good movie", "methods": ["lrp"]}
    generated = client.post("/api/explain", json=body | {"generate": 4}).json()["explanations"][0]
    assert generated["sides"].count("continuation") == 3
    given = client.post("/api/explain", json=body | {"continuation": " is"}).json()["explanations"][0]
    assert given["target"] == " is"
    contrast = client.post("/api/explain", json=body | {"targets": [{"this": "a", "that": "b"}]}).json()
    assert contrast["explanations"][0]["target"] == "a rather than b"


@pytest.mark.parametrize("method", whence.methods)
@pytest.mark.parametrize("model", ["sentiment", "digits", "tones", "viewer", "writer"])
def test_every_method_answers_or_says_why_not(client, digit, model, method):
    given = {} if model in ("digits", "tones") else {"text": "a dull movie"}
    given |= {"image": digit} if model in ("digits", "viewer") else {"sound": sound()} if model == "tones" else {}
    info = next(m for m in client.get("/api/info").json()["models"] if m["name"] == model)
    response = client.post("/api/explain", json={"model": model, "methods": [method], **given})
    assert (response.status_code == 200) == (method in info["methods"])
    if response.status_code != 200:
        refused(response, 422, "not_explained")
        return
    (wire,) = response.json()["explanations"]
    assert wire["method"] == method
    assert np.isfinite(np.asarray(wire["scores"], dtype=float)).all()


def test_what_one_method_can_not_do_does_not_stop_the_others(client, monkeypatch):
    from whence.errors import InputError
    from whence.web import answer_explain as explaining

    real = explaining.explain

    def failing(adapter, items, method, *args, **options):
        if method == "gi":
            raise InputError("not for this model")
        if method == "saliency":
            raise RuntimeError("secret detail")
        return real(adapter, items, method, *args, **options)

    monkeypatch.setattr(explaining, "explain", failing)
    body = {"model": "sentiment", "text": TEXT, "methods": ["gi", "lrp", "saliency"]}
    answer = client.post("/api/explain", json=body).json()
    assert [w["method"] for w in answer["explanations"]] == ["lrp"]
    assert [f["method"] for f in answer["failed"]] == ["gi", "saliency"]
    assert answer["failed"][0]["message"] == "not for this model"
    assert "secret" not in json.dumps(answer)
    assert "not for this model" in refused(
        client.post("/api/explain", json=body | {"methods": ["gi"]}), 422, "not_explained"
    )
    refused(client.post("/api/explain", json=body | {"methods": ["saliency"]}), 500, "internal")


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "'; DROP TABLE users; --",
        "{{7*7}} ${7*7} <%= 7*7 %>",
        "‮ مرحبا 你好 🙂 \u0000 \x1b[31m",
        "[CLS] [SEP] [MASK]",
    ],
)
def test_any_text_comes_back_as_a_string(explain, text):
    response = explain(text=text)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["explanations"][0]["text"] == text


def test_a_path_is_a_text(explain, tmp_path, monkeypatch):
    """Neither opened nor looked for: opening any file fails here."""
    secret = tmp_path / "secret.txt"
    secret.write_text("a gem")
    plain = explain(text=str(secret), methods=["gi"])
    monkeypatch.setattr("builtins.open", lambda *a, **k: pytest.fail(f"opened {a}"))
    monkeypatch.setattr("pathlib.Path.open", lambda *a, **k: pytest.fail(f"opened {a}"))
    for text in (str(secret), "file:///etc/passwd", "http://127.0.0.1/x"):
        response = explain(text=text, methods=["gi"])
        assert response.json()["explanations"][0]["text"] == text
    assert plain.json()["explanations"][0]["text"] == str(secret)


def test_a_path_is_no_image(client, tmp_path):
    file = tmp_path / "x.png"
    file.write_bytes(base64.b64decode(picture()))
    for name in (str(file), f"file://{file}", "http://127.0.0.1/x.png", "data:text/html,<b>"):
        refused(client.post("/api/explain", json={"model": "digits", "image": name}), 422, "bad_image")
        refused(client.post("/api/explain", json={"model": "tones", "sound": name}), 422, "bad_sound")


@pytest.mark.parametrize("method", ["/etc/x.json", "recipe.json", "../x.json", "LRP", "", "__class__"])
def test_only_registered_methods(explain, method, tmp_path):
    response = explain(methods=[method])
    assert response.status_code == 422


def test_a_saved_recipe_is_no_method(explain, tmp_path):
    path = tmp_path / "mine.json"
    whence.recipes["exact"].save(path)
    assert whence.explain("sentiment", "a gem", str(path)).method
    refused(explain(methods=[str(path)]), 422, "unknown_method")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_formats_of_images(client, form):
    body = {"model": "digits", "image": picture(form=form, mode="RGB", size=(40, 30)), "methods": ["gi"]}
    assert client.post("/api/explain", json=body).status_code == 200


def test_transparent_images_stand_on_white(client):
    clear = picture(mode="RGBA", colour=(0, 0, 0, 0))
    white = picture(mode="RGB", colour=(255, 255, 255))
    answers = [
        client.post("/api/explain", json={"model": "digits", "image": i, "methods": ["gi"]}).json()["prediction"]
        for i in (clear, white)
    ]
    assert answers[0] == answers[1]
