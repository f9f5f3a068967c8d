"""Models of sounds and of pictures with labels, as `whence.load` takes them: the model's own score, and a receipt."""

from __future__ import annotations

import pytest
import torch

import whence
from zoo.build import build

HEARD = {
    ("audio-classification", "audio-spectrogram-transformer"): "audio-classification",
    ("audio-classification", "wav2vec2-bert"): "audio-classification",
    ("audio-classification", "whisper"): "audio-classification",
    ("ctc", "hubert"): "ctc",
    ("ctc", "parakeet_ctc"): "ctc",
    ("speech-seq2seq", "moonshine"): "automatic-speech-recognition",
    ("speech-seq2seq", "seamless_m4t"): "automatic-speech-recognition",
    ("speech-seq2seq", "speech_to_text"): "automatic-speech-recognition",
    ("speech-seq2seq", "speecht5"): "automatic-speech-recognition",
}


@pytest.mark.parametrize(("mapping", "name"), HEARD)
def test_what_is_heard(mapping, name):
    made = build(mapping, name)
    model, inputs = whence.load(made.model), {k: v[:1] for k, v in made.inputs.items()}
    assert model.task == HEARD[mapping, name]
    target = lambda outputs: outputs.logits.flatten(1)[:, 1]
    exp = whence.explain(model, inputs, target=target, receipt="full")
    with torch.no_grad():
        assert exp.target_score == pytest.approx(float(target(made.model(**inputs))[0]), rel=1e-3, abs=1e-3)
    assert abs(exp.conservation.error) <= 1e-3 * max(1, exp.conservation.scale)
    assert exp.part(exp.parts[0].source).any()


@pytest.mark.parametrize("name", ["align", "altclip", "blip", "blip-2", "chinese_clip", "siglip", "siglip2"])
def test_what_is_matched(name):
    made = build("zero-shot-image-classification", name)
    texts = {k: v for k, v in made.inputs.items() if k in ("input_ids", "attention_mask", "token_type_ids")}
    picture = {k: v[:1] for k, v in made.inputs.items() if k not in texts}
    exp = whence.explain(made.model, {**texts, **picture}, target=1, receipt="full")
    with torch.no_grad():
        by_hand = float(made.model(**texts, **picture).logits_per_image[0, 1])
    assert exp.target_score == pytest.approx(by_hand, rel=1e-3, abs=1e-3)
    assert abs(exp.conservation.error) <= 1e-3 * max(1, exp.conservation.scale)
    assert all(exp.part(part.source).any() for part in exp.parts)
