"""Pictures with text: one explanation, tokens and patches, one receipt."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from typer.testing import CliRunner

import whence
from tests import small
from whence.cli import app
from whence.errors import InputError, ModelError
from whence.models import tasks
from whence.models.together import ImageTextLM
from zoo.build import build

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}:{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %};{% endfor %}"
)


def picture(seed: int, size: tuple[int, int] = (40, 50)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def llava():
    return small.llava()


@pytest.fixture(scope="module")
def qwen():
    """A Qwen2-VL: patches of all pictures in one line, those that are merged beside each other."""
    config = transformers.Qwen2VLConfig(
        text_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 128, "bos_token_id": 1,
            "eos_token_id": 2,
            "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4},
        },
        vision_config={
            "depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2, "patch_size": 14,
            "spatial_merge_size": 2, "temporal_patch_size": 2,
        },
        image_token_id=99, video_token_id=98, vision_start_token_id=97, vision_end_token_id=96,
    )  # fmt: skip
    torch.manual_seed(0)
    return small.randomised(transformers.Qwen2VLForConditionalGeneration(config))


def qwen_inputs(seed: int = 0) -> dict[str, torch.Tensor]:
    ids = torch.tensor([[1, 5, 97, 99, 99, 96, 7, 8, 9]])
    pixels = torch.randn(8, 3 * 2 * 14 * 14, generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == 99).long(),
            "pixel_values": pixels, "image_grid_thw": torch.tensor([[1, 2, 4]])}  # fmt: skip


@pytest.mark.parametrize("method", ["lrp", "attn_lrp", "gi", "ah_ln"])
def test_both_are_explained_in_one_receipt(llava, method):
    module, processor = llava
    exp = whence.explain(llava, {"image": picture(0), "text": "a red ball?"}, method, target=65, receipt="full")
    encoded = processor(text=["<image>a red ball?"], images=[picture(0)], return_tensors="pt")
    with torch.no_grad():
        by_hand = module(**encoded).logits[0, -1, 65]
    assert exp.target_score == pytest.approx(float(by_hand), abs=1e-4)
    assert [(p.source, p.kind, p.shape) for p in exp.parts] == [
        ("input_ids", "token", (11,)),
        ("pixel_values", "patch", (2, 2)),
    ]
    assert "".join(exp.tokens[:11]) == "a red ball?"
    assert exp.part("pixel_values").any()
    assert exp.part("input_ids").any()
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    assert exp.image.shape == (28, 28, 3)


def test_what_the_processor_made_is_the_same(llava):
    module, processor = llava
    encoded = processor(text=["<image>a ball"], images=[picture(0)], return_tensors="pt")
    found = whence.explain(module, dict(encoded), target=65)
    wanted = whence.explain(llava, {"image": picture(0), "text": "a ball"}, target=65)
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-6)


def test_a_list_is_its_members(llava):
    """Texts of other lengths, one picture, two, and none: the same as one by one."""
    items = [
        {"image": picture(0), "text": "a red ball?"},
        {"image": picture(1), "text": "what"},
        {"images": [picture(2), picture(3)], "text": "which of them"},
        {"images": [picture(3), picture(2)], "text": "which"},
        "no picture at all",
    ]
    together = whence.explain(llava, items)
    for item, exp in zip(items, together, strict=True):
        alone = whence.explain(llava, item)
        np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-5)
        assert exp.target == alone.target
        assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    assert [len(exp.parts) for exp in together] == [2, 2, 2, 2, 1]
    assert together[2].part("pixel_values").shape == (2, 2, 2)
    assert together[2].image.shape == (28, 56, 3)
    assert together[2].only("pixel_values").scores.shape == (2, 4)


def test_a_text_may_say_where_its_pictures_stand(llava):
    """In as many places as there are pictures, or in none; a text without pictures has no place for any."""
    module, processor = llava
    exp = whence.explain(llava, {"images": [picture(0), picture(1)], "text": "a <image> or <image>?"}, target=65)
    encoded = processor(text=["a <image> or <image>?"], images=[picture(0), picture(1)], return_tensors="pt")
    with torch.no_grad():
        assert exp.target_score == pytest.approx(float(module(**encoded).logits[0, -1, 65]), abs=1e-4)
    assert "".join(exp.tokens[: exp.parts[0].count]) == "a  or ?"
    for wrong in ("<image><image> which", "<image> a <image> b <image>"):
        with pytest.raises(InputError, match=r"of the marks '<image>', .* for 1 pictures"):
            whence.explain(llava, {"image": picture(0), "text": wrong})
    with pytest.raises(InputError, match="has 1 of the marks '<image>'"):
        whence.explain(llava, "what is <image>")
    chatty = copy.copy(processor)
    chatty.chat_template = TEMPLATE
    said = [{"role": "user", "content": [{"type": "image", "image": picture(0)}, {"type": "text", "text": "<image>a"}]}]
    with pytest.raises(InputError, match="has 1 of the marks '<image>'"):
        whence.explain((module, chatty), said)


def test_messages_of_a_chat(llava, tmp_path):
    module, processor = llava
    chatty = copy.copy(processor)
    chatty.chat_template = TEMPLATE
    picture(0).save(tmp_path / "ball.png")
    messages = [
        {
            "role": "user",
            "content": [{"type": "image", "path": str(tmp_path / "ball.png")}, {"type": "text", "text": "a?"}],
        },
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [{"type": "image", "image": picture(1)}, {"type": "text", "text": "c?"}]},
    ]
    exp = whence.explain((module, chatty), messages)
    assert "".join(exp.tokens[: exp.parts[0].count]) == "user:a?;assistant:b;user:c?;"
    assert exp.part("pixel_values").shape == (2, 2, 2)
    with pytest.raises(InputError, match="holds its picture"):
        whence.explain((module, chatty), [{"role": "user", "content": [{"type": "image"}]}])
    with pytest.raises(InputError, match="no place for tools"):
        whence.explain((module, chatty), {"messages": messages, "tools": [{"name": "clock"}]})
    chatty.chat_template = "{% if tools %}<{{ tools[0]['name'] }}>{% endif %}" + TEMPLATE
    exp = whence.explain((module, chatty), {"messages": messages, "tools": [{"name": "clock"}]})
    assert "".join(exp.tokens[: exp.parts[0].count]).startswith("<clock>user:a?;")


def test_what_is_written_is_explained_token_by_token(llava):
    item = {"image": picture(0), "text": "a ball"}
    exp = whence.explain(llava, item, continuation=" is", target=whence.span())
    assert exp.sides == ("prompt",) * 6 + ("continuation",) * 2 + ("picture",) * 4
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    written = whence.explain(llava, item, generate=3, target=whence.span())
    assert written.parts[0].count == 6 + 2
    assert written.conservation.error == pytest.approx(0, abs=1e-4)


def test_patches_in_a_line(qwen):
    """Merged patches stand beside each other in the input, and where they belong in the result."""
    inputs = qwen_inputs()
    exp = whence.explain(qwen, inputs, target=5)
    with torch.no_grad():
        by_hand = qwen(**inputs).logits[0, -1, 5]
    assert exp.target_score == pytest.approx(float(by_hand), abs=1e-4)
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    grid = exp.part("pixel_values")
    assert grid.shape == (2, 4)
    pixels = inputs["pixel_values"].clone().requires_grad_()
    gi = whence.explain(qwen, inputs, "gi", target=5).part("pixel_values")
    qwen(**{**inputs, "pixel_values": pixels}).logits[0, -1, 5].backward()
    line = (pixels * pixels.grad).sum(1).detach().numpy()
    np.testing.assert_allclose(gi, line.reshape(1, 2, 2, 2).transpose(0, 2, 1, 3).reshape(2, 4), atol=1e-5)


def test_pictures_of_other_sizes_in_a_list(qwen):
    """Those of one size share a batch; others do not meet."""
    wide = qwen_inputs(1)
    ids = torch.tensor([[1, 97, *[99] * 3, 96, 7, 8]])
    pixels = torch.randn(12, 3 * 2 * 14 * 14, generator=torch.Generator().manual_seed(2))
    tall = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == 99).long(),
            "pixel_values": pixels, "image_grid_thw": torch.tensor([[1, 6, 2]])}  # fmt: skip
    items = [qwen_inputs(0), tall, wide]
    for item, exp in zip(items, whence.explain(qwen, items, target=5), strict=True):
        np.testing.assert_allclose(exp.scores, whence.explain(qwen, item, target=5).scores, atol=1e-5)
    assert exp.part("pixel_values").shape == (2, 4)


@pytest.mark.parametrize("which", ["llava", "qwen"])
def test_a_patch_that_is_taken_away(which, request):
    """Occlusion takes away the patch whose score it gives: a feature and the pixels behind it are one."""
    held = request.getfixturevalue(which)
    model = whence.load(held)
    item = {"image": picture(0), "text": "a ball"} if which == "llava" else qwen_inputs()
    example = model.encode(item)[0][0]
    text = example.parts[0].count
    for n in range(example.parts[1].count):
        keep = np.ones(example.count, bool)
        keep[text + n] = False
        gone = (model.masked(example, keep, "pad").inputs["pixel_values"] != example.inputs["pixel_values"]).float()
        marked = model.by_feature(example.parts[1], gone)
        assert int(marked.reshape(-1).argmax()) == n
        assert int((marked > 0).sum()) == 1


def test_attention_over_other_tokens_says_so(llava):
    with pytest.raises(whence.WhenceError, match="Use a propagation method"):
        whence.explain(llava, {"image": picture(0), "text": "a ball"}, "rollout")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"image": picture(0)}, "a picture comes with a text"),
        ({"image": "no_such.png", "text": "a"}, "no such image"),
        ({"image": picture(0), "text": "  "}, "a picture comes with a text"),
        ({"image": picture(0), "text": "a", "labels": ["b"]}, "'labels' is of no use to an image-text-to-text model"),
        (3.5, "can't read"),
        (picture(0), "this model takes {'image': …, 'text'"),
        ((picture(0), "a"), "this model takes {'image': …, 'text'"),
        (("a", picture(0)), "this model takes {'image': …, 'text'"),
        ({"image": None, "text": "a"}, "the picture is missing"),
        ({"image": picture(0), "question": "a"}, "named 'image', 'images', 'text'"),
    ],
)
def test_wrong_things_at_the_door(llava, wrong, says):
    with pytest.raises(InputError, match=says):
        whence.explain(llava, wrong)


def test_maps_of_both_are_whole(llava):
    maps = whence.attention(llava, {"image": picture(0), "text": "a ball"})
    assert len({m.shape for m in maps.maps}) == 2  # patches in one model, all tokens in the other
    assert maps.tokens.count("<image>") == 4
    assert maps.maps[-1].shape[-1] == len(maps.tokens)
    for m in maps.maps:
        np.testing.assert_allclose(m.sum(-1), 1, atol=1e-5)  # no key was left out; rounding of a softmax


def test_words_beside_a_picture_are_not_known(llava):
    with pytest.raises(InputError, match="no words: pictures, sounds and numbers have none"):
        whence.explain(llava, {"image": picture(0), "text": "a ball"}).words()


def test_the_path_of_a_picture_is_no_question(llava, tmp_path):
    picture(0).save(tmp_path / "ball.png")
    with pytest.raises(InputError, match=r"is a file, and would be read as a text: this model takes {'image'"):
        whence.explain(llava, str(tmp_path / "ball.png"))
    assert whence.explain(llava, "what is in ball.png").text.endswith("ball.png")


def test_from_a_folder_and_shown(llava, tmp_path):
    module, processor = llava
    module.save_pretrained(tmp_path / "model")
    processor.save_pretrained(tmp_path / "model")
    model = whence.load(tmp_path / "model")
    assert "for image-text-to-text" in repr(model)
    assert "reads pictures with text" in repr(model)
    exp = whence.explain(model, {"image": picture(0), "text": "a ball"})
    picture(0).save(tmp_path / "ball.png")
    said = CliRunner().invoke(
        app, ["explain", "a ball", "--image", str(tmp_path / "ball.png"), "--model", str(tmp_path / "model"), "--json"]
    )
    np.testing.assert_allclose(json.loads(said.stdout)["scores"], exp.scores, atol=1e-6)
    text, drawn = exp.apart()
    assert (len(text), drawn.scores.shape) == (6, (2, 2))
    assert text.scores.sum() + drawn.scores.sum() == pytest.approx(float(exp.scores.sum()), abs=1e-5)
    assert text.left_out == pytest.approx(float(drawn.scores.sum()), abs=1e-5)
    for suffix in ("json", "npz", "html", "svg", "txt", "tex"):
        exp.save(tmp_path / f"exp.{suffix}")
    assert "<image" in (tmp_path / "exp.svg").read_text()
    both = whence.compare(model, {"image": picture(0), "text": "a ball"}, ["lrp", "gi"]).save(tmp_path / "both.svg")
    assert both.read_text().count("<image") >= 2
    again = whence.Explanation.load(tmp_path / "exp.npz")
    np.testing.assert_array_equal(again.part("pixel_values"), exp.part("pixel_values"))
    assert "picture: " in str(exp)
    assert "picture: " in exp._repr_html_()
    assert exp._repr_html_().count("receipt: ") == 1
    assert "left out" not in exp._repr_html_()
    assert exp.without_special().parts[1].shape == (2, 2)


def test_a_model_without_eyes():
    with pytest.raises(InputError, match="text alone, without pictures"):
        whence.explain("sentiment", {"image": picture(0), "text": "a ball"})


@pytest.mark.parametrize("name", ["Gemma3", "GotOcr2", "PaliGemma", "Idefics3", "InternVL", "Qwen2_5_VL"])
def test_who_reads_pictures(name):
    """Some of these are listed as causal language models as well: their pictures would have no scores."""
    config = getattr(transformers, f"{name}Config")()
    kind = tasks.kind_of(f"{name}ForConditionalGeneration", config, None)
    assert kind is not None
    assert kind[1] is ImageTextLM


def test_a_picture_is_never_left_out_in_silence(qwen):
    """By an encoder-decoder that reads one, a film, or a module whose pictures are not one for each example."""
    ids = torch.tensor([[5, 6, 7]])
    with pytest.raises(InputError, match="'pixel_values_videos' would have no scores"):
        whence.explain(qwen, {"input_ids": ids, "pixel_values_videos": torch.zeros(1, 8, 4)})
    with pytest.raises(InputError, match="'pixel_values' would have no scores"):
        whence.explain(
            small.t5(), {"input_ids": ids, "decoder_input_ids": ids, "pixel_values": torch.zeros(1, 3, 4, 4)}
        )

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words, self.eye, self.head = torch.nn.Embedding(9, 4), torch.nn.Linear(48, 4), torch.nn.Linear(4, 2)

        def forward(self, input_ids, pixel_values):
            return self.head(self.words(input_ids).sum(1) + self.eye(pixel_values.flatten(1)).sum(0, keepdim=True))

    module = Both().eval()
    exp = whence.explain(module, {"input_ids": ids, "pixel_values": torch.randn(1, 3, 4, 4)})
    assert [part.source for part in exp.parts] == ["input_ids", "pixel_values"]
    assert exp.part("pixel_values").any()
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)
    with pytest.raises(InputError, match="'pixel_values' has 2 rows for 1 examples"):
        whence.explain(module, {"input_ids": ids, "pixel_values": torch.randn(2, 3, 4, 4)})


@pytest.fixture(scope="module")
def vilt():
    reader = transformers.ViltImageProcessorPil(size={"shortest_edge": 32}, size_divisor=16)
    processor = transformers.ViltProcessor(image_processor=reader, tokenizer=small.wordpiece())
    config = transformers.ViltConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=16,
        vocab_size=len(small.wordpiece()), max_position_embeddings=40, id2label={0: "no", 1: "yes", 2: "two"},
        label2id={"no": 0, "yes": 1, "two": 2},
    )  # fmt: skip
    torch.manual_seed(0)
    return small.randomised(transformers.ViltForQuestionAnswering(config)), processor


@pytest.mark.parametrize("method", ["lrp", "occlusion"])
def test_an_answer_that_is_a_class(vilt, method):
    module, processor = vilt
    asked = {"image": picture(3, (32, 32)), "text": "was it good"}
    exp = whence.explain(vilt, asked, method, target="two")
    encoded = processor(text=["was it good"], images=[picture(3, (32, 32))], return_tensors="pt")
    with torch.no_grad():
        logits = module(**encoded).logits[0]
    assert exp.target == "two"
    assert exp.target_score == pytest.approx(float(logits[2]), abs=1e-4)
    assert exp.part("pixel_values").any()
    assert exp.part("input_ids").any()
    assert whence.load(vilt).task == "visual-question-answering"
    found = whence.explain(vilt, [asked, {"image": picture(4, (32, 32)), "text": "is it"}], receipt="full")
    assert found[0].target == module.config.id2label[int(logits.argmax())]
    for one in found:
        assert one.conservation.error == pytest.approx(0, abs=1e-4)
    with pytest.raises(InputError, match="'text': 'What is this"):
        whence.explain(vilt, "was it good")


@pytest.mark.parametrize("name", ["florence2", "t5gemma2"])
def test_an_encoder_of_pictures_and_text(name):
    """What a decoder writes about both: three parts, one receipt, the model's own score."""
    made = build("image-text-to-text", name)
    model = whence.load(made.model)
    assert model.task == "image-text-to-text2text"
    target = lambda outputs: outputs.logits[:, -1, 7]
    found = whence.explain(model, dict(made.inputs), target=target, receipt="full")
    with torch.no_grad():
        by_hand = made.model(**made.inputs).logits[:, -1, 7]
    for n, exp in enumerate(found):
        assert exp.target_score == pytest.approx(float(by_hand[n]), abs=1e-4)
        assert [part.source for part in exp.parts] == ["input_ids", "pixel_values", "decoder_input_ids"]
        assert all(exp.part(part.source).any() for part in exp.parts)
        assert exp.conservation.error == pytest.approx(0, abs=1e-3)
        alone = {k: v[n : n + 1] for k, v in made.inputs.items()}
        np.testing.assert_allclose(
            whence.explain(model, alone, target=target).scores, exp.scores, atol=1e-4 * np.abs(exp.scores).max()
        )
    taken = whence.explain(model, {k: v[:1] for k, v in made.inputs.items()}, "occlusion", target=target, fill="pad")
    assert taken.part("pixel_values").any()
    del alone["decoder_input_ids"]
    written = whence.explain(model, alone, generate=3, target=whence.span())
    assert 1 <= written.part("decoder_input_ids").size <= 3  # it may end before
    with pytest.raises(ModelError, match="attention of its own"):
        whence.explain(model, dict(made.inputs), "gae", target=target)
