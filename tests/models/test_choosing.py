"""Several texts for one example: choices, labels tried on a text, labels matched with a picture."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import whence
from tests import small
from whence.errors import InputError, ModelError
from zoo.build import build

SIZE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def picture(seed: int, size: tuple[int, int] = (40, 50)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8))


def bert(kind: str, **extra):
    torch.manual_seed(0)
    config = transformers.BertConfig(**SIZE, vocab_size=len(small.wordpiece()), max_position_embeddings=64, **extra)
    return small.randomised(getattr(transformers, kind)(config)), small.wordpiece()


@pytest.fixture(scope="module")
def chooser():
    return bert("BertForMultipleChoice")


@pytest.fixture(scope="module")
def entailment():
    names = ("contradiction", "neutral", "ENTAILMENT")
    return bert(
        "BertForSequenceClassification", id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)}
    )


@pytest.fixture(scope="module")
def clip():
    return small.clip()


CHOICES = {"text": "the film was", "choices": ["good", "a bad film and very slow", "slow"]}
LABELS = {"text": "the film was good", "labels": ["good", "very bad and slow"]}


def test_a_choice_is_the_models_own(chooser):
    module, tokenizer = chooser
    exp = whence.explain(chooser, CHOICES, target="slow", receipt="full")
    encoded = tokenizer([CHOICES["text"]] * 3, CHOICES["choices"], padding=True, return_tensors="pt")
    with torch.no_grad():
        by_hand = module(**{k: v[None] for k, v in encoded.items()}).logits[0]
    assert exp.target == "slow"
    assert exp.target_score == pytest.approx(float(by_hand[2]), abs=1e-5)
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    assert len(exp.tokens) == int(encoded["attention_mask"].sum())
    assert exp.prediction.labels[0] == CHOICES["choices"][int(by_hand.argmax())]
    sides = np.array(exp.sides)
    assert not exp.scores[sides != "slow"].any()
    assert exp.scores[sides == "slow"].any()


@pytest.mark.parametrize("method", ["lrp", "gi", "occlusion", "integrated_gradients", "attn_lrp"])
def test_labels_are_tried_on_a_text(entailment, method):
    module, tokenizer = entailment
    model = whence.load(entailment, task="zero-shot-classification")
    exp = whence.explain(model, LABELS, method, target="good")
    encoded = tokenizer(LABELS["text"], "This example is good.", return_tensors="pt")
    with torch.no_grad():
        assert exp.target_score == pytest.approx(float(module(**encoded).logits[0, 2]), abs=1e-5)
    assert exp.target == "good"
    assert set(exp.sides) == set(LABELS["labels"])
    asked = whence.explain(model, {**LABELS, "template": "good? {}"}, method, target="good")
    assert "?" in asked.tokens


def test_a_contrast_reads_both_labels(entailment):
    model = whence.load(entailment, task="zero-shot-classification")
    exp = whence.explain(model, LABELS, target=whence.contrast("good", "very bad and slow"), receipt="full")
    sides = np.array(exp.sides)
    assert all(exp.scores[sides == label].any() for label in LABELS["labels"])
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)


def test_a_list_is_its_members(chooser, entailment, clip):
    """Other lengths, other numbers of texts, other pictures: the same as one by one."""
    cases = [
        (whence.load(chooser), [CHOICES, {"text": "a", "choices": ["film", "good film"]}, CHOICES]),
        (whence.load(entailment, task="zero-shot-classification"), [LABELS, {**LABELS, "text": "bad"}]),
        (whence.load(clip), [{"image": picture(n), "labels": ["good", "a bad film"][: 2 - n % 2]} for n in range(3)]),
    ]
    for model, items in cases:
        together = whence.explain(model, items, receipt="full")
        for item, found in zip(items, together, strict=True):
            alone = whence.explain(model, item)
            assert found.target == alone.target
            np.testing.assert_allclose(found.scores, alone.scores, atol=1e-5)
            assert found.conservation.error == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("method", ["lrp", "gi", "occlusion"])
def test_a_picture_is_matched_with_labels(clip, method):
    module, processor = clip
    labels = ["good", "a bad film"]
    exp = whence.explain(clip, {"image": picture(0), "labels": labels}, method, target="a bad film")
    encoded = processor(text=labels, images=picture(0), padding=True, return_tensors="pt")
    with torch.no_grad():
        by_hand = module(**encoded).logits_per_image[0]
    assert exp.target_score == pytest.approx(float(by_hand[1]), rel=1e-4)
    assert [(p.source, p.kind, p.shape) for p in exp.parts] == [
        ("input_ids", "token", (int(encoded["attention_mask"].sum()),)),
        ("pixel_values", "patch", (2, 2)),
    ]
    assert exp.part("pixel_values").any()
    assert exp.image.shape == (28, 28, 3)
    told = whence.explain(clip, dict(encoded), method, target=1)
    np.testing.assert_allclose(told.scores, exp.scores, atol=1e-5 * np.abs(exp.scores).max())


def test_a_function_of_matches_sees_each_examples_own(clip):
    """Pictures and labels of other examples in the batch are none of its business."""
    items = [{"image": picture(0), "labels": ["good", "bad"]}, {"image": picture(1), "labels": ["film", "a"]}]
    together = whence.explain(clip, items, target=lambda outputs: outputs.logits_per_image[:, 0])
    for item, found in zip(items, together, strict=True):
        alone = whence.explain(clip, item, target=0)
        assert found.target_score == pytest.approx(alone.target_score, rel=1e-4)
        np.testing.assert_allclose(found.scores, alone.scores, atol=1e-4)


def test_what_else_takes_several_texts(chooser, clip, tmp_path):
    """Comparisons, metrics and pages."""
    matched = {"image": picture(0), "labels": np.array(["good", "a bad film"])}
    both = whence.compare(clip, matched, ["lrp", "gi"])
    assert len(both) == 2
    assert both.save(tmp_path / "both.html").stat().st_size > 1000
    rows = {
        chooser: [{**CHOICES, "label": "slow"}, {**CHOICES, "label": 0}],
        clip: [{"image": picture(n), "labels": ["good", "bad"]} for n in range(2)],
    }
    for model, data in rows.items():
        judged = whence.evaluate(model, data, methods=["lrp", "random"], metrics=["comprehensiveness"])
        assert "comprehensiveness" in str(judged)
    with pytest.raises(ModelError, match="each label by itself"):
        whence.attention(clip, {"image": picture(0), "labels": ["good"]})


def test_a_model_without_a_mask_reads_its_padding(clip):
    """SigLIP pads every label to the same length, and attends to all of it."""
    tokenizer = copy.deepcopy(small.wordpiece())
    tokenizer.model_input_names, tokenizer.model_max_length = ["input_ids"], 16
    processor = transformers.SiglipProcessor(
        image_processor=transformers.SiglipImageProcessorPil(size={"height": 28, "width": 28}), tokenizer=tokenizer
    )
    config = transformers.SiglipConfig(
        text_config={**SIZE, "vocab_size": len(tokenizer), "max_position_embeddings": 16},
        vision_config={**SIZE, "image_size": 28, "patch_size": 14},
    )
    torch.manual_seed(0)
    module = small.randomised(transformers.SiglipModel(config))
    exp = whence.explain((module, processor), {"image": picture(1), "labels": ["good", "bad"]}, target=0)
    encoded = processor(text=["good", "bad"], images=picture(1), padding="max_length", return_tensors="pt")
    with torch.no_grad():
        assert exp.target_score == pytest.approx(float(module(**encoded).logits_per_image[0, 0]), rel=1e-4)
    assert len(exp.tokens) == 2 * 16 + 4


def test_pipelines(clip, entailment):
    pipe = transformers.pipeline("zero-shot-classification", model=entailment[0], tokenizer=entailment[1])
    exp = whence.explain(pipe, LABELS)
    assert exp.target == pipe(LABELS["text"], LABELS["labels"])["labels"][0]
    module, processor = clip
    eyes = transformers.pipeline(
        "zero-shot-image-classification", model=module, tokenizer=processor.tokenizer,
        image_processor=processor.image_processor,
    )  # fmt: skip
    exp = whence.explain(eyes, {"image": picture(0), "labels": ["good", "a bad film"]})
    found = eyes(picture(0), candidate_labels=["good", "a bad film"], hypothesis_template="{}")
    assert exp.target == found[0]["label"]


def test_a_folder_says_what_it_is(chooser, clip, tmp_path):
    for (module, companion), task in ((chooser, "multiple-choice"), (clip, "zero-shot-image-classification")):
        module.save_pretrained(tmp_path / task)
        companion.save_pretrained(tmp_path / task)
        assert whence.load(tmp_path / task).task == task


def test_what_is_wrong_is_said(chooser, entailment, clip):
    with pytest.raises(InputError, match=r"'choices': \[ … \]"):
        whence.explain(chooser, "a text")
    with pytest.raises(InputError, match="'choices' is missing"):
        whence.explain(chooser, {"text": "a"})
    with pytest.raises(InputError, match="nothing to choose"):
        whence.explain(chooser, {"text": "a", "choices": []})
    with pytest.raises(InputError, match="'image' is missing"):
        whence.explain(clip, {"labels": ["a"]})
    model = whence.load(entailment, task="zero-shot-classification")
    with pytest.raises(InputError, match="template"):
        whence.explain(model, {**LABELS, "template": "good"})
    template = {"template": "a photo of {}"}
    with pytest.raises(InputError, match=r"'template' is of no use to a zero-shot-image-.*\{'image': …, 'labels'"):
        whence.explain(clip, {"image": picture(0), "labels": ["good"], **template})
    with pytest.raises(InputError, match="'template' is of no use to a multiple-choice model"):
        whence.explain(chooser, {**CHOICES, **template})
    with pytest.raises(InputError, match="'label' is of no use"):
        whence.explain(model, {**LABELS, "label": 1})
    with pytest.raises(ModelError, match="model of entailment"):
        whence.load((small.classifier(), small.wordpiece()), task="zero-shot-classification")
    for method in ("rollout", "gae", "transformer_attribution"):
        with pytest.raises(ModelError, match="each of the texts by itself"):
            whence.explain(chooser, CHOICES, method)
        with pytest.raises(ModelError, match="each label by itself"):
            whence.explain(clip, {"image": picture(0), "labels": ["good"]}, method)
    with pytest.raises(whence.WhenceError, match="sideways"):
        whence.explain(chooser, CHOICES, target="sideways")


def test_as_many_tokens_as_patches():
    """SigLIP 2 has a mask for its patches: it is no mask of tokens, however many there are."""
    made = build("zero-shot-image-classification", "siglip2")
    pixels = {k: v[:1].clone() for k, v in made.inputs.items() if k not in ("input_ids", "attention_mask")}
    pixels["pixel_attention_mask"][0, -4:] = 0
    patches = pixels["pixel_values"].shape[1]
    ids = torch.randint(5, 90, (4, patches // 4), generator=torch.Generator().manual_seed(0))
    exp = whence.explain(made.model, {"input_ids": ids, **pixels}, target=2, receipt="full")
    with torch.no_grad():
        by_hand = made.model(input_ids=ids, **pixels).logits_per_image[0, 2]
    assert exp.target_score == pytest.approx(float(by_hand), rel=1e-4)
    assert exp.part("pixel_values").shape == (patches,)
    assert exp.conservation.error == pytest.approx(0, abs=1e-3)
