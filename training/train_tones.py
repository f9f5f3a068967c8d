"""Train the bundled model of sounds: a small wav2vec 2.0 that names the call in a second of noise.

    python training/train_tones.py --out src/whence/bundled/tones

The sounds are made up as it goes (`tones.py`). `--quick` runs the whole script in seconds; its model is of no use.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from recipe import (
    Clock,
    adamw,
    exact_float32,
    pick_device,
    save_half,
    say,
    seed_everything,
    step,
    versions,
    warm_cosine,
)
from tones import CALL, CLASSES, RATE, make
from transformers import AutoModelForAudioClassification, Wav2Vec2Config, Wav2Vec2ForSequenceClassification

EXTRACTOR = {
    "feature_extractor_type": "Wav2Vec2FeatureExtractor",
    "feature_size": 1,
    "sampling_rate": RATE,
    "padding_value": 0.0,
    "do_normalize": True,
    "return_attention_mask": False,
}
TEST_SEED = 1_000_003


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where the model is written")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--minutes", type=float, default=30, help="finish training this long after the start at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a dry run of seconds")
    return parser.parse_args()


def new_model() -> Wav2Vec2ForSequenceClassification:
    """Three layers on frames of 20 ms."""
    names = dict(enumerate(CLASSES))
    config = Wav2Vec2Config(
        conv_dim=(32, 32, 48, 48), conv_kernel=(10, 8, 8, 4), conv_stride=(5, 4, 4, 2), conv_bias=True,
        feat_extract_norm="layer", hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=160,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, classifier_proj_size=64, vocab_size=32,
        hidden_dropout=0.0, activation_dropout=0.0, attention_dropout=0.0, feat_proj_dropout=0.0, final_dropout=0.0,
        layerdrop=0.0, apply_spec_augment=False, id2label=names, label2id={name: i for i, name in names.items()},
    )  # fmt: skip
    return Wav2Vec2ForSequenceClassification(config)


def heard(samples: torch.Tensor) -> torch.Tensor:
    """As the feature extractor gives them."""
    centred = samples - samples.mean(-1, keepdim=True)
    return centred / (centred.var(-1, keepdim=True, unbiased=False) + 1e-7).sqrt()


def fit(model: torch.nn.Module, steps: int, minutes: float, seed: int, device: torch.device) -> int:
    """Train on sounds that are never the same; return the number of steps taken."""
    optimizer, clock = adamw(model, lr=0.0, weight_decay=0.02), Clock(minutes)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for done in range(steps):
        progress = max(done / steps, clock.progress())
        if progress >= 1:
            return done
        sounds = make(32, generator)
        logits = model(heard(sounds.samples).to(device)).logits
        loss = F.cross_entropy(logits, sounds.labels.to(device), label_smoothing=0.02)
        step(optimizer, model, loss, 1.5e-3 * warm_cosine(progress))
        if done % 100 == 0:
            right = (logits.argmax(-1).cpu() == sounds.labels).float().mean()
            say(f"  step {done}/{steps} loss {loss.item():.4f} right {right:.2f}")
    return steps


@torch.no_grad()
def accuracy(model: torch.nn.Module, count: int, device: torch.device) -> float:
    """Share of new sounds whose call the model names, in float32."""
    model.eval()
    sounds = make(count, torch.Generator().manual_seed(TEST_SEED))
    parts = zip(sounds.samples.split(100), sounds.labels.split(100), strict=True)
    right = sum((model(heard(x).to(device)).logits.argmax(-1).cpu() == y).sum().item() for x, y in parts)
    return right / count


CARD = """# tones: a small wav2vec 2.0 for calls in noise

A model of waves with {layers} layers of width {width} and {parameters:,} parameters that hears one second at {rate:,}
samples a second in frames of 20 ms and names the call in it: {classes}. A call lasts {call} s, begins anywhere,
and is the only thing in a sound that tells its class; hum, hiss and clicks do not. So it is known which moments an
explanation should point at (`python -m benchmarks.truth`). It loads with plain `transformers`; the weights are stored
as float16 ({megabytes:.2f} MB) and loaded as float32.

| accuracy, from the stored weights in float32 | |
| --- | --- |
| {test_size:,} new sounds | {test:.2%} |

## Training
Made by `training/train_tones.py`, seed {seed}, with {versions}: {steps:,} steps of AdamW on batches of 32 sounds made
up for the step (`training/tones.py`); cross-entropy with label smoothing 0.02. The numbers are those of the last step.

## Limits
It names a call for any sound, silence and speech too. It knows nothing but these four.

## Data and licence
There is none: all sounds are computed.
"""


def main() -> None:
    """Run the whole recipe."""
    options = parse_arguments()
    device = pick_device()
    seed_everything(options.seed)
    say(f"device {device}, {versions()}")
    model = new_model().to(device)
    steps = fit(model, 5 if options.quick else options.steps, options.minutes, options.seed, device)
    size = save_half(model, options.out)
    (options.out / "preprocessor_config.json").write_text(json.dumps(EXTRACTOR, indent=2) + "\n", encoding="utf-8")
    exact_float32()
    stored = AutoModelForAudioClassification.from_pretrained(options.out).to(device)
    assert stored.dtype == torch.float32, stored.dtype
    count = 100 if options.quick else 2000
    test = accuracy(stored, count, device)
    card = CARD.format(
        layers=stored.config.num_hidden_layers, width=stored.config.hidden_size, parameters=stored.num_parameters(),
        rate=RATE, classes=", ".join(CLASSES), call=CALL, megabytes=size / 1e6, test_size=count, test=test,
        seed=options.seed, versions=versions(), steps=steps,
    )  # fmt: skip
    (options.out / "README.md").write_text(card, encoding="utf-8")
    say(f"{stored.num_parameters()} parameters, {size / 1e6:.2f} MB, accuracy {test:.4f}")


if __name__ == "__main__":
    main()
