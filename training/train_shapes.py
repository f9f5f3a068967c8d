"""Train the bundled model of pictures with text: a small LLaVA that answers a question about one of six shapes.

    python training/train_shapes.py --out src/whence/bundled/shapes

Pictures are made up as it goes (`shapes.py`), and everything that can be asked about one is asked at once, which lets
the model learn it in half an hour on two cores. `--quick` runs the whole script in seconds;
its model is of no use.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from recipe import (
    Clock,
    adamw,
    exact_float32,
    half_precision,
    pick_device,
    save_half,
    say,
    seed_everything,
    step,
    versions,
    warm_cosine,
)
from shapes import COLOURS, QUESTIONS, SHAPES, SIDES, SIZE, WORDS, Scenes, make
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForImageTextToText,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedTokenizerFast,
)

PATCH = 8
TEST_SEED = 1_000_003
MEAN, DEVIATION = 127.5, 127.5
IMAGE = WORDS.index("<image>")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where the model is written")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--looks", type=int, default=300, help="steps of the eye alone, before")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-3, help="the highest learning rate")
    parser.add_argument("--minutes", type=float, default=30, help="finish training this long after the start at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a dry run of seconds")
    return parser.parse_args()


def new_model() -> LlavaForConditionalGeneration:
    """A ViT of four layers and a Llama of four, both 128 wide."""
    size = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = LlavaConfig(
        text_config=LlamaConfig(
            **size, num_key_value_heads=2, vocab_size=len(WORDS), max_position_embeddings=128, pad_token_id=0,
            bos_token_id=1, eos_token_id=2,
        ),
        vision_config=CLIPVisionConfig(**size, image_size=SIZE, patch_size=PATCH, projection_dim=128),
        image_token_index=IMAGE, vision_feature_layer=-1, vision_feature_select_strategy="default",
    )  # fmt: skip
    model = LlavaForConditionalGeneration(config)
    places = model.model.vision_tower.embeddings.position_embedding.weight
    torch.nn.init.normal_(places, std=0.3)  # small as transformers draws them, "on which side" is learned late
    return model


def new_tokenizer() -> PreTrainedTokenizerFast:
    """Whole words."""
    inner = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=["<image>"], model_max_length=128,
    )  # fmt: skip


def write_processor(folder: Path) -> None:
    """What reads pictures and questions for the model."""
    import transformers

    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    reader = kind(size={"height": SIZE, "width": SIZE}, do_center_crop=False, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    transformers.LlavaProcessor(
        image_processor=reader, tokenizer=new_tokenizer(), patch_size=PATCH, image_token="<image>",
        vision_feature_select_strategy="default", num_additional_image_tokens=1,
    ).save_pretrained(folder)  # fmt: skip


class Form:
    """Everything that can be asked about a picture in one sequence: each question sees the picture and itself.

    Places are counted on from the picture for each, so that it stands where it stands when it is asked alone.
    """

    def __init__(self, device: torch.device) -> None:
        tokenizer = new_tokenizer()
        asked = torch.tensor([tokenizer(q.format(c))["input_ids"] for q in QUESTIONS for c in COLOURS])
        picture, (count, length) = (SIZE // PATCH) ** 2, asked.shape
        own = torch.arange(count).repeat_interleave(length)
        owner = torch.cat([torch.full((picture,), -1), own])
        sees = (owner[:, None] == owner[None]) | (owner[None] == -1)
        hidden = torch.zeros(len(owner), len(owner)).masked_fill(~(sees.tril()), torch.finfo(torch.float32).min)
        self.ids = torch.cat([torch.full((picture,), IMAGE), asked.flatten()]).to(device)
        self.places = torch.cat([torch.arange(picture), picture + torch.arange(length).repeat(count)]).to(device)
        self.mask = hidden.to(device)
        self.ends = picture + length - 1 + length * torch.arange(count, device=device)

    def answered(self, model: torch.nn.Module, scenes: Scenes) -> torch.Tensor:
        """(scene, question and colour, word)"""
        many = len(scenes.pictures)
        return model(
            input_ids=self.ids.expand(many, -1), pixel_values=(scenes.pictures - MEAN) / DEVIATION,
            attention_mask=self.mask.expand(many, 1, -1, -1), position_ids=self.places.expand(many, -1),
            logits_to_keep=self.ends, use_cache=False,
        ).logits  # fmt: skip


def look(model: LlavaForConditionalGeneration, options: argparse.Namespace, device: torch.device) -> int:
    """First teach the eye alone colour, shape and side of the thing in each patch, which takes a minute or two.

    Its heads are thrown away; then words are learned in minutes. Return the number of steps taken.
    """
    steps, batch = (3, 16) if options.quick else (options.looks, 2 * options.batch)
    eye, width = model.model.vision_tower, model.config.vision_config.hidden_size
    heads = torch.nn.ModuleList(torch.nn.Linear(width, 1 + len(x)) for x in (COLOURS, SHAPES, SIDES)).to(device)
    parts = torch.nn.ModuleList([eye, heads])
    optimizer, generator = adamw(parts, lr=0.0, weight_decay=0.05), torch.Generator(device).manual_seed(~options.seed)
    firsts = torch.tensor([WORDS.index(SHAPES[0]), WORDS.index(SIDES[0])], device=device)
    for done in range(steps):
        scenes = make(batch, generator, device)
        most, thing = F.avg_pool2d(scenes.outlines.float(), PATCH).flatten(2).max(1)
        shape, side = ((scenes.answers - firsts[:, None])[:, n].gather(1, thing) for n in range(2))
        shown = [torch.where(most > 0.1, 1 + what, 0).flatten() for what in (thing, shape, side)]
        with half_precision(device):
            seen = eye((scenes.pictures - MEAN) / DEVIATION).last_hidden_state[:, 1:]
            logits = [head(seen).flatten(0, 1).float() for head in heads]
        loss = sum(F.cross_entropy(found, what) for found, what in zip(logits, shown, strict=True))
        step(optimizer, parts, loss, options.rate * warm_cosine(done / steps))
        if done % 50 == 0:
            there = shown[0] > 0
            right = [(a.argmax(-1) == b)[there].float().mean().item() for a, b in zip(logits, shown, strict=True)]
            say(f"  look {done}/{steps} loss {loss.item():.4f} right {[round(r, 3) for r in right]}")
    return steps


def fit(model: torch.nn.Module, options: argparse.Namespace, device: torch.device) -> int:
    """Train on scenes that are never the same; return the number of steps taken."""
    steps, batch = (3, 16) if options.quick else (options.steps, options.batch)
    optimizer, clock = adamw(model, lr=0.0, weight_decay=0.05), Clock(options.minutes)
    generator, form = torch.Generator(device).manual_seed(options.seed), Form(device)
    model.train()
    for done in range(steps):
        progress = max(done / steps, clock.progress())
        if progress >= 1:
            return done
        scenes = make(batch, generator, device)
        with half_precision(device):
            logits = form.answered(model, scenes)
        loss = F.cross_entropy(logits.float().flatten(0, 1), scenes.answers.flatten())
        step(optimizer, model, loss, options.rate * warm_cosine(progress))
        if done % 50 == 0:
            right = (logits.argmax(-1) == scenes.answers.flatten(1)).float().mean(0).view(len(QUESTIONS), -1).mean(1)
            say(f"  step {done}/{steps} loss {loss.item():.4f} right {[round(r, 3) for r in right.tolist()]}")
    return steps


@torch.no_grad()
def accuracy(model: torch.nn.Module, count: int, device: torch.device) -> float:
    """Share of new questions that the model answers when each is asked alone, in float32."""
    model.eval()
    generator, right = torch.Generator(device).manual_seed(TEST_SEED), 0
    tokenizer = new_tokenizer()
    for _ in range(count // 100):
        scenes = make(100, generator, device)
        words = torch.tensor([tokenizer(scenes.question(n))["input_ids"] for n in range(100)], device=device)
        ids = torch.cat([words.new_full((100, (SIZE // PATCH) ** 2), IMAGE), words], 1)
        pixels = (scenes.pictures - MEAN) / DEVIATION
        best = model(input_ids=ids, pixel_values=pixels, logits_to_keep=1, use_cache=False).logits[:, -1].argmax(-1)
        right += sum(WORDS[int(best[n])] == scenes.answer(n) for n in range(100))
    return right / (count // 100 * 100)


CARD = """# shapes: a small LLaVA for questions about coloured shapes

A vision transformer of four layers on 8 x 8 patches and a Llama of four, {parameters:,} parameters together, that read
a picture of 64 x 64 pixels with six things of six colours ({colours}) and a question about one of them ("which shape is
the one in red", "which side is the one in blue") and answer with a word: circle, square, triangle, left, right. It is
known which pixels answer a question: those of the thing that it names (`python -m benchmarks.truth`). It loads with
plain `transformers`; the weights are stored as float16 ({megabytes:.2f} MB) and loaded as float32.

| accuracy, from the stored weights in float32 | |
| --- | --- |
| {test_size:,} new questions | {test:.2%} |

## Training
Made by `training/train_shapes.py`, seed {seed}, with {versions}: {looks:,} steps of AdamW in which the eye alone learns
colour, shape and side of what is in each patch, then {steps:,} steps on batches of {batch} scenes with all that can be
asked about them, made up for the step (`training/shapes.py`). The numbers are those of the last step.

## Limits
It knows {words} words, and answers any question about any picture with one of five of them.

## Data and licence
There is none: all pictures are computed. The scenes follow Sort-of-CLEVR [Santoro et al. 2017].
"""


def main() -> None:
    """Run the whole recipe."""
    options = parse_arguments()
    device = pick_device()
    seed_everything(options.seed)
    say(f"device {device}, {versions()}")
    model = new_model().to(device)
    looks = look(model, options, device)
    steps = fit(model, options, device)
    size = save_half(model, options.out)
    write_processor(options.out)
    exact_float32()
    stored = AutoModelForImageTextToText.from_pretrained(options.out).to(device)
    assert stored.dtype == torch.float32, stored.dtype
    count = 100 if options.quick else 5000
    test = accuracy(stored, count, device)
    card = CARD.format(
        parameters=stored.num_parameters(), colours=", ".join(COLOURS), megabytes=size / 1e6, test_size=count,
        test=test, seed=options.seed, versions=versions(), looks=looks, steps=steps, batch=options.batch,
        words=len(WORDS),
    )  # fmt: skip
    (options.out / "README.md").write_text(card, encoding="utf-8")
    say(f"{stored.num_parameters()} parameters, {size / 1e6:.2f} MB, accuracy {test:.4f}")


if __name__ == "__main__":
    main()
