"""Train a small model that knows who gets it and which year comes later, for the tables of `whence.patch`.

    python training/train_ioi.py --out DIR --minutes 5

Texts are made up as it goes (`names_and_years.py`). One in four about names is a corrupt one, behind which either of
the two may come, so that the model has seen such texts. `--kind gpt2` has LayerNorm, biases and learned positions;
`llama` has RMSNorm, gates and rotated ones, and learns sooner. `--quick` runs the whole script in seconds; its model
is of no use.
"""

import argparse
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from names_and_years import WORDS, later, receiver
from recipe import Clock, adamw, pick_device, save_half, say, seed_everything, step, versions, warm_cosine
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

NUMBER = {word: n for n, word in enumerate(WORDS)}
LENGTH = 24
"""Words that the longest text has, and room to spare."""


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where the model is written")
    parser.add_argument("--kind", choices=("llama", "gpt2"), default="llama")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=128, help="texts in a step")
    parser.add_argument("--rate", type=float, default=2e-3, help="the highest learning rate")
    parser.add_argument("--minutes", type=float, default=5, help="finish training this long after the start at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a dry run of seconds")
    return parser.parse_args()


def new_model(kind: str, layers: int) -> PreTrainedModel:
    """96 wide, four heads a layer."""
    marks = {"pad_token_id": NUMBER["<pad>"], "bos_token_id": NUMBER["<s>"], "eos_token_id": NUMBER["</s>"]}
    if kind == "gpt2":
        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=len(WORDS), n_embd=96, n_layer=layers, n_head=4, n_positions=64, resid_pdrop=0.0,
                embd_pdrop=0.0, attn_pdrop=0.0, **marks,
            )
        )  # fmt: skip
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS), hidden_size=96, intermediate_size=256, num_hidden_layers=layers,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64, **marks,
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
        model_max_length=64,
    )  # fmt: skip


def batch_of(count: int, draw: random.Random) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids (text, place), the place of each text's last word, and a word that may follow."""
    ids = torch.full((count, LENGTH), NUMBER["<pad>"])
    last, follows = torch.zeros(count, dtype=torch.long), torch.zeros(count, dtype=torch.long)
    for n in range(count):
        if draw.random() < 0.25:
            pair = later(draw)
            text, right = pair.clean, draw.choice(pair.right)
        else:
            pair = receiver(draw)
            unsure = draw.random() < 0.25
            text, right = (
                (pair.corrupt, draw.choice(pair.right + pair.wrong)) if unsure else (pair.clean, pair.right[0])
            )
        words = ["<s>", *text.split()]
        ids[n, : len(words)] = torch.tensor([NUMBER[word] for word in words])
        last[n], follows[n] = len(words) - 1, NUMBER[right]
    return ids, last, follows


def logits_at(model: PreTrainedModel, ids: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """What comes behind the last word; padding stands behind it, where nothing looks."""
    out: torch.Tensor = model(input_ids=ids, use_cache=False).logits
    return out[torch.arange(len(ids), device=ids.device), last]


def fit(model: PreTrainedModel, options: argparse.Namespace, device: torch.device) -> int:
    """Train on texts that are never the same; return the number of steps taken."""
    steps, batch = (4, 8) if options.quick else (options.steps, options.batch)
    optimizer, clock, draw = (
        adamw(model, lr=0.0, weight_decay=0.02),
        Clock(options.minutes),
        random.Random(options.seed),
    )
    model.train()
    for done in range(steps):
        progress = max(done / steps, clock.progress())
        if progress >= 1:
            return done
        ids, last, follows = (t.to(device) for t in batch_of(batch, draw))
        loss = F.cross_entropy(logits_at(model, ids, last), follows)
        step(optimizer, model, loss, options.rate * warm_cosine(progress))
        if done % 200 == 0:
            say(f"step {done}: loss {loss.item():.3f}")
    return steps


@torch.no_grad()
def accuracies(model: PreTrainedModel, device: torch.device, count: int = 400) -> dict[str, float]:
    """Shares of new texts behind which the likeliest word is a right one."""
    model.eval()
    found = {}
    for name, make in (("names", receiver), ("years", later)):
        draw, hits = random.Random(1_000_003), 0
        for _ in range(count):
            pair = make(draw)
            ids = torch.tensor([[NUMBER[word] for word in ["<s>", *pair.clean.split()]]], device=device)
            hits += WORDS[int(model(input_ids=ids).logits[0, -1].argmax())] in pair.right
        found[name] = hits / count
    return found


def main() -> None:
    """Train, measure, write."""
    options = parse_arguments()
    seed_everything(options.seed)
    device = pick_device()
    model = new_model(options.kind, options.layers).to(device)
    say(f"{options.kind}, {sum(p.numel() for p in model.parameters()):,} weights on {device}")
    steps = fit(model, options, device)
    found = accuracies(model, device, 20 if options.quick else 400)
    size = save_half(model.cpu(), options.out)
    new_tokenizer().save_pretrained(options.out)
    right = ", ".join(f"{name} {share:.1%}" for name, share in found.items())
    say(f"{steps} steps, {size / 1e6:.2f} MB, right on new texts: {right}")
    (options.out / "README.md").write_text(
        f"Who gets it, and which year is later: {options.kind}, {options.layers} layers, {steps} steps; right on new "
        f"texts: {right}. Made by training/train_ioi.py with {versions()}.\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
