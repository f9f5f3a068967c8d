"""What stands for models of the hub, and for files, where pages are run: tiny random models, noise.

`hub("facebook/detr-resnet-50")` saves one of that kind to a folder of that name in the working directory, and
`whence.load` takes a folder where it takes a name: pages run as they are typed.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import soundfile
import torch
import transformers as hf
from PIL import Image

import whence
from tests import small
from tests.models import hearers, seers
from tests.models.test_choosing import bert
from tests.models.test_documents import made as document_reader
from tests.models.test_together import TEMPLATE

RATE = 16000
ENDS, SAYS = ";", "Anna lives in Graz, So 6 x 7 = 42."
"""The end of a message, by the template of the language model, and what it has learnt to say behind it. No word is
there twice: each calls for the next one."""
NAMES = "When Mary and John got a plum at the bar, Anne decided to give it to Tom in Paris, London, Vienna"
"""Words that are one token each, as in a large vocabulary."""
REVIEWS = ["a gorgeous film", "dull and boring", "a witty plot", "the movie was bad", "it is very good"]


def picture(seed: int = 0, width: int = 320, height: int = 240) -> Image.Image:
    """Noise."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def sound(seconds: float = 0.5) -> np.ndarray:
    """Noise."""
    return np.random.default_rng(0).normal(size=round(seconds * RATE)).astype(np.float32) / 10


def files(*names: str) -> None:
    """Pictures and sounds of these names."""
    for seed, name in enumerate(names):
        if Path(name).suffix in (".wav", ".flac"):
            soundfile.write(name, sound(SPOKEN if "speech" in name else 0.5), RATE)
        else:
            picture(seed).save(name)


def hub(*names: str, **options: Any) -> None:
    """A tiny model for each of these names, in a folder that is called so."""
    for name in names:
        for part in KINDS[name](**options):
            part.save_pretrained(name)


# -- texts -------------------------------------------------------------------------------------------------------------


@small.seeded
def language_model(layers: int = 2) -> tuple[Any, Any]:
    """A Llama with nine heads in a layer that answers every message alike."""
    tokenizer = small.bytelevel(1024).train_new_from_iterator([NAMES, SAYS], 2000, show_progress=False)
    config = hf.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=72, intermediate_size=64, num_hidden_layers=layers,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=1024, pad_token_id=0, bos_token_id=1,
        eos_token_id=1, initializer_range=0.06,
    )  # fmt: skip
    module = hf.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        words, head = module.model.embed_tokens.weight.normal_(), module.lm_head.weight
        for word, following in pairwise([*tokenizer(ENDS + SAYS)["input_ids"], tokenizer.eos_token_id]):
            head[following] = words[word]
    return module, tokenizer


def classifier() -> tuple[Any, Any]:
    return bert("BertForSequenceClassification", id2label={0: "negative", 1: "positive"})


def entailment() -> tuple[Any, Any]:
    return bert("BertForSequenceClassification", id2label={0: "contradiction", 1: "neutral", 2: "entailment"})


def chooser() -> tuple[Any, Any]:
    return bert("BertForMultipleChoice")


def encoder() -> tuple[Any, Any]:
    return small.encoder(), small.wordpiece()


class OfBases(torch.nn.Module):
    """Reads DNA."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = torch.nn.Embedding(4, 8), torch.nn.Linear(8, 2)

    def forward(self, bases: torch.Tensor) -> torch.Tensor:
        return self.out(self.embed(bases).mean(1))


# -- pictures ----------------------------------------------------------------------------------------------------------


def seer(build: Callable[[], Any], size: int, labels: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """A model of pictures of that many pixels a side."""
    module = copy.deepcopy(seers.made(build))
    if labels:
        module.config.id2label = dict(enumerate(labels))
        module.config.label2id = {label: n for n, label in enumerate(labels)}
    return module, hf.ViTImageProcessorPil(size={"height": size, "width": size})


def segmenter() -> tuple[Any, Any]:
    """One that sees cars everywhere."""
    module, processor = seer(seers.segformer, 256, ("sky", "cat", "car", "tree"))
    with torch.no_grad():
        module.decode_head.classifier.bias[2] += 5
    return module, processor


def watcher() -> tuple[Any, Any]:
    sizes = {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}
    return seers.made(seers.videomae), hf.VideoMAEImageProcessorPil(**sizes)


def llava() -> tuple[Any, Any]:
    module, processor = copy.deepcopy(small.llava())
    processor.chat_template = TEMPLATE
    return module, processor


# -- sounds ------------------------------------------------------------------------------------------------------------

SPOKEN = 0.03
"""Seconds of what is said: fewer frames than hidden numbers, so that any word can be read from them."""


def speller() -> tuple[Any, Any]:
    """A CTC model that hears "HELLO" in `sound(SPOKEN)`; the one it stands for has capitals alone too."""
    module, processor = copy.deepcopy(hearers.speller("HELO"))
    heard = processor(sound(SPOKEN), sampling_rate=RATE, return_tensors="pt")
    letters = processor.tokenizer.convert_tokens_to_ids(["H", "E", "L", "<pad>", "L", "O"])
    with torch.no_grad():
        frames = module.wav2vec2(**heard).last_hidden_state[0]
        said = torch.tensor(np.repeat(letters, np.diff(np.linspace(0, len(frames), 7).round().astype(int))))
        wanted = torch.nn.functional.one_hot(said, module.config.vocab_size).float()
        module.lm_head.weight.copy_((torch.linalg.pinv(frames) @ wanted).T)
        module.lm_head.bias.zero_()
    return module, processor


KINDS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": language_model,
    "textattack/bert-base-uncased-SST-2": classifier,
    "facebook/bart-large-mnli": entailment,
    "folder/of/a/chooser": chooser,
    "folder/of/MiniLM": encoder,
    "sentence-transformers/all-MiniLM-L6-v2": encoder,
    "facebook/detr-resnet-50": partial(seer, seers.detr, 64, ("sky", "cat", "car", "tree")),
    "nvidia/segformer-b0-finetuned-ade-512-512": segmenter,
    "Intel/dpt-large": partial(seer, seers.dpt, 32),
    "facebook/dinov2-base": partial(seer, seers.dinov2, 32),
    "MCG-NJU/videomae-base-finetuned-kinetics": watcher,
    "llava-hf/llava-1.5-7b-hf": llava,
    "openai/clip-vit-base-patch32": small.clip,
    "impira/layoutlm-document-qa": partial(document_reader, "layoutlm"),
    "superb/wav2vec2-base-superb-ks": hearers.listener,
    "facebook/wav2vec2-base-960h": speller,
    "openai/whisper-tiny.en": hearers.writer,
    "laion/clap-htsat-unfused": hearers.clap,
    "Qwen/Qwen2-Audio-7B-Instruct": hearers.qwen,
}
"""What each name stands for."""


def readme() -> dict[str, Any]:
    """What the README has no room to define, and the files that it names."""
    hub("HuggingFaceTB/SmolLM2-135M-Instruct", "textattack/bert-base-uncased-SST-2")
    files("table.jpg", "cat.jpg", "street.jpg")
    Path("examples").mkdir()
    for name in ("shapes.png", "rising.wav"):
        shutil.copy(Path(__file__).parents[2] / "examples" / name, "examples")
    frame = pandas.DataFrame({"review": [*REVIEWS, ""]})
    frame.to_parquet("reviews.parquet")
    return {
        "question": "Where does Anna live?",
        "text": REVIEWS[0],
        "texts": REVIEWS,
        "pairs": [(review, ("negative", "positive")[n % 2]) for n, review in enumerate(REVIEWS)],
        "frame": frame,
        "book": "Anna keeps bees in Graz. " * 20,
        "prompt": "Tom decided to give it to",
        "clean": "When Mary and John got a plum, John decided to give it to",
        "corrupt": "When Mary and John got a plum, Anne decided to give it to",
        "vlm": whence.load(llava()),
        "clip": whence.load(small.clip()),
        "detector": whence.load(KINDS["facebook/detr-resnet-50"]()),
        "embedder": encoder(),
        "module": small.classifier(),
        "ids": torch.tensor([[2, 5, 6, 7, 3]]),
        "mask": torch.ones(1, 5, dtype=torch.long),
        "praise": ["good", "gorgeous", "witty", "very good", "a gorgeous plot"],
        "others": small.WORDS[:12],
    }
