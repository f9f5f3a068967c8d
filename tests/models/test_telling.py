"""Models that write about a picture."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import whence
from tests import small
from whence.errors import ModelError


@pytest.fixture(scope="module")
def teller():
    """An encoder of pictures and a decoder that writes, as TrOCR is."""
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    tokenizer = small.wordpiece()
    config = hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        hf.ViTConfig(**size, image_size=32, patch_size=8),
        hf.BertConfig(
            **size, vocab_size=len(tokenizer), is_decoder=True, add_cross_attention=True, max_position_embeddings=40
        ),
    )
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 0, 3
    torch.manual_seed(0)
    module = small.randomised(hf.VisionEncoderDecoderModel(config))
    module.generation_config.eos_token_id, module.generation_config.decoder_start_token_id = 3, 2
    reader = hf.ViTImageProcessorPil(size={"height": 32, "width": 32})
    return module, types.SimpleNamespace(tokenizer=tokenizer, image_processor=reader)


@pytest.mark.parametrize("how", [{"continuation": "good film"}, {"generate": 4}])
def test_what_is_written_about_a_picture(teller, how):
    module, processor = teller
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8))
    exp = whence.explain(teller, picture, receipt="full", target=whence.span(), **how)
    pixels = processor.image_processor(images=picture, return_tensors="pt")["pixel_values"]
    if "continuation" in how:
        ids = processor.tokenizer("good film", add_special_tokens=False)["input_ids"]
    else:
        ids = []
        for _ in range(4):
            with torch.no_grad():
                logits = module(pixel_values=pixels, decoder_input_ids=torch.tensor([[2, *ids]])).logits
            ids.append(int(logits[0, -1].argmax()))
    with torch.no_grad():
        rows = module(pixel_values=pixels, decoder_input_ids=torch.tensor([[2, *ids[:-1]]])).logits[0]
    score = sum(float(row[i] - torch.cat([row[:i], row[i + 1 :]]).max()) for row, i in zip(rows, ids, strict=True))
    assert whence.load(teller).task == "image-to-text"
    assert exp.target_score == pytest.approx(score, abs=1e-3)
    assert exp.part("pixel_values").shape == (4, 4)
    assert exp.part("pixel_values").any()
    assert exp.conservation.error == pytest.approx(0, abs=1e-3)
    taken = whence.explain(teller, {"image": picture}, "occlusion", fill="mean", target=whence.span(), **how)
    assert taken.part("pixel_values").any()
    two = whence.explain(teller, [picture, picture.rotate(90)], target=whence.span(), **how)
    np.testing.assert_allclose(two[0].scores, exp.scores, atol=1e-4)
    with pytest.raises(ModelError, match="over neither"):
        whence.explain(teller, picture, "gae", target=whence.span(), **how)
