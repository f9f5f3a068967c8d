"""Train the bundled digit classifier: a small vision transformer on MNIST with random affine distortions.

    python training/train_digits.py --data DIR --out DIR

`--quick` runs the whole script on a few images in seconds; its model is of no use.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
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
from transformers import AutoModelForImageClassification, ViTConfig, ViTForImageClassification

# With mean and deviation one half, pixels 0..255 become -1..1.
PREPROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_convert_rgb": False,
    "do_resize": True,
    "size": {"height": 28, "width": 28},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5],
    "image_std": [0.5],
}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist/mnist.npz")
    parser.add_argument("--out", type=Path, required=True, help="where the model is written")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=60, help="finish training this long after the start at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a dry run of seconds")
    return parser.parse_args()


def load(path: Path, device: torch.device, quick: bool) -> dict[str, torch.Tensor]:
    """Read images as floats in -1..1 of shape (n, 1, 28, 28), and labels."""
    most = 512 if quick else None
    with np.load(path) as file:
        arrays = {name: torch.from_numpy(file[name][:most]).to(device) for name in file.files}
    images = {name: (array.float() / 255 - 0.5)[:, None] / 0.5 for name, array in arrays.items() if name[0] == "x"}
    return images | {name: array.long() for name, array in arrays.items() if name[0] == "y"}


def new_model() -> ViTForImageClassification:
    """A six-layer ViT of about 0.56 million parameters on 7 x 7 patches."""
    names = {i: str(i) for i in range(10)}
    config = ViTConfig(
        image_size=28,
        patch_size=4,
        num_channels=1,
        hidden_size=96,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=288,
        id2label=names,
        label2id={name: i for i, name in names.items()},
    )
    return ViTForImageClassification(config)


def distort(images: torch.Tensor) -> torch.Tensor:
    """Rotate, shear, stretch and shift each image a little, at random."""
    count, device = len(images), images.device

    def spread(width: float) -> torch.Tensor:
        return (torch.rand(count, device=device) * 2 - 1) * width

    angle, shear = spread(math.radians(14)), spread(0.2)
    wide, high = 1 + spread(0.14), 1 + spread(0.14)
    row_x = torch.stack([wide * angle.cos(), shear - angle.sin(), spread(0.16)], -1)
    row_y = torch.stack([angle.sin(), high * angle.cos(), spread(0.16)], -1)
    grid = F.affine_grid(torch.stack([row_x, row_y], 1), list(images.shape), align_corners=False)
    # grid_sample fills with 0 outside, so the background is moved from -1 to 0 and back.
    return F.grid_sample(images + 1, grid, align_corners=False) - 1


@torch.no_grad()
def accuracy(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of images whose digit the model gives, in float32."""
    model.eval()
    right = sum(
        (model(part).logits.argmax(-1) == truth).sum()
        for part, truth in zip(images.split(500), labels.split(500), strict=True)
    )
    return right.item() / len(labels)


def fit(model: torch.nn.Module, data: dict[str, torch.Tensor], epochs: int, minutes: float) -> int:
    """Train on distorted images; return the number of steps taken."""
    images, labels = data["x_train"], data["y_train"]
    device, size = images.device, 256
    optimizer = adamw(model, lr=0.0, weight_decay=0.05)
    per_epoch = len(images) // size
    done, clock = 0, Clock(minutes)
    model.train()
    for epoch in range(epochs):
        for index in torch.randperm(len(images), device=device)[: per_epoch * size].split(size):
            progress = max(done / (epochs * per_epoch), clock.progress())
            if progress >= 1:
                return done
            batch = distort(images[index])
            with half_precision(device):
                logits = model(batch).logits
            loss = F.cross_entropy(logits.float(), labels[index], label_smoothing=0.02)
            step(optimizer, model, loss, 1.2e-3 * warm_cosine(progress))
            done += 1
        if epoch % 5 == 0:
            say(f"  epoch {epoch}/{epochs} loss {loss.item():.4f}")
    return done


CARD = """# digits: a small vision transformer for handwritten digits

A ViT with {layers} layers of width {width}, {heads} heads and {parameters:,} parameters that reads a 28 x 28 grey
image (white ink on black) as 7 x 7 patches of 4 x 4 pixels and names the digit, 0 to 9. It is meant for examples, tests
and tutorials of explanation methods. It loads with plain `transformers`; the weights are stored as float16
({megabytes:.2f} MB) and loaded as float32. The image processor takes PIL images of mode `L`, or arrays of shape
(1, 28, 28) with values 0 to 255.

| accuracy, from the stored weights in float32 | |
| --- | --- |
| MNIST test ({test_size:,} images) | {test:.2%} |
| MNIST training set ({train_size:,} images, undistorted) | {train:.2%} |

## Training
Made by `training/train_digits.py`, seed {seed}, with {versions}:
{steps:,} steps of AdamW on batches of 256 images of MNIST's training set, each randomly rotated, sheared, stretched and
shifted; cross-entropy with label smoothing 0.02. No test image was used, neither to train nor to choose a checkpoint or
a setting: the numbers are those of the last step.

## Limits
- It names a digit for any image, letters and noise too: there is no class for *none*.
- It expects one centred digit, white on black, about 20 pixels high, as MNIST has them; invert dark ink on white paper.
- MNIST's writers were American census staff and high-school students; other hands (a crossed 7, a hooked 1) may fare
  worse.

## Data and licence
MNIST: LeCun, Cortes and Burges; CC BY-SA 3.0 as usually stated. The weights contain none of its images.
"""


def main() -> None:
    """Run the whole recipe."""
    options = parse_arguments()
    device = pick_device()
    seed_everything(options.seed)
    say(f"device {device}, {versions()}")
    data = load(options.data / "mnist" / "mnist.npz", device, options.quick)
    model = new_model().to(device)
    steps = fit(model, data, 2 if options.quick else options.epochs, options.minutes)

    size = save_half(model, options.out)
    (options.out / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR, indent=2) + "\n", encoding="utf-8")
    exact_float32()
    stored = AutoModelForImageClassification.from_pretrained(options.out).to(device)
    assert stored.dtype == torch.float32, stored.dtype
    scores = {part: accuracy(stored, data[f"x_{part}"], data[f"y_{part}"]) for part in ("test", "train")}
    card = CARD.format(
        layers=stored.config.num_hidden_layers,
        width=stored.config.hidden_size,
        heads=stored.config.num_attention_heads,
        parameters=stored.num_parameters(),
        megabytes=size / 1e6,
        test_size=len(data["y_test"]),
        train_size=len(data["y_train"]),
        **scores,
        seed=options.seed,
        versions=versions(),
        steps=steps,
    )
    (options.out / "README.md").write_text(card, encoding="utf-8")
    say(f"{stored.num_parameters()} parameters, {size / 1e6:.2f} MB, accuracy {scores}")


if __name__ == "__main__":
    main()
