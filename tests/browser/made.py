"""Results made up for the pages: no model is asked."""

from __future__ import annotations

import numpy as np

from whence.results import Comparison, Explanation, Part, Prediction
from whence.results.conservation import Conservation
from whence.results.maps import AttentionMaps

TEXT = "a gorgeous, witty film"
TOKENS = ("[CLS]", "a", "gor", "geous", ",", "witty", "film", "[SEP]")
OFFSETS = ((0, 0), (0, 1), (2, 5), (5, 10), (10, 11), (12, 17), (18, 22), (0, 0))
WORDS = (None, 0, 1, 1, 1, 2, 3, None)
SCORES = (0.0, 0.1, 1.0, 2.0, -0.25, 1.5, -1.0, 0.05)


def explanation(**changes) -> Explanation:
    values = {
        "scores": np.array(SCORES),
        "tokens": TOKENS,
        "text": TEXT,
        "offsets": OFFSETS,
        "word_ids": WORDS,
        "special": tuple(t.startswith("[") for t in TOKENS),
        "target": "positive",
        "target_score": 3.5,
        "method": "lrp",
        "options": {"norm": "detach"},
        "prediction": Prediction(("positive", "negative"), (3.5, -3.0), (0.75, 0.25)),
        "conservation": Conservation(inputs=3.4, target=3.5, sinks={"bias": 0.1}),
        "stamp": {"model": "made up", "revision": "abc123", "whence": "0"},
    }
    return Explanation(**(values | changes))


def comparison() -> Comparison:
    """Two methods, two targets."""
    scores = np.array(SCORES)
    return Comparison(
        tuple(
            explanation(scores=sign * size * scores, target=target, target_score=sign * 3.5, method=method)
            for target, sign in (("positive", 1), ("negative", -1))
            for method, size in (("lrp", 1.0), ("gi", 0.01))
        )
    )


def together(**changes) -> Explanation:
    """A question of three tokens about a picture of 2 × 2 patches: the picture's first patch is the strongest."""
    values = {
        "scores": np.array([0.1, 0.5, -0.25, 2.0, 0.0, 0.0, -1.0]),
        "tokens": ("which", "shape", "?", "[1, 1]", "[1, 2]", "[2, 1]", "[2, 2]"),
        "sides": ("text",) * 3 + ("picture",) * 4,
        "parts": (Part("input_ids", "token", shape=(3,)), Part("pixel_values", "patch", shape=(2, 2))),
        "image": np.full((8, 8, 3), 255, np.uint8),
        "text": None,
        **dict.fromkeys(("offsets", "word_ids", "special"), ()),
    }
    return explanation(**(values | changes))


def long(count: int) -> Explanation:
    """A text of so many tokens."""
    tokens = tuple(f"w{i}" for i in range(count))
    ends = np.cumsum([len(t) + 1 for t in tokens])
    return explanation(
        scores=np.random.default_rng(0).normal(size=count),
        tokens=tokens,
        text=" ".join(tokens),
        offsets=tuple((int(end) - len(t) - 1, int(end) - 1) for t, end in zip(tokens, ends, strict=True)),
        word_ids=tuple(range(count)),
        special=(False,) * count,
    )


def attention(tokens: int, layers: int, heads: int) -> AttentionMaps:
    """Random attention in which token 3 looks at token 5 alone, in every head."""
    rng = np.random.default_rng(0)
    maps = []
    for _ in range(layers):
        weights = rng.exponential(size=(heads, tokens, tokens)).astype(np.float32) ** 4
        weights[:, 3] = 0
        weights[:, 3, 5] = 1
        maps.append(weights / weights.sum(-1, keepdims=True))
    return AttentionMaps(maps=tuple(maps), streams=("self",) * layers, tokens=tuple(f"w{i}" for i in range(tokens)))
