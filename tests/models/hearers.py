"""Tiny random models of sounds."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import transformers
from tokenizers import pre_tokenizers

from tests import small

SIZE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
CONVOLUTIONS = {
    "conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4, "num_feat_extract_layers": 2,
}  # fmt: skip
MARK = "<|AUDIO|>"
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}:{% for c in m['content'] %}"
    "{% if c['type'] == 'audio' %}<|AUDIO|>{% else %}{{ c['text'] }}{% endif %}{% endfor %};{% endfor %}"
)


@small.seeded
def listener() -> tuple[Any, Any]:
    """A model of waves."""
    config = transformers.Wav2Vec2Config(**SIZE, **CONVOLUTIONS, vocab_size=20, num_labels=3, classifier_proj_size=16)
    module = small.randomised(transformers.Wav2Vec2ForSequenceClassification(config))
    return module, transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000)


@small.seeded
def watcher() -> tuple[Any, Any]:
    """A model of spectra."""
    config = transformers.ASTConfig(**SIZE, max_length=60, num_mel_bins=32, patch_size=8, num_labels=3,
                                    frequency_stride=8, time_stride=8)  # fmt: skip
    module = small.randomised(transformers.ASTForAudioClassification(config))
    return module, transformers.ASTFeatureExtractor(num_mel_bins=32, max_length=60)


@small.seeded
def speller(letters: str = "abcdefgh") -> tuple[Any, Any]:
    """Letters, frame by frame."""
    pieces = ["<pad>", "<s>", "</s>", "<unk>", "|", *letters]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.json"
        path.write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}))
        tokenizer = transformers.Wav2Vec2CTCTokenizer(str(path))
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000)
    processor = transformers.Wav2Vec2Processor(feature_extractor=extractor, tokenizer=tokenizer)
    config = transformers.Wav2Vec2Config(**SIZE, **CONVOLUTIONS, vocab_size=len(pieces), pad_token_id=0)
    return small.randomised(transformers.Wav2Vec2ForCTC(config), seed=3), processor


@small.seeded
def writer() -> tuple[Any, Any]:
    """Whisper, of ten frames a second and one second; single bytes."""
    marks = ["<pad>", "<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>"]
    pieces = [*marks, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = transformers.WhisperTokenizer(
        vocab={piece: n for n, piece in enumerate(pieces)}, merges=[], pad_token="<pad>",
        additional_special_tokens=marks[1:],
    )  # fmt: skip
    extractor = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=1)
    config = transformers.WhisperConfig(
        vocab_size=len(tokenizer), num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
        max_source_positions=50, max_target_positions=40, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    module = small.randomised(transformers.WhisperForConditionalGeneration(config))
    return module, transformers.WhisperProcessor(extractor, tokenizer)


@small.seeded
def clap() -> tuple[Any, Any]:
    """Sounds and texts in one space."""
    tokenizer = small.wordpiece()
    extractor = transformers.ClapFeatureExtractor(feature_size=16, sampling_rate=16000, hop_length=160, max_length_s=1,
                                                  truncation="rand_trunc", frequency_max=8000)  # fmt: skip
    text = {**SIZE, "vocab_size": len(tokenizer), "max_position_embeddings": 40, "projection_dim": 16}
    audio = {
        "spec_size": 64, "num_mel_bins": 16, "patch_size": 4, "patch_stride": [4, 4], "hidden_size": 16,
        "patch_embeds_hidden_size": 8, "depths": [1, 1], "num_attention_heads": [2, 2], "window_size": 4,
        "projection_dim": 16, "num_hidden_layers": 2,
    }  # fmt: skip
    config = transformers.ClapConfig(text_config=text, audio_config=audio, projection_dim=16)
    return small.randomised(transformers.ClapModel(config)), transformers.ClapProcessor(extractor, tokenizer)


@small.seeded
def qwen() -> tuple[Any, Any]:
    """A Qwen2-Audio of two small layers with its processor, which hears one second."""
    tokenizer = copy.deepcopy(small.bytelevel())
    tokenizer.add_special_tokens({"additional_special_tokens": [MARK, "<|audio_bos|>", "<|audio_eos|>"]})
    extractor = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=1, return_attention_mask=True)
    processor = transformers.Qwen2AudioProcessor(extractor, tokenizer, chat_template=TEMPLATE)
    config = transformers.Qwen2AudioConfig(
        audio_config=transformers.Qwen2AudioEncoderConfig(
            num_mel_bins=16, d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=48,
            max_source_positions=50,
        ),
        text_config=transformers.Qwen2Config(**SIZE, num_key_value_heads=2, vocab_size=300, pad_token_id=0),
        audio_token_index=tokenizer.convert_tokens_to_ids(MARK),
    )  # fmt: skip
    return small.randomised(transformers.Qwen2AudioForConditionalGeneration(config)), processor
