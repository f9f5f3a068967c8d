"""The tasks of Ali et al. 2022, read from a folder of data sets."""

from __future__ import annotations

import csv
import gzip
import io
import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

__all__ = ["TEXT_TASKS", "Task", "load_mnist", "load_movies", "load_pets", "load_task"]

Pairs = list[tuple[str, int]]


@dataclass(frozen=True)
class Task:
    """A text classification task."""

    name: str
    train: Pairs
    test: Pairs
    labels: tuple[str, ...]
    epochs: int
    length: int = 64
    note: str = ""


def _open(path: Path) -> io.TextIOBase:
    return gzip.open(path, "rt", encoding="utf-8", newline="")  # type: ignore[return-value]


def _sst2(data: Path) -> Task:
    def read(name: str) -> Pairs:
        with _open(data / "sst2" / f"{name}.tsv.gz") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        return [(text, int(label)) for label, text in rows if label in "01"]

    return Task("SST-2", read("train"), read("dev"), ("negative", "positive"), epochs=2, note="evaluated on dev")


def _imdb(data: Path) -> Task:
    def read(name: str) -> Pairs:
        with _open(data / "imdb" / f"{name}.tsv.gz") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        return [(r["text"].replace("<br />", " "), int(r["label"])) for r in rows]

    note = "5,000 reviews to train on, cut at 256 tokens"
    return Task("IMDB", read("train"), read("test"), ("negative", "positive"), epochs=3, length=256, note=note)


def _tweets(data: Path, task: str) -> Task:
    def read(split: str) -> Pairs:
        folder = data / "tweeteval"
        with (
            _open(folder / f"{task}_{split}_text.txt.gz") as texts,
            _open(folder / f"{task}_{split}_labels.txt.gz") as labels,
        ):
            return [(t.strip(), int(n)) for t, n in zip(texts, labels, strict=True) if t.strip()]

    names = (data / "tweeteval" / f"{task}_mapping.txt").read_text().splitlines()
    labels = tuple(line.split("\t")[1] for line in names if line.strip())
    if task == "sentiment":
        rest = read("test")
        random.Random(0).shuffle(rest)
        train, test, note = (
            rest[:10_000] + read("val"),
            rest[10_000:],
            "train texts are not public: 10,000 of test + val",
        )
    else:
        train, test, note = read("train"), read("test"), ""
    return Task(
        f"T-{task.capitalize()}", train, test, labels, epochs=4 if task != "emotion" else 8, length=96, note=note
    )


def _meld(data: Path) -> Task:
    labels = ("neutral", "positive", "negative")

    def read(name: str) -> Pairs:
        with _open(data / "meld" / f"{name}_sent_emo.csv.gz") as file:
            rows = list(csv.DictReader(file))
        return [(r["Utterance"], labels.index(r["Sentiment"])) for r in rows if r["Utterance"].strip()]

    return Task("MELD-S", read("train"), read("test"), labels, epochs=4)


def _bace(data: Path) -> Task:
    with (data / "bace" / "bace.csv").open(newline="") as file:
        rows = [(r["smiles"], int(r["Class"])) for r in csv.DictReader(file)]
    random.Random(0).shuffle(rows)
    note = "molecules as SMILES strings, random split 1,210 / 303, the text model's own tokenizer"
    return Task("BACE", rows[:1210], rows[1210:], ("inactive", "active"), epochs=20, length=128, note=note)


TEXT_TASKS = {
    "sst2": _sst2,
    "imdb": _imdb,
    "bace": _bace,
    "emotion": lambda data: _tweets(data, "emotion"),
    "hate": lambda data: _tweets(data, "hate"),
    "sentiment": lambda data: _tweets(data, "sentiment"),
    "meld": _meld,
}


def load_task(name: str, data: Path) -> Task:
    return TEXT_TASKS[name](data)


def load_mnist(data: Path, split: str, most: int | None = None) -> list[tuple[np.ndarray, int]]:
    with np.load(data / "mnist" / "mnist.npz") as arrays:
        images, digits = (arrays[f"{part}_{split}"][:most] for part in "xy")
    return list(zip(images, digits.tolist(), strict=True))


def load_movies(data: Path, split: str) -> list[dict]:
    """ERASER movie reviews: text, label and rationale marks per word."""
    import json

    with _open(data / "eraser_movies" / "docs.jsonl.gz") as file:
        docs = {(row := json.loads(line))["docid"]: row["text"] for line in file}
    made = []
    with _open(data / "eraser_movies" / f"{split}.jsonl.gz") as file:
        for line in file:
            row = json.loads(line)
            words = docs[row["annotation_id"]].split()
            marks = [False] * len(words)
            for group in row["evidences"]:
                for piece in group:
                    marks[piece["start_token"] : piece["end_token"]] = [True] * (
                        piece["end_token"] - piece["start_token"]
                    )
            made.append({"text": " ".join(words), "label": int(row["classification"] == "POS"), "rationale": marks})
    return made


def load_pets(data: Path) -> dict[str, np.ndarray]:
    """`images` (n, 96, 96, 3), `masks` of the animal, `species` (0 cat, 1 dog), `breeds` (0 to 36), `test` split."""
    from PIL import Image

    folder = data / "oxford_pets_96"
    with np.load(folder / "images.npz") as packed:
        raw, offsets = packed["bytes"], packed["offsets"]
    pictures = [np.asarray(Image.open(io.BytesIO(raw[a:b].tobytes())).convert("RGB")) for a, b in pairwise(offsets)]
    with np.load(folder / "trimaps.npz") as packed:
        trimaps = packed[packed.files[0]]
    with (folder / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        "images": np.stack(pictures),
        "masks": trimaps == 1,
        "species": np.array([int(r["species"]) - 1 for r in rows]),
        "breeds": np.array([int(r["class_id"]) - 1 for r in rows]),
        "test": np.array([r["split"] == "test" for r in rows]),
    }
