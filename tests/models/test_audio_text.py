"""Sounds among the tokens of a text: one explanation, tokens and pieces of the sound, one receipt."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

import whence
from tests.models import hearers
from tests.models.hearers import MARK
from whence.errors import InputError, InputTooLongError, ModelError
from whence.models import tasks
from whence.models.audio_text import AudioTextLM
from zoo.build import build

SECOND = 16000


def tone(seconds: float = 0.5, pitch: float = 440, seed: int = 0) -> np.ndarray:
    t = np.arange(round(seconds * SECOND)) / SECOND
    noise = np.random.default_rng(seed).normal(size=len(t))
    return (0.5 * np.sin(2 * np.pi * pitch * t) + 0.05 * noise).astype(np.float32)


@pytest.fixture(scope="module")
def qwen():
    return hearers.qwen()


def encoded(processor, text: str, *sounds: np.ndarray):
    return processor(text=[text], audio=list(sounds), audio_kwargs={"sampling_rate": SECOND}, return_tensors="pt")


@pytest.mark.parametrize("method", ["lrp", "attn_lrp", "gi"])
def test_both_are_explained_in_one_receipt(qwen, method):
    module, processor = qwen
    exp = whence.explain(qwen, {"audio": tone(), "text": "what is it?"}, method, target=65, receipt="full")
    inputs = encoded(processor, f"user:{MARK}what is it?;", tone())
    with torch.no_grad():
        by_hand = module(**inputs).logits[0, -1, 65]
    assert exp.target_score == pytest.approx(float(by_hand), abs=1e-4)
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    text, sound = exp.parts
    assert (text.source, sound.source, sound.kind, sound.shape) == ("input_ids", "input_features", "frame", (8, 10))
    assert "".join(exp.tokens[: text.count]) == "user:what is it?;"
    assert set(exp.sides[text.count :]) == {"sound"}
    assert exp.part("input_ids").any()
    assert exp.part("input_features").any()
    assert exp.times[-1] == pytest.approx(1.0)


def test_relevance_is_at_the_pieces_it_names(qwen):
    """The gradient times input of the spectrum, summed over what lies in a band and a tenth of a second."""
    module, processor = qwen
    inputs = encoded(processor, f"user:{MARK}a;", tone())
    spectrum = inputs["input_features"].clone().requires_grad_()
    module(**{**inputs, "input_features": spectrum}).logits[0, -1, 65].backward()
    product = (spectrum * spectrum.grad)[0].detach().flip(0)
    wanted = product.reshape(8, 2, 10, 10).sum((1, 3))
    found = whence.explain(qwen, {"audio": tone(), "text": "a"}, "gi", target=65).part("input_features")
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)


def test_a_list_is_its_members(qwen):
    """Texts of other lengths, and one without a sound."""
    items = [
        {"audio": tone(), "text": "what is it?"},
        {"audio": tone(0.3, 700, seed=1), "text": "a"},
        {"audio": (tone(0.4), SECOND), "text": f"before {MARK} and behind"},
        "no sound at all",
    ]
    together = whence.explain(qwen, items)
    for item, exp in zip(items, together, strict=True):
        alone = whence.explain(qwen, item)
        np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-4 * np.abs(alone.scores).max())
        assert exp.target == alone.target
        assert exp.conservation.error == pytest.approx(0, abs=1e-4)
    assert [len(exp.parts) for exp in together] == [2, 2, 2, 1]


def test_every_way_to_hold_both(qwen):
    _, processor = qwen
    wanted = whence.explain(qwen, {"audio": tone(), "text": "a"}, target=65)
    ways = [
        {"audio": tone().tolist(), "text": "a"},
        {"audio": torch.from_numpy(tone()), "text": "a"},
        {"audio": {"array": tone(), "sampling_rate": SECOND}, "text": "a"},
        [{"role": "user", "content": [{"type": "audio", "audio": tone()}, {"type": "text", "text": "a"}]}],
        dict(encoded(processor, f"user:{MARK}a;", tone())),
    ]
    for way in ways:
        found = whence.explain(qwen, way, target=65)
        found = found[0] if isinstance(found, list) else found
        np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-5)


def test_what_is_written_and_what_is_taken_away(qwen):
    item = {"audio": tone(), "text": "a"}
    written = whence.explain(qwen, item, continuation=" is", target=whence.span())
    assert written.sides[:9] == ("prompt",) * 7 + ("continuation",) * 2
    assert written.conservation.error == pytest.approx(0, abs=1e-4)
    assert len(whence.explain(qwen, item, generate=3, target=whence.span())) == 7 + 2 + 80
    model = whence.load(qwen)
    (example,), _ = model.encode(item)
    text = example.parts[0].count
    for n in (0, 17, 79):
        keep = np.ones(example.count, bool)
        keep[text + n] = False
        spectra = [e.inputs["input_features"] for e in (model.masked(example, keep), example)]
        marked = model.by_feature(example.parts[1], (spectra[0] != spectra[1]).float())
        assert set(torch.nonzero(marked).flatten().tolist()) <= {n}
    assert whence.explain(qwen, item, "occlusion", target=65).part("input_features").any()


@pytest.mark.parametrize("name", ["fun_asr_nano", "granite_speech", "qwen3_asr", "voxtral"])
def test_tensors_as_they_are(name):
    """Other families: the model's own score, a receipt, and a batch that is a loop."""
    made = build("speech-seq2seq", name)
    model = whence.load(made.model)
    assert type(model) is AudioTextLM
    rows = [{k: v[n : n + 1] for k, v in made.inputs.items()} for n in range(2)]
    together = whence.explain(model, dict(made.inputs), target=7, receipt="full")
    for row, exp in zip(rows, together, strict=True):
        with torch.no_grad():
            by_hand = float(made.model(**row).logits[0, -1, 7])
        assert exp.target_score == pytest.approx(by_hand, rel=1e-3, abs=1e-3)
        assert abs(exp.conservation.error) <= 1e-3 * max(1, exp.conservation.scale)
        assert exp.part("input_features").any()
        alone = whence.explain(model, row, target=7)
        np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-3 * np.abs(alone.scores).max())


def test_frames_that_stand_in_one():
    """Granite Speech puts two frames of its extractor into one: it is twice as long, and has twice the frequencies."""
    made = build("speech-seq2seq", "granite_speech")
    model = whence.load(made.model)
    size = made.model.config.encoder_config.input_dim
    model.extractor = SimpleNamespace(feature_size=size // 2, sampling_rate=SECOND)
    assert model._upright(torch.zeros(5, size)).shape == (size, 5)  # shorter in time than in frequency
    exp = whence.explain(model, {k: v[:1] for k, v in made.inputs.items()}, target=7)
    assert exp.times[-1] == pytest.approx(made.inputs["input_features"].shape[1] * 0.02)


@pytest.mark.parametrize("name", ["Qwen2Audio", "Voxtral", "GraniteSpeech", "AudioFlamingo3", "GlmAsr", "Qwen3ASR"])
def test_who_hears(name):
    kind = tasks.kind_of(f"{name}ForConditionalGeneration", getattr(transformers, f"{name}Config")(), None)
    assert kind == ("AutoModelForMultimodalLM", AudioTextLM)


def test_from_a_folder(qwen, tmp_path):
    for part in qwen:
        part.save_pretrained(tmp_path)
    model = whence.load(tmp_path)
    assert "for audio-text-to-text: reads sounds with text" in repr(model)
    exp = whence.explain(model, {"audio": tone(), "text": "a"}, target=65)
    wanted = whence.explain(qwen, {"audio": tone(), "text": "a"}, target=65)
    np.testing.assert_allclose(exp.scores, wanted.scores, atol=1e-6)
    for suffix in ("json", "npz", "html", "svg", "txt", "tex"):
        exp.save(tmp_path / f"exp.{suffix}")
    assert "other pieces" in str(exp)
    assert "sound: " in str(exp)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"audio": tone()}, "a sound comes with a text"),
        ({"audio": "nowhere.wav", "text": "a"}, "no such sound"),
        (tone(), "can't read ndarray: this model takes {'audio': …, 'text'"),
        ({"audio": tone(), "text": "a", "labels": ["b"]}, "'labels' is of no use to an audio-text-to-text model"),
        (
            {"audio": tone(), "text": f"{MARK}{MARK}a"},
            "2 of the marks '<|AUDIO|>', which hold the place of a sound",
        ),
    ],
)
def test_wrong_things_at_the_door(qwen, wrong, says):
    with pytest.raises(InputError) as caught:
        whence.explain(qwen, wrong)
    assert says in str(caught.value)


def test_what_it_does_not_hear_is_not_left_out_in_silence(qwen):
    _, processor = qwen
    with pytest.raises(InputTooLongError, match=r"is 1\.5 s long, and the model hears 1\.0 s of it"):
        whence.explain(qwen, {"audio": tone(1.5), "text": "a"})
    two = encoded(processor, f"{MARK}a{MARK}", tone(), tone(seed=1))
    with pytest.raises(InputError, match="makes 2 pieces of this, and one is explained"):
        whence.explain(qwen, dict(two))


def test_what_it_is_not(qwen):
    with pytest.raises(ModelError, match="load it without task="):
        whence.load(qwen, task="automatic-speech-recognition")
    with pytest.raises(whence.WhenceError, match="Use a propagation method"):
        whence.explain(qwen, {"audio": tone(), "text": "a"}, "rollout")
