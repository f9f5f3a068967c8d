"""What browsers get of an explanation."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from whence.results import Conservation, Explanation, Prediction
from whence.results.explanation_files import to_wire


def strict(data):
    """As a browser reads it: NaN is not JSON."""
    return json.loads(json.dumps(data, allow_nan=False))


def test_text():
    exp = Explanation(
        scores=np.array([0.5, -1.0, 0.25]),
        tokens=("<script>", "al", "ert"),
        offsets=((0, 8), (9, 11), (11, 14)),
        word_ids=(0, 1, 1),
        text="<script> alert",
        target="positive",
        method="lrp",
        prediction=Prediction(("positive",), (2.0,), (0.9,)),
        conservation=Conservation(inputs=-0.25, target=1.0, sinks={"bias": 1.2}),
    )
    wire = strict(to_wire(exp))
    assert wire["tokens"] == ["<script>", "al", "ert"]
    assert wire["scores"] == [0.5, -1.0, 0.25]
    assert wire["image"] is None
    assert wire["words"] == [
        {"text": "<script>", "score": 0.5, "tokens": [0]},
        {"text": "alert", "score": -0.75, "tokens": [1, 2]},
    ]
    assert wire["conservation"]["sinks"] == {"bias": 1.2}
    added = ("image", "words", "verdict")
    assert strict({k: v for k, v in wire.items() if k not in added}).keys() == exp.to_dict().keys()


def test_no_words_without_a_tokenizer():
    assert to_wire(Explanation(scores=np.array([1.0]), tokens=("17",)))["words"] is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_becomes_null(bad):
    exp = Explanation(
        scores=np.array([bad, 1.0]), tokens=("a", "b"), word_ids=(0, 1), target_score=bad, options={"gamma": bad}
    )
    wire = strict(to_wire(exp))
    assert wire["scores"] == [None, 1.0]
    assert wire["words"][0]["score"] is None
    assert wire["target_score"] is wire["options"]["gamma"] is None


def test_options_of_any_type():
    exp = Explanation(
        scores=np.ones(1),
        options={"n": np.int64(3), "x": np.float32(0.5), "pair": (1, "a"), "what": object, "on": True},
    )
    options = strict(to_wire(exp))["options"]
    assert options["n"] == 3
    assert options["x"] == 0.5
    assert options["pair"] == [1, "a"]
    assert "object" in options["what"]
    assert options["on"] is True


def test_image_comes_back_exactly():
    image = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    wire = strict(to_wire(Explanation(scores=np.zeros((2, 3)), image=image)))
    head, data = wire["image"].split(",", 1)
    assert head == "data:image/png;base64"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))), image)
    assert wire["words"] is None


def test_what_a_page_holds_is_read_again(tmp_path):
    """With the picture and the words that were added for it, and null for what is no number."""
    image = np.zeros((4, 4, 3), np.uint8)
    image[:2] = 200
    exp = Explanation(scores=np.array([[1.0, -0.5], [0.25, np.nan]]), image=image, target="3", method="lrp")
    path = tmp_path / "page.json"
    path.write_text(json.dumps(to_wire(exp)), encoding="utf-8")
    read = Explanation.load(path)
    assert np.array_equal(read.scores, exp.scores, equal_nan=True)
    assert np.array_equal(read.image, image)
    assert np.isnan(read.target_score)
