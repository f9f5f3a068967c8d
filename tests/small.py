"""Tiny random models of every kind, with tokenizers made in memory."""

from __future__ import annotations

import copy
from functools import lru_cache, wraps

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = "a an the movie film is was not good bad very gorgeous dull witty boring plot and but of in it this".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@lru_cache
def wordpiece() -> transformers.PreTrainedTokenizerFast:
    """BERT-style: whole words, letters and ##letters."""
    letters = list("abcdefghijklmnopqrstuvwxyz'.,!?")
    pieces = SPECIAL + WORDS + letters + [f"##{c}" for c in letters]
    vocabulary = {w: i for i, w in enumerate(dict.fromkeys(pieces))}
    raw = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.decoder = decoders.WordPiece()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=48,
    )


@lru_cache
def bytelevel(limit: int = 64) -> transformers.PreTrainedTokenizerFast:
    """GPT-style: bytes, a few merged words, no special tokens around the text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate(["<pad>", "<eos>", *alphabet])}
    raw = Tokenizer(models.BPE(vocabulary, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        eos_token="<eos>",
        model_max_length=limit,
        chat_template="{% for m in messages %}{{ m['role'] }}:{{ m['content'] }};{% endfor %}",
    )


@lru_cache
def sentencepiece() -> transformers.PreTrainedTokenizerFast:
    """Llama-style: a space is a letter of the word behind it, one is put before the text, and <s> before that."""
    words = ["▁the", "▁a", "▁girl", "▁named", "▁Lily", "▁Paris", "▁London", "▁loved", "ing"]
    merges, vocabulary = [], ["<unk>", "<s>", "</s>", "▁", *"abcdefghijklmnopqrstuvwxyzLPS.,!"]
    for word in words:
        made = word[0]
        for letter in word[1:]:
            if (made, letter) not in merges:
                merges.append((made, letter))
            made += letter
            vocabulary.append(made)
    raw = Tokenizer(
        models.BPE({piece: i for i, piece in enumerate(dict.fromkeys(vocabulary))}, merges, unk_token="<unk>")
    )
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>", model_max_length=64
    )


@lru_cache
def bytefallback() -> transformers.PreTrainedTokenizerFast:
    """Llama 2 and Gemma: a few letters, and bytes for every other character."""
    vocabulary = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁", *"abcdefghij"]
    raw = Tokenizer(models.BPE({p: i for i, p in enumerate(vocabulary)}, [], unk_token="<unk>", byte_fallback=True))
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>", model_max_length=64
    )


def seeded(build):
    """Build once, from a seed of its own: what ran before must not matter."""

    @lru_cache
    @wraps(build)
    def built(*args, **kwargs):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return build(*args, **kwargs)

    return built


def randomised(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Every parameter moved away from zero, so that no bias hides a mistake."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn(p.shape, generator=generator) * 0.1)
    return module.eval()


SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}


def _config(kind: str, **extra):
    return getattr(transformers, kind)(
        vocab_size=300, pad_token_id=0, eos_token_id=1, bos_token_id=1, max_position_embeddings=64, **SIZES, **extra
    )


@seeded
def classifier(labels: int = 3, **_: object):
    return randomised(transformers.BertForSequenceClassification(_config("BertConfig", num_labels=labels)))


@seeded
def llama():
    return randomised(transformers.LlamaForCausalLM(_config("LlamaConfig", num_key_value_heads=2)))


@seeded
def long_llama():
    """Reads 512 tokens."""
    config = _config("LlamaConfig", num_key_value_heads=2)
    config.max_position_embeddings = 512
    return randomised(transformers.LlamaForCausalLM(config))


@seeded
def llama_classifier():
    return randomised(
        transformers.LlamaForSequenceClassification(_config("LlamaConfig", num_key_value_heads=2, num_labels=3))
    )


@seeded
def gpt2():
    config = transformers.GPT2Config(
        vocab_size=300, n_embd=24, n_layer=2, n_head=4, n_positions=64, pad_token_id=0, eos_token_id=1, bos_token_id=1
    )
    return randomised(transformers.GPT2LMHeadModel(config))


@seeded
def t5():
    config = transformers.T5Config(
        vocab_size=300, d_model=24, d_ff=32, d_kv=6, num_layers=2, num_heads=4, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0,
    )  # fmt: skip
    return randomised(transformers.T5ForConditionalGeneration(config))


@seeded
def vit():
    config = transformers.ViTConfig(image_size=16, patch_size=4, num_labels=3, **SIZES)
    return randomised(transformers.ViTForImageClassification(config))


@seeded
def llava():
    """A LLaVA of two small layers with its processor."""
    tokenizer = copy.deepcopy(bytelevel())
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    reader = transformers.CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = transformers.LlavaProcessor(
        image_processor=reader, tokenizer=tokenizer, patch_size=14, vision_feature_select_strategy="default",
        image_token="<image>", num_additional_image_tokens=1,
    )  # fmt: skip
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(**size, num_key_value_heads=2, vocab_size=300),
        vision_config=transformers.CLIPVisionConfig(**size, image_size=28, patch_size=14),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
    )
    return randomised(transformers.LlavaForConditionalGeneration(config)), processor


@seeded
def clip():
    """A CLIP of two small layers with its processor: four patches, words."""
    tokenizer = copy.deepcopy(wordpiece())
    tokenizer.eos_token = "[SEP]"
    reader = transformers.CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = transformers.CLIPProcessor(image_processor=reader, tokenizer=tokenizer)
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.CLIPConfig(
        text_config={
            **size, "vocab_size": len(tokenizer), "max_position_embeddings": 32, "projection_dim": 16,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={**size, "image_size": 28, "patch_size": 14, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    return randomised(transformers.CLIPModel(config)), processor


@seeded
def encoder():
    """A BERT without a head."""
    return randomised(transformers.BertModel(_config("BertConfig"), add_pooling_layer=False))


@seeded
def tagger():
    return randomised(transformers.BertForTokenClassification(_config("BertConfig", num_labels=3)))


@seeded
def answerer():
    return randomised(transformers.BertForQuestionAnswering(_config("BertConfig")))


@seeded
def decoder():
    """A causal model whose tokenizer ends every text with [SEP]."""
    return randomised(transformers.BertLMHeadModel(_config("BertConfig", is_decoder=True)))


@seeded
def masked():
    return randomised(transformers.BertForMaskedLM(_config("BertConfig")))


class ByHand(torch.nn.Module):
    """A classifier written by hand from nn.TransformerEncoder, with an argument name of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(50, 16), torch.nn.Parameter(torch.randn(20, 16) * 0.1)
        block = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places[: tokens.shape[1]]
        return self.head(self.encoder(x).mean(1))


@seeded
def by_hand():
    torch.manual_seed(0)
    return randomised(ByHand())
