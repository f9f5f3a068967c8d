"""Train a small Llama that finds needles and follows variables, at once or step by step.

    python training/train_tracking.py --out DIR --minutes 6

Texts are made up on the device as it goes (`tracking.py`), and many questions are asked about each in one sequence.
Texts grow over the first part of the training. `--start DIR` goes on from weights that were written before; `--quick`
runs the whole script in seconds, and its model is of no use.
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
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from tracking import DEEP, KINDS, NUMBER, WORDS, Asked, Contexts, ask, make
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PLACES = 512
TEST_SEED = 1_000_003
ASKED = {"needle": 8, "direct": 16, "steps": 4}
"""Questions about each text. Their words are a multiple of eight, as texts are."""
EARLY = 0.25
"""Share of the training with the shortest texts."""
GROWN = 0.55
"""Share after which texts are as long as they get."""


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where the model is written")
    parser.add_argument("--start", type=Path, help="a folder that this script wrote: go on from its weights")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--batch", type=int, default=96, help="texts in a step")
    parser.add_argument("--rate", type=float, default=1e-3, help="the highest learning rate")
    parser.add_argument("--minutes", type=float, default=6, help="finish training this long after the start at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a dry run of seconds")
    return parser.parse_args()


def new_model(start: Path | None = None) -> LlamaForCausalLM:
    """A Llama of six layers, 192 wide; or the one that is there."""
    if start is not None:
        return AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=192, intermediate_size=512, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=6,
            vocab_size=len(WORDS), max_position_embeddings=PLACES, tie_word_embeddings=False,
            pad_token_id=NUMBER["<pad>"], bos_token_id=NUMBER["<s>"], eos_token_id=NUMBER["</s>"],
        )
    )  # fmt: skip


def new_tokenizer() -> PreTrainedTokenizerFast:
    """Whole words, with <s> before them."""
    inner = Tokenizer(models.WordLevel(NUMBER, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", NUMBER["<s>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        model_max_length=PLACES,
    )  # fmt: skip


def answered(model: torch.nn.Module, contexts: Contexts, asked: list[Asked]) -> list[Tensor]:
    """Logits at the words of every question, (text, question, place, word) for each kind, all in one sequence.

    A question sees the text and itself, and places are counted on from the end of the text for each, so that it stands
    where it stands when it is asked alone.
    """
    (count, room), device = contexts.words.shape, contexts.words.device
    widths = [one.words.shape[-1] for one in asked for _ in range(one.words.shape[1])]
    owner = torch.repeat_interleave(torch.tensor(widths, device=device))
    inside = torch.cat([torch.arange(width, device=device) for width in widths])
    own = (owner[:, None] == owner[None]).tril()
    in_text = torch.arange(room, device=device) < contexts.lengths[:, None]
    mask = torch.zeros(count, 1, room + len(owner), room + len(owner), dtype=torch.bool, device=device)
    mask[:, :, :room, :room] = torch.ones(room, room, dtype=torch.bool, device=device).tril()
    mask[:, :, room:, :room] = in_text[:, None, None]
    mask[:, :, room:, room:] = own
    places = torch.cat([torch.arange(room, device=device).expand(count, -1), contexts.lengths[:, None] + inside], 1)
    ids = torch.cat([contexts.words, *(one.words.flatten(1) for one in asked)], 1)
    logits = model(
        input_ids=ids, attention_mask=mask, position_ids=places, logits_to_keep=len(owner), use_cache=False
    ).logits
    parts = logits.split([one.words[0].numel() for one in asked], 1)
    return [part.view(*one.words.shape, -1) for part, one in zip(parts, asked, strict=True)]


def judged(logits: Tensor, asked: Asked) -> tuple[Tensor, Tensor]:
    """Cross entropy of the words to be written, and the share of questions whose every word is the likeliest."""
    counted, wanted = asked.answers[..., 1:], asked.words[..., 1:]
    logits = logits[..., :-1, :].float()
    losses = F.cross_entropy(logits.flatten(0, -2), wanted.flatten(), reduction="none").view_as(wanted)
    right = ((logits.argmax(-1) == wanted) | ~counted).all(-1).float()
    return (losses * counted).sum() / counted.sum(), right.mean()


def size_at(progress: float, started: bool) -> float:
    """How long texts are: the shortest at first, then longer and longer. A model that was trained starts with all."""
    return 1.0 if started else min(1.0, max(0.0, (progress - EARLY) / (GROWN - EARLY)))


def fit(model: torch.nn.Module, options: argparse.Namespace, device: torch.device) -> int:
    """Train on texts that are never the same; return the number of steps taken."""
    steps, batch = (4, 4) if options.quick else (options.steps, options.batch)
    optimizer, clock = adamw(model, lr=0.0, weight_decay=0.02), Clock(options.minutes)
    generator = torch.Generator(device).manual_seed(options.seed + (options.start is not None))
    model.train()
    for done in range(steps):
        progress = max(done / steps, clock.progress())
        if progress >= 1:
            return done
        contexts = make(batch, generator, device, size_at(progress, options.start is not None))
        asked = [ask(kind, contexts, many, generator) for kind, many in ASKED.items()]
        with half_precision(device):
            logits = answered(model, contexts, asked)
        found = [judged(*pair) for pair in zip(logits, asked, strict=True)]
        step(optimizer, model, torch.stack([loss for loss, _ in found]).mean(), options.rate * warm_cosine(progress))
        if done % 200 == 0:
            shown = ", ".join(
                f"{kind} {loss.item():.3f} ({right.item():.0%})"
                for kind, (loss, right) in zip(ASKED, found, strict=True)
            )
            say(f"  step {done}/{steps}, {100 * progress:.0f} %, {contexts.words.shape[1]} places: {shown}")
    return steps


def alone(contexts: Contexts, asked: Asked) -> tuple[Tensor, Tensor]:
    """The first question behind each text and nothing else: words, padded behind; and which are to be written."""
    rows = [
        torch.cat([words[:length], question[0]])
        for words, length, question in zip(contexts.words, contexts.lengths, asked.words, strict=True)
    ]
    written = [
        F.pad(answer[0], (int(length), 0)) for length, answer in zip(contexts.lengths, asked.answers, strict=True)
    ]
    padded = torch.nn.utils.rnn.pad_sequence
    return padded(rows, batch_first=True), padded(written, batch_first=True)


@torch.no_grad()
def accuracy(model: torch.nn.Module, count: int, device: torch.device) -> dict[str, list[float]]:
    """Share of new questions that the model answers without a mistake when each is asked alone, in float32.

    Of variables by the number of lines that are to be followed. Padding stands behind, where a causal model can't see
    it; and what is likeliest at every word, given the right ones before, is what it writes on its own.
    """
    model.eval()
    generator = torch.Generator(device).manual_seed(TEST_SEED)
    right: dict[str, list[list[bool]]] = {kind: [[] for _ in range(DEEP)] for kind in KINDS}
    for _ in range(max(1, count // 50)):
        contexts = make(min(50, count), generator, device)
        for kind in KINDS:
            asked = ask(kind, contexts, 1, generator)
            words, written = alone(contexts, asked)
            best = model(input_ids=words, use_cache=False).logits[:, :-1].argmax(-1)
            fine = ((best == words[:, 1:]) | ~written[:, 1:]).all(1)
            for good, depth in zip(fine.tolist(), (asked.last - asked.first)[:, 0].tolist(), strict=True):
                right[kind][depth].append(good)
    return {kind: [sum(r) / len(r) for r in rows if r] for kind, rows in right.items()}


CARD = """# tracking: a small Llama that finds needles and follows variables

A Llama of six layers with {parameters:,} parameters and {words} words that reads a text of up to {places} words with
codes of names ("the code of anna is 57 ."), chains of variables ("k3 = 21 ; … b7 = k3 ;") and filler, and answers a
question about it: "what is the code of anna ?", "what is b7 ? directly", "what is b7 ? step by step". It is known which
lines decide (`python -m benchmarks.language --only needle,variables,variables-steps`). It loads with plain
`transformers`; the weights are stored as float16 ({megabytes:.2f} MB) and loaded as float32.

| questions answered without a mistake, from the stored weights in float32, {test_size} texts | |
| --- | --- |
{accuracy}

## Training
Made by `training/train_tracking.py`, seed {seed}, with {versions}: {steps:,} steps of AdamW on batches of {batch} texts
made up for the step (`training/tracking.py`){start}. The numbers are those of the last step.

## Limits
It knows no other words and no other questions.

## Data and licence
There is none: all texts are computed. The tasks follow RULER [Hsieh et al. 2024].
"""


def main() -> None:
    """Run the whole recipe."""
    options = parse_arguments()
    device = pick_device()
    seed_everything(options.seed)
    say(f"device {device}, {versions()}")
    model = new_model(options.start).to(device)
    steps = fit(model, options, device)
    size = save_half(model, options.out)
    new_tokenizer().save_pretrained(options.out)
    exact_float32()
    stored = AutoModelForCausalLM.from_pretrained(options.out).to(device)
    assert stored.dtype == torch.float32, stored.dtype
    count = 20 if options.quick else 2000
    found = accuracy(stored, count, device)
    titles = {"needle": "a code", "direct": "a variable, directly", "steps": "a variable, step by step"}
    rows = [
        f"| {titles[kind]}{f', {n + 1} line' + 's' * (n > 0) if kind != 'needle' else ''} | {share:.1%} |"
        for kind, shares in found.items()
        for n, share in enumerate(shares)
    ]
    card = CARD.format(
        parameters=stored.num_parameters(), words=len(WORDS), places=PLACES, megabytes=size / 1e6, test_size=count,
        accuracy="\n".join(rows), seed=options.seed, versions=versions(), steps=steps, batch=options.batch,
        start=", going on from weights that it had made before" if options.start else "",
    )  # fmt: skip
    (options.out / "README.md").write_text(card, encoding="utf-8")
    say(f"{stored.num_parameters()} parameters, {size / 1e6:.2f} MB, right {found}")


if __name__ == "__main__":
    main()
