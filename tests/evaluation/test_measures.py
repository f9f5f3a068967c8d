"""Every metric against a slow float64 version, and cases worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import whence
from tests import small
from tests.evaluation.bag import ORACLE, RANDOM, TEXTS, bag, noise, truth
from tests.reference import metrics as reference
from whence.evaluation import from_function, metrics
from whence.evaluation.curves import area, counts, ranked
from whence.evaluation.measures.segmentation import average_precision
from whence.evaluation.ranks import kendall, ranks, spearman

# Outputs of the model are float32: sums of ten weights of size one are known to about 1e-6.
CLOSE = pytest.approx


class One:
    """One text under the bag model, in float64 and one input at a time."""

    def __init__(self, text: str, *, special: str = "kept"):
        model = bag()
        (example,), _ = model.encode(text)
        ids = example.inputs["input_ids"]
        self.weights = model.module.words.weight.detach().double()[ids].numpy()
        self.bias = model.module.bias.detach().double().numpy()
        self.unk = model.module.words.weight.detach().double()[1].numpy()
        self.features = [i for i, s in enumerate(example.special) if special == "counted" or not s]
        self.target = int(self.logits(set(self.features)).argmax())

    def logits(self, keep: set[int]) -> np.ndarray:
        kept = [w if i in keep or i not in self.features else self.unk for i, w in enumerate(self.weights)]
        return np.sum(kept, axis=0) + self.bias

    def probability(self, keep: set[int]) -> float:
        values = self.logits(keep)
        return float(1 / (1 + math.exp(values[1 - self.target] - values[self.target])))

    def relevance(self, explain) -> dict[int, float]:
        scores = explain(bag(), self.text, self.target)
        return {i: float(np.float32(scores[i])) for i in self.features}

    text = ""


def _one(text: str, **options) -> One:
    one = One(text, **options)
    one.text = text
    return one


REFERENCES = {
    "auac": lambda one, r: reference.auac(r, one.probability),
    "au_mse": lambda one, r: reference.au_mse(r, one.logits),
    "aopc": lambda one, r: reference.aopc(r, one.probability),
    "comprehensiveness": lambda one, r: reference.comprehensiveness(r, one.probability),
    "sufficiency": lambda one, r: reference.comprehensiveness(r, one.probability, keep=True),
    "lerf_morf": lambda one, r: reference.lerf_morf(r, lambda keep: float(one.logits(keep)[one.target])),
}


@pytest.mark.parametrize("special", ["kept", "counted"])
@pytest.mark.parametrize("name", REFERENCES)
def test_perturbation_metrics_are_the_reference(name, special):
    result = whence.evaluate(bag(), TEXTS, [ORACLE, RANDOM], [name], special=special)
    for method, explain in (("oracle", truth), ("random", noise)):
        wanted = []
        for text in TEXTS:
            one = _one(text, special=special)
            wanted.append(REFERENCES[name](one, one.relevance(explain)))
        assert result.values(method, name) == CLOSE(wanted, abs=1e-5)
        assert result.value(method, name) == CLOSE(np.mean(wanted), abs=1e-5)


def test_auac_by_hand():
    """Two words, probabilities p0, p1, p2 with none, the best, both: n is 0, then 1 up to .5, then 2."""
    one = _one("good plot")
    best, other = sorted(one.features, key=lambda i: -truth(bag(), "good plot", one.target)[i])
    p0, p1, p2 = one.probability(set()), one.probability({best}), one.probability({best, other})
    by_hand = 0.1 * ((p0 + p1) / 2 + 4 * p1 + (p1 + p2) / 2 + 4 * p2)
    result = whence.evaluate(bag(), ["good plot"], [ORACLE], ["auac"])
    assert result.value("oracle", "auac") == CLOSE(by_hand, abs=1e-6)


def test_counts_are_not_fooled_by_floats():
    assert counts((0.0, 0.1, 0.3, 0.7, 1.0), 10) == [0, 1, 3, 7, 10]
    assert counts((0.0, 0.1, 0.5, 1.0), 3) == [0, 1, 2, 3]
    assert counts((0.01, 0.5), 7) == [1, 4]


def test_area_is_per_unit_of_the_range():
    assert area((0.0, 0.5, 1.0), np.array([0.0, 1.0, 1.0])) == CLOSE(0.75)
    assert area((0.1, 0.9), np.array([0.4, 0.6])) == CLOSE(0.5)


def test_order_is_signed_or_absolute_and_ties_keep_their_place():
    scores, counted = np.array([0.5, -2.0, 0.5, 1.0]), np.array([True, True, True, False])
    assert ranked(scores, counted, "signed", descending=True).tolist() == [0, 2, 1]
    assert ranked(scores, counted, "absolute", descending=True).tolist() == [1, 0, 2]
    assert ranked(scores, counted, "absolute", descending=False).tolist() == [0, 2, 1]


def test_fill_decides_what_the_model_sees():
    """UNK and MASK weigh nothing in the bag, and a word that is deleted weighs nothing as well."""
    values = {
        fill: whence.evaluate(bag(), TEXTS, [ORACLE], ["aopc"], fill=fill).values("oracle", "aopc")
        for fill in ("unk", "mask", "pad", "delete")
    }
    for fill in values:
        assert values[fill] == CLOSE(values["unk"], abs=1e-6)


def test_rank_correlations_are_the_reference():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 6, size=9).astype(float), rng.integers(0, 6, size=9).astype(float)
        assert spearman(a, b) == CLOSE(reference.spearman(a, b), abs=1e-12)
        assert kendall(a, b) == CLOSE(reference.kendall(a, b), abs=1e-12)
    assert ranks(np.array([3.0, 1.0, 3.0])).tolist() == [2.5, 1.0, 2.5]
    assert math.isnan(spearman(np.ones(3), np.arange(3.0)))
    scipy = pytest.importorskip("scipy.stats")
    assert spearman(a, b) == CLOSE(scipy.spearmanr(a, b).statistic, abs=1e-12)
    assert kendall(a, b) == CLOSE(scipy.kendalltau(a, b).statistic, abs=1e-12)


def test_agreement_of_a_method_with_its_double_and_its_opposite():
    double = from_function(lambda m, t, c: 2 * truth(m, t, c), "double")
    minus = from_function(lambda m, t, c: -truth(m, t, c), "minus")
    result = whence.evaluate(bag(), TEXTS[:3], [ORACLE, double, minus], ["agreement"])
    assert result.value("oracle", "agreement:double") == CLOSE(1)
    assert result.value("oracle", "agreement:minus") == CLOSE(-1)
    assert result.value("oracle", "agreement") == CLOSE(0, abs=1e-12)
    same = whence.evaluate(bag(), TEXTS[:3], [ORACLE, minus], [metrics["agreement"](order="absolute")])
    assert same.value("oracle", "agreement") == CLOSE(1)


def test_conservation_reads_the_receipt(sentiment):
    result = whence.evaluate(sentiment, ["a gem", "a dull film"], ["exact", "gi"], ["conservation"])
    assert result.value("exact", "conservation") < 1e-4  # float32: inputs + biases = target
    inputs = metrics["conservation"](sinks=False)
    alone = whence.evaluate(sentiment, ["a gem", "a dull film"], ["exact"], [inputs])
    exps = whence.explain(sentiment, ["a gem", "a dull film"], "exact")
    receipts = [e.conservation for e in exps]
    by_hand = sum(abs(r.target - r.inputs) for r in receipts) / sum(abs(r.target) for r in receipts)
    assert alone.value("exact", "conservation") == CLOSE(by_hand, rel=1e-4)


def test_conservation_without_a_receipt_takes_the_sum_of_scores():
    share = from_function(lambda m, t, c: [0.5] * len(m.encode(t)[0][0].tokens), "half")
    result = whence.evaluate(bag(), ["good plot"], [share], ["conservation"])
    one = _one("good plot")
    target = float(one.logits(set(one.features))[one.target])
    assert result.value("half", "conservation") == CLOSE(abs(target - 2.0) / abs(target), rel=1e-5)


@pytest.mark.parametrize("mode", ["all", "cascading"])
def test_randomization_changes_explanations_and_not_the_model(mode):
    model = bag()
    before = {k: v.clone() for k, v in model.module.state_dict().items()}
    constant = from_function(lambda m, t, c: list(range(len(m.encode(t)[0][0].tokens))), "blind")
    result = whence.evaluate(model, TEXTS, [ORACLE, constant], [metrics["randomization"](mode=mode)])
    assert result.value("blind", "randomization") == CLOSE(1)  # it never looked at the model
    assert result.value("oracle", "randomization") < 0.9
    for name, value in model.module.state_dict().items():
        assert torch.equal(value, before[name])


def test_randomization_goes_from_the_output_to_the_input():
    from whence.evaluation.measures.randomization import stages

    order = [group[0] for group in stages(small.classifier())]
    assert order[0].startswith("classifier")
    assert order[-1].startswith("bert.embeddings")
    assert order.index("bert.encoder.layer.1.attention.self.query.weight") < order.index(
        "bert.encoder.layer.0.attention.self.query.weight"
    )


# -- images -----------------------------------------------------------------------------------------------------


def _images(count: int = 3) -> torch.Tensor:
    return torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_positive_and_negative_perturbation_are_the_loop():
    model = whence.load(small.vit())
    images = _images()
    scores = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(1))
    lookup = {image.sum().item(): s for image, s in zip(images, scores, strict=True)}
    given = from_function(lambda m, image, c: lookup[image.sum().item()], "given")
    names = ["perturbation_positive", "perturbation_negative"]
    kinds = [(f"{n} {o}", metrics[n](output=o)) for n in names for o in ("accuracy", "probability")]
    result = whence.evaluate(model, list(images), [given], kinds)
    x = [n / 10 for n in range(1, 10)]
    for name in names:
        for output in ("accuracy", "probability"):
            areas = []
            for image, score in zip(images, scores, strict=True):
                target = int(model.module(pixel_values=image[None]).logits.argmax())
                order = sorted(range(16), key=lambda i: -float(score.reshape(-1)[i]))
                order = order if name.endswith("positive") else order[::-1]
                y = []
                for f in x:
                    changed = image.clone()
                    for i in order[: math.ceil(round(f * 16, 9))]:
                        row, column = divmod(i, 4)
                        changed[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 0
                    logits = model.module(pixel_values=changed[None]).logits[0].detach().double()
                    y.append(
                        float(logits.softmax(-1)[target]) if output == "probability" else logits.argmax() == target
                    )
                areas.append(reference.trapezoid(x, [float(v) for v in y]) / 0.8)
            # float32 forward passes in batches of different size
            assert result.values("given", f"{name} {output}") == CLOSE(areas, abs=1e-5)


def test_segmentation_by_hand():
    """Two images of 4 × 4 patches; scores at the size of the mask."""
    images = list(_images(2))
    masks = [np.zeros((4, 4), bool), np.zeros((4, 4), bool)]
    masks[0][:2], masks[1][:, 0] = True, True
    scores = [masks[0].astype(float), np.eye(4)]
    scores[0][0, 0] = 0.0  # one patch of the object is missed
    scores[1][0, 1] = 0.2  # above nothing, below the mean
    lookup = {image.sum().item(): s for image, s in zip(images, scores, strict=True)}
    given = from_function(lambda m, image, c: lookup[image.sum().item()], "given")
    data = [{"image": i, "mask": m} for i, m in zip(images, masks, strict=True)]
    result = whence.evaluate(small.vit(), data, [given], ["segmentation"])
    # image 0: 7 of 8 found, none wrong; image 1: the diagonal meets the column once
    right = 15 + (16 - 3 - 3)
    assert result.value("given", "segmentation_pixel_accuracy") == CLOSE(right / 32)
    foreground, background = (7 + 1) / (8 + 7), (8 + 9) / (9 + 15)
    assert result.value("given", "segmentation_miou") == CLOSE((foreground + background) / 2)
    wanted = []
    for s, m in zip(scores, masks, strict=True):
        pixels = [*(1 - s).reshape(-1), *s.reshape(-1)]
        wanted.append(reference.average_precision([*(~m).reshape(-1), *m.reshape(-1)], pixels))
    assert result.value("given", "segmentation_map") == CLOSE(np.mean(wanted))


def test_average_precision_is_the_reference():
    rng = np.random.default_rng(0)
    for _ in range(20):
        t, s = rng.random(12) < 0.4, rng.integers(0, 5, 12).astype(float)
        if t.any():
            assert average_precision(t, s) == CLOSE(reference.average_precision(t.tolist(), s.tolist()), abs=1e-12)


# -- rationales -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rationale", [[0, 1, 0, 1], ["dull", "boring"], [(1, 2), (3, 4)]])
def test_token_f1_by_hand(rationale):
    """Top 1: one of two marked words found, F1 = 2·1/(1+2); top 2: `plot` is wrong, F1 = 2·1/(2+2)."""
    values = {"a": 0.1, "dull": 0.9, "plot": 0.8, "boring": 0.2}
    given = from_function(lambda m, t, c: [values.get(w, 5.0) for w in m.encode(t)[0][0].tokens], "given")
    data = [{"text": "a dull plot boring", "rationale": rationale}]
    metric = metrics["token_f1"](top=(1, 2))
    result = whence.evaluate(bag(), data, [given], [metric])
    assert result.value("given", "token_f1") == CLOSE((2 / 3 + 1 / 2) / 2)
    as_many = whence.evaluate(bag(), data, [given], [metrics["token_f1"](top=())])
    assert as_many.value("given", "token_f1") == CLOSE(1 / 2)


def test_a_word_scores_as_its_best_piece():
    given = from_function(
        lambda m, t, c: [float(k) if w == "z" else 0.5 for k, w in enumerate(m.encode(t)[0][0].tokens)], "given"
    )
    data = [{"text": "good zzz film", "rationale": ["zzz"]}]
    result = whence.evaluate(bag(), data, [given], [metrics["token_f1"](top=(1,))])
    assert result.value("given", "token_f1") == CLOSE(1)
