"""Questions about pages: words with boxes, and the page where the model sees it; one explanation, one receipt."""

from __future__ import annotations

import inspect
from functools import lru_cache

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tokenizers import pre_tokenizers

import whence
from tests import small
from whence.errors import InputError, InputTooLongError
from whence.models.documents import DocumentQuestionAnswering
from zoo.build import build

WORDS = ["the", "movie", "is", "very", "witty", "and", "good"]
BOXES = [[100 * n, 20 * n, 100 * n + 90, 20 * n + 40] for n in range(len(WORDS))]
FAMILIES = ["layoutlm", "lilt", "layoutlmv3", "layoutlmv3, relative"]
CLOSE = {torch.float32: 1e-4, torch.bfloat16: 6e-2}
"""Beside the largest logit: kernels round differently for other lengths."""


def page(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (50, 40, 3), dtype=np.uint8))


@lru_cache
def with_boxes() -> transformers.LayoutLMv3Tokenizer:
    """A tokenizer that reads boxes along with words: single bytes."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    return transformers.LayoutLMv3Tokenizer(vocab={c: i for i, c in enumerate(pieces)}, merges=[], model_max_length=80)


@lru_cache
def made(family: str, dtype: torch.dtype = torch.float32, attention: str = "eager"):
    """A small model of a family, and what reads for it."""
    sizes = {**small.SIZES, "vocab_size": 300, "max_2d_position_embeddings": 1024, "pad_token_id": 1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if family == "layoutlm":
            config = transformers.LayoutLMConfig(**{**sizes, "pad_token_id": 0}, max_position_embeddings=64)
            kind, reader = transformers.LayoutLMForQuestionAnswering, small.wordpiece()
        elif family == "lilt":
            config = transformers.LiltConfig(**sizes, max_position_embeddings=90, channel_shrink_ratio=2)
            kind, reader = transformers.LiltForQuestionAnswering, with_boxes()
        else:
            relative = family.endswith("relative")
            config = transformers.LayoutLMv3Config(
                **sizes, max_position_embeddings=90, coordinate_size=4, shape_size=4, input_size=32, patch_size=8,
                has_relative_attention_bias=relative, has_spatial_attention_bias=relative, num_labels=2,
            )  # fmt: skip
            eye = transformers.LayoutLMv3ImageProcessorPil(size={"height": 32, "width": 32})
            kind = transformers.LayoutLMv3ForQuestionAnswering
            reader = transformers.LayoutLMv3Processor(image_processor=eye, tokenizer=with_boxes())
        config._attn_implementation = attention if kind._supports_sdpa else "eager"
        module = small.randomised(kind(config))
    return module.to(dtype), reader


def asked(family: str, question: str, count: int = len(WORDS), seed: int = 0) -> dict:
    given = {"text": question, "words": WORDS[:count], "boxes": BOXES[:count]}
    return {"image": page(seed), **given} if "v3" in family else given


def by_hand(family: str, item: dict, dtype: torch.dtype = torch.float32):
    """The outputs of the model, called on what its processor makes. Nothing of whence is used here."""
    module, reader = made(family, dtype)
    if family == "layoutlm":
        encoded = reader(item["text"].split(), item["words"], is_split_into_words=True, return_tensors="pt")
        texts, words = encoded.sequence_ids(), encoded.word_ids()
        boxes = [
            item["boxes"][w] if t == 1 else [1000] * 4 if i == reader.sep_token_id else [0] * 4
            for t, w, i in zip(texts, words, encoded["input_ids"][0].tolist(), strict=True)
        ]
        inputs = {**encoded, "bbox": torch.tensor([boxes])}
    elif family == "lilt":
        encoded = reader(item["text"], item["words"], boxes=item["boxes"], return_tensors="pt")
        inputs = dict(encoded)
    else:
        silent = transformers.LayoutLMv3Processor(
            image_processor=transformers.LayoutLMv3ImageProcessorPil(size={"height": 32, "width": 32}, apply_ocr=False),
            tokenizer=reader.tokenizer,
        )
        encoded = silent(item["image"], item["text"], item["words"], boxes=item["boxes"], return_tensors="pt")
        inputs = {**encoded, "pixel_values": encoded["pixel_values"].to(dtype)}
    accepted = inspect.signature(module.forward).parameters
    inputs = {k: v for k, v in inputs.items() if k in accepted}
    with torch.no_grad():
        return module(**inputs), [n for n, text in enumerate(encoded.sequence_ids()) if text == 1], inputs


def best(outputs, allowed: list[int]) -> float:
    start, end = outputs.start_logits[0].float(), outputs.end_logits[0].float()
    return max(float(start[i] + end[j]) for i in allowed for j in allowed if 0 <= j - i < 30)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_score_is_what_the_model_gives(family, dtype, attention):
    model = whence.load(made(family, dtype, attention))
    assert type(model) is DocumentQuestionAnswering
    items = [asked(family, "is it good", 7), asked(family, "was", 3, seed=1), asked(family, "is it", 5, seed=2)]
    for item, exp in zip(items, whence.explain(model, items, "gi"), strict=True):
        outputs, allowed, _ = by_hand(family, item, dtype)
        size = float(outputs.start_logits.abs().max())
        assert exp.target_score == pytest.approx(best(outputs, allowed), abs=2 * CLOSE[dtype] * size)


@pytest.mark.parametrize("method", ["lrp", "attn_lrp", "gi"])
@pytest.mark.parametrize("family", FAMILIES)
def test_both_texts_and_the_page_have_one_receipt(family, method):
    item = asked(family, "is it good")
    exp = whence.explain(made(family), item, method, receipt="full")
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    assert [word.text for word in exp.without_special().words()][:10] == ["is", "it", "good", *WORDS]
    text = exp.only("input_ids")
    sides = [side for side, special in zip(text.sides, text.special, strict=True) if not special]
    assert sides == sorted(sides)
    assert set(sides) == {"first", "second"}
    assert sorted({word for word in text.word_ids if word is not None}) == list(range(10))
    assert exp.target in " ".join(WORDS)
    if "v3" in family:
        assert [(p.source, p.kind, p.shape) for p in exp.parts][1:] == [("pixel_values", "patch", (4, 4))]
        assert exp.part("pixel_values").any()
        assert exp.image.shape == (32, 32, 3)
    else:
        assert [p.source for p in exp.parts] == ["input_ids"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_list_is_its_members(family):
    """Questions and pages of other lengths."""
    model = whence.load(made(family))
    items = [asked(family, "is it good", 7), asked(family, "was", 3, seed=1), asked(family, "is it", 5, seed=2)]
    for item, exp in zip(items, whence.explain(model, items, batch_tokens=100_000), strict=True):
        alone = whence.explain(model, item)
        assert (exp.target, exp.tokens) == (alone.target, alone.tokens)
        np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-4 * np.abs(alone.scores).max())
    assert model.beside([model.encode(i)[0][0] for i in items]) == "right"


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_processor_made_is_the_same(family):
    item = asked(family, "is it good")
    _, _, inputs = by_hand(family, item)
    found = whence.explain(made(family), inputs)
    wanted = whence.explain(made(family), item)
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-6)
    padded = {k: torch.cat([v, torch.zeros_like(v[:, :2])], 1) for k, v in inputs.items() if k != "pixel_values"}
    padded["input_ids"][:, -2:] = made(family)[0].config.pad_token_id
    padded |= {k: v for k, v in inputs.items() if k == "pixel_values"}
    found = whence.explain(made(family), padded)
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-4 * np.abs(wanted.scores).max())


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_of_several_words(family):
    exp = whence.explain(made(family), asked(family, "is it good"), target="witty and good")
    outputs, allowed, inputs = by_hand(family, asked(family, "is it good"))
    reader = with_boxes() if family != "layoutlm" else small.wordpiece()
    tokens = reader.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    first = tokens.index("witty" if family == "layoutlm" else "w")  # the only one
    score = float(outputs.start_logits[0, first] + outputs.end_logits[0, allowed[-1]])
    assert exp.target == "witty and good"
    assert exp.target_score == pytest.approx(score, abs=1e-4)
    with pytest.raises(InputError, match="does not stand in the context"):
        whence.explain(made(family), asked(family, "is it boring"), target="boring")


@pytest.mark.parametrize("family", ["lilt", "layoutlmv3"])
def test_a_feature_that_is_taken_away(family):
    """Occlusion takes away the square, or the word, whose score it gives."""
    model = whence.load(made(family))
    item = asked(family, "is it", 3)
    exp = whence.explain(model, item, "occlusion", by="word", target="movie")
    assert exp.part("input_ids").any()
    (example,), _ = model.encode(item)
    assert all(
        model.goes_with(name, model.sources) == model.sources[0] for name in example.inputs if "pixel" not in name
    )
    if family == "lilt":
        return
    assert exp.part("pixel_values").any()
    text = example.parts[0].count
    for n in range(example.parts[1].count):
        keep = np.ones(example.count, bool)
        keep[text + n] = False
        gone = (model.masked(example, keep).inputs["pixel_values"] != example.inputs["pixel_values"]).float()
        marked = model.by_feature(example.parts[1], gone)
        assert torch.nonzero(marked).flatten().tolist() == [n]


def test_three_tokens_and_three_colours():
    """What is deleted is a token, never a colour of the page."""
    model = whence.load(made("layoutlmv3"))
    pixels = torch.randn(1, 3, 32, 32)
    ids = torch.tensor([[0, 40, 2]])
    (example,), _ = model.encode({"input_ids": ids, "bbox": torch.zeros(1, 3, 4).long(), "pixel_values": pixels})
    keep = np.ones(example.count, bool)
    keep[1] = False
    left = model.masked(example, keep, "delete").inputs
    assert left["input_ids"].tolist() == [0, 2]
    assert left["pixel_values"].shape == (3, 32, 32)


def test_words_that_the_processor_reads(monkeypatch):
    """Where no words are given and the image processor finds them, these are asked about."""
    module, processor = made("layoutlmv3")
    item = asked("layoutlmv3", "is it good")
    eye = processor.image_processor
    with pytest.raises(InputError, match="would read them from the page with Tesseract"):
        whence.explain((module, processor), {"image": item["image"], "text": item["text"]})

    def found(images, return_tensors, apply_ocr=True):
        seen = type(eye).__call__(eye, images=images, return_tensors=return_tensors, apply_ocr=False)
        return {**seen, **({"words": [WORDS], "boxes": [BOXES]} if apply_ocr else {})}

    found.apply_ocr = True
    found.image_mean, found.image_std = eye.image_mean, eye.image_std
    monkeypatch.setattr(model := whence.load((module, processor)), "_eye", found)
    read = whence.explain(model, {"image": item["image"], "text": item["text"]})
    np.testing.assert_array_equal(read.scores, whence.explain((module, processor), item).scores)
    fewer = whence.explain(model, asked("layoutlmv3", "is it good", 3))  # what is given is not read again
    assert [word.text for word in fewer.without_special().words()][3:6] == WORDS[:3]


class Detecting(torch.nn.Module):
    """Takes the page as whole numbers under the name `image`, like LayoutLMv2."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.corners = torch.nn.Embedding(300, 8), torch.nn.Embedding(1001, 8)
        self.eye, self.head = torch.nn.Conv2d(3, 8, 8, 8), torch.nn.Linear(8, 2)

    def forward(self, input_ids, bbox, image):
        seen = self.eye((image - 100.0) / 50.0).flatten(2).mean(-1)
        start, end = self.head(self.words(input_ids) + self.corners(bbox).sum(2) + seen[:, None]).unbind(-1)
        return transformers.modeling_outputs.QuestionAnsweringModelOutput(start_logits=start, end_logits=end)


def test_a_page_of_whole_numbers():
    torch.manual_seed(0)
    module = small.randomised(Detecting())
    eye = transformers.LayoutLMv2ImageProcessorPil(size={"height": 32, "width": 32})
    processor = transformers.LayoutLMv3Processor(image_processor=eye, tokenizer=with_boxes())
    model = whence.load((module, processor), task="document-question-answering")
    item = asked("v3", "is it good")
    exp = whence.explain(model, item, receipt="full")
    pixels = torch.as_tensor(eye(images=item["image"], apply_ocr=False, return_tensors="pt")["pixel_values"])
    encoded = with_boxes()(item["text"], WORDS, boxes=BOXES, return_tensors="pt")
    with torch.no_grad():
        outputs = module(encoded["input_ids"], encoded["bbox"], pixels)
    allowed = [n for n, text in enumerate(encoded.sequence_ids()) if text == 1]
    assert exp.target_score == pytest.approx(best(outputs, allowed), rel=1e-4)
    assert exp.conservation.error == pytest.approx(0, abs=1e-3)
    assert exp.part("image").shape == (4, 4)
    assert exp.part("image").any()
    row = {k: v for k, v in encoded.items() if k in ("input_ids", "bbox")}
    sizes = [{**row, "image": pixels}, {**row, "image": torch.randint(0, 256, (1, 3, 32, 16))}]
    both = whence.explain(model, sizes)
    np.testing.assert_allclose(both[0].scores, exp.scores, atol=1e-4 * np.abs(exp.scores).max())
    assert both[1].part("image").shape == (4, 2)
    assert len({model.apart(model.encode(given)[0][0]) for given in sizes}) == 2


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"text": " "}, "'text', the question, is missing"),
        ({"words": None, "boxes": None}, "'words' and 'boxes' are missing"),
        ({"words": "the movie"}, "'words' is a list"),
        ({"words": []}, "no words on the page"),
        ({"boxes": BOXES[:2]}, "7 words and 2 boxes"),
        ({"boxes": None}, "7 words and no boxes"),
        ({"boxes": [[0, 0, 1]] * 7}, "not four numbers"),
        ({"boxes": [[0.1, 0.1, 0.2, 0.2]] * 7}, "whole numbers from 0 to 1000"),
        ({"boxes": [[0, 0, 1200, 5]] * 7}, "whole numbers from 0 to 1000"),
        ({"boxes": [[9, 0, 3, 5]] * 7}, "whole numbers from 0 to 1000"),
        ({"image": page(0)}, "sees no pictures"),
        (
            {"question": "is it good"},
            "'question' is of no use to a document-question-answering model",
        ),
    ],
)
def test_wrong_things_at_the_door(changed, says):
    with pytest.raises(InputError, match=says):
        whence.explain(made("layoutlm"), {**asked("layoutlm", "is it good"), **changed})


def test_a_model_that_sees_wants_the_page():
    module, processor = made("layoutlmv3")
    item = asked("", "is it good")
    with pytest.raises(InputError, match="'image', the page, is missing"):
        whence.explain((module, processor), item)
    with pytest.raises(InputError, match="came without an image processor"):
        whence.explain((module, processor.tokenizer), {"image": page(0), **item})
    with pytest.raises(InputError, match="can't read tuple: this model takes"):
        whence.explain((module, processor), ("is it good", "the movie"))


def test_more_words_than_the_model_reads():
    item = asked("layoutlm", "is it good")
    many = {**item, "words": WORDS * 8, "boxes": BOXES * 8}
    with pytest.raises(InputTooLongError, match="62 tokens and the model takes at most 48"):
        whence.explain(made("layoutlm"), many)
    exp = whence.explain(made("layoutlm"), many, truncate=True)
    assert len(exp) == 48
    assert [word.text for word in exp.without_special().words()][:4] == ["is", "it", "good", "the"]
    long = whence.explain(made("layoutlm"), {**many, "text": "is it good " * 8}, truncate=True)
    assert len([side for side in long.sides if side == "first"]) == 24  # the question stays whole


def test_arrays_are_lists():
    item = asked("layoutlm", "is it good")
    wanted = whence.explain(made("layoutlm"), item)
    given = {**item, "words": np.array(WORDS), "boxes": torch.tensor(BOXES)}
    np.testing.assert_array_equal(whence.explain(made("layoutlm"), given).scores, wanted.scores)
    (listed,) = whence.explain(made("layoutlm"), [given])
    np.testing.assert_array_equal(listed.scores, wanted.scores)


@pytest.mark.parametrize("family", ["layoutlm", "lilt", "layoutlmv3"])
@pytest.mark.parametrize("task", [None, "document-question-answering"])
def test_from_a_folder(family, task, tmp_path):
    for part in made(family):
        part.save_pretrained(tmp_path)
    model = whence.load(tmp_path, task=task)
    assert model.task == "document-question-answering"
    assert "'words': [ … ], 'boxes': [ … ]}" in repr(model)
    exp = whence.explain(model, asked(family, "is it good"))
    np.testing.assert_allclose(exp.scores, whence.explain(made(family), asked(family, "is it good")).scores, atol=1e-6)
    for suffix in ("json", "npz", "html", "svg", "txt", "tex"):
        exp.save(tmp_path / f"exp.{suffix}")
    bars = 1  # the scale is drawn as a picture too
    assert (tmp_path / "exp.svg").read_text().count("<image") > bars or family != "layoutlmv3"
    again = whence.Explanation.load(tmp_path / "exp.npz")
    assert again.words() == exp.words()


def test_a_pipeline():
    module, processor = made("layoutlmv3")
    pipe = transformers.pipeline(
        "document-question-answering", model=module, tokenizer=processor.tokenizer,
        image_processor=processor.image_processor,
    )  # fmt: skip
    item = asked("layoutlmv3", "is it good")
    np.testing.assert_array_equal(whence.explain(pipe, item).scores, whence.explain((module, processor), item).scores)


@pytest.mark.parametrize("name", ["layoutlm", "layoutlmv3"])
def test_tensors_as_they_are(name):
    specimen = build("document-question-answering", name)
    model = whence.load(specimen.model)
    assert model.task == "document-question-answering"
    found = whence.explain(model, dict(specimen.inputs), target=whence.answer(2, 4), receipt="full")
    with torch.no_grad():
        outputs = specimen.model(**specimen.inputs)
    for n, exp in enumerate(found):
        score = float(outputs.start_logits[n, 2] + outputs.end_logits[n, 4])
        assert exp.target_score == pytest.approx(score, rel=1e-3, abs=1e-3)
        assert abs(exp.conservation.error) <= 1e-3 * max(1, exp.conservation.scale)
