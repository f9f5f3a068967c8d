"""Texts for the sentiment model: reading, keeping evaluation sentences out, and augmentation."""

import gzip
import io
import random
import re
import unicodedata
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

MASK = "[MASK]"
CONNECTIVES = (" , but ", " and ", " . ", " , although ", " , ", " -- yet ")


@dataclass(frozen=True)
class Labelled:
    """Texts with their labels, 0 negative and 1 positive."""

    texts: list[str]
    labels: list[int]

    def __len__(self) -> int:
        return len(self.texts)

    def __add__(self, other: "Labelled") -> "Labelled":
        return Labelled(self.texts + other.texts, self.labels + other.labels)

    def only(self, keep: list[bool]) -> "Labelled":
        """The items whose flag is set."""
        return Labelled(
            [t for t, k in zip(self.texts, keep, strict=True) if k],
            [y for y, k in zip(self.labels, keep, strict=True) if k],
        )

    def sample(self, count: int, seed: int) -> "Labelled":
        """At most `count` items, drawn without replacement."""
        chosen = random.Random(seed).sample(range(len(self)), min(count, len(self)))
        return Labelled([self.texts[i] for i in chosen], [self.labels[i] for i in chosen])


def read_tsv(path: Path) -> Labelled:
    """Read a gzipped table whose first column is the label and whose last is the text."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in list(file)[1:]]
    return Labelled([row[-1] for row in rows], [int(row[0]) for row in rows])


def read_polarity(path: Path) -> Labelled:
    """Read the zip of rt-polarity.neg and rt-polarity.pos."""
    texts, labels = [], []
    with zipfile.ZipFile(path) as archive:
        for label, name in enumerate(("rt-polarity.neg", "rt-polarity.pos")):
            with archive.open(f"sentence_polarity/{name}") as raw:
                lines = [line.strip() for line in io.TextIOWrapper(raw, encoding="latin-1")]
            texts += lines
            labels += [label] * len(lines)
    return Labelled(texts, labels)


def read_imdb(path: Path) -> Labelled:
    """Read whole reviews without their HTML line breaks."""
    reviews = read_tsv(path)
    return Labelled([re.sub(r"\s*<br\s*/?>\s*", " ", text) for text in reviews.texts], reviews.labels)


def split_sentences(review: str) -> list[str]:
    """Split a review at the ends of its sentences."""
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'(])", review) if part.strip()]


def squash(text: str) -> str:
    """Letters and digits alone, in lower case and without accents.

    Blanks go too, because the same sentence is "is n't" in SST-2 and "isn't" in Sentence Polarity.
    """
    plain = unicodedata.normalize("NFKD", text.lower())
    return re.sub(r"[^a-z0-9]", "", plain)


class LeakFilter:
    """Tells whether a text shares wording with the evaluation sentences.

    A text leaks if it equals an evaluation sentence, lies within one, contains one of at least `short` characters
    (shorter ones, such as 'bad .', occur in most reviews), or shares a run of `run` characters with one.
    """

    def __init__(self, held_out: list[str], short: int = 15, run: int = 30) -> None:
        self._run = run
        self._exact = {squash(text) for text in held_out}
        self._joined = "\n".join(sorted(self._exact))
        self._brief = [text for text in self._exact if short <= len(text) < run]
        self._runs = {text[i : i + run] for text in self._exact for i in range(len(text) - run + 1)}

    def equals(self, text: str) -> bool:
        """Whether the text is an evaluation sentence."""
        return squash(text) in self._exact

    def leaks(self, text: str) -> bool:
        """Whether the text is, holds, lies within or resembles an evaluation sentence."""
        plain = squash(text)
        return (
            plain in self._joined
            or any(plain[i : i + self._run] in self._runs for i in range(len(plain) - self._run + 1))
            or any(brief in plain for brief in self._brief)
        )

    def clean(self, data: Labelled) -> Labelled:
        """Drop every text that leaks."""
        return data.only([not self.leaks(text) for text in data.texts])


def natural_case(text: str) -> str:
    """Write a blank-separated lower-case sentence as a person would: \"It's fun, isn't it?\"."""
    text = re.sub(r" (n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1", text)
    text = re.sub(r" ([.,!?;:)])", r"\1", text)
    text = re.sub(r"\( ", "(", text)
    text = re.sub(r"\bi\b", "I", text)
    return text[:1].upper() + text[1:]


def neighbours(words: list[str], vectors: torch.Tensor, count: int = 12) -> dict[str, list[str]]:
    """The nearest other words of each word by the cosine of their embeddings."""
    unit = F.normalize(vectors.float(), dim=-1)
    table = {}
    for start in range(0, len(words), 1024):
        near = (unit[start : start + 1024] @ unit.T).topk(min(count + 1, len(words))).indices.tolist()
        for word, row in zip(words[start : start + 1024], near, strict=True):
            table[word] = [words[j] for j in row if words[j] != word]
    return table


class Augmenter:
    """Makes new texts out of old ones; the teachers label them afterwards, so that meaning may change freely.

    Words are masked, dropped, replaced by a neighbour in embedding space or by any word; spans are cut out;
    phrases are joined. Masking also gives [MASK] a meaning for methods that erase words with it.
    """

    def __init__(self, near: dict[str, list[str]], partners: list[str], seed: int) -> None:
        self._near = near
        self._partners = partners
        self._words = list(near)
        self._random = random.Random(seed)

    def __call__(self, text: str) -> str:
        rng = self._random
        words = text.split()
        if rng.random() < 0.2 and len(words) > 3:
            size = rng.randint(2, len(words))
            start = rng.randrange(len(words) - size + 1)
            words = words[start : start + size]
        text = " ".join(filter(None, map(self._change, words))) or text
        if rng.random() < 0.1:
            text += rng.choice(CONNECTIVES) + rng.choice(self._partners)
        return natural_case(text) if rng.random() < 0.3 else text

    def _change(self, word: str) -> str:
        dice = self._random.random()
        if dice > 0.25:
            return word
        if dice < 0.05:
            return MASK
        if dice < 0.08:
            return ""
        if dice < 0.11:
            return self._random.choice(self._words)
        return self._random.choice(self._near.get(word.lower(), [word]))


def windows(review: str, rng: random.Random, count: int) -> list[str]:
    """Draw runs of two to eight consecutive sentences from a review."""
    sentences = split_sentences(review)
    runs = []
    for _ in range(count if len(sentences) > 2 else 0):
        size = rng.randint(2, min(8, len(sentences)))
        start = rng.randrange(len(sentences) - size + 1)
        runs.append(" ".join(sentences[start : start + size]))
    return runs


def distillation_texts(
    phrases: list[str], sentences: list[str], reviews: list[str], augment: Augmenter, copies: float, seed: int
) -> list[str]:
    """Every text that the student learns from; `copies` scales how many variants of each are made.

    Long phrases get more variants: the evaluation sentences are twice as long as the training phrases.
    """
    rng = random.Random(seed)
    texts = phrases + [natural_case(text) for text in phrases[::4]] + sentences
    for text in phrases:
        length = len(text.split())
        texts += [augment(text) for _ in range(round(copies * (6 if length < 5 else 14 if length < 10 else 24)))]
    texts += [augment(text) for text in sentences for _ in range(round(copies * 4))]
    for review in reviews:
        texts += [review, augment(review), *windows(review, rng, 5)]
    return texts


def common_words(texts: list[str], known: set[str], limit: int) -> list[str]:
    """The most frequent lower-case words that the teacher's vocabulary knows whole."""
    counts = Counter(word for text in texts for word in text.lower().split())
    return [word for word, _ in counts.most_common() if word in known and word.isalpha()][:limit]
