"""`whence.evaluate` as a whole: the oracle wins, the same input runs once, interruptions cost nothing."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
import torch

import whence
from tests import small
from tests.evaluation.bag import OPPOSITE, ORACLE, RANDOM, TEXTS, bag, truth
from whence.errors import InputError, MissingExtraError, OptionError, UnknownNameError
from whence.evaluation import from_captum, from_function, from_quantus, metrics
from whence.results import Evaluation, Explanation

# The oracle's weights are those of the probability, so that is what must be asked for.
FAITHFUL = {name: name for name in ("auac", "aopc", "comprehensiveness", "sufficiency")}
FAITHFUL["lerf_morf"] = metrics["lerf_morf"](output="probability")


@pytest.mark.parametrize("name", FAITHFUL)
def test_the_oracle_wins_and_the_random_one_loses(name):
    result = whence.evaluate(bag(), TEXTS, [RANDOM, ORACLE, OPPOSITE], [FAITHFUL[name]])
    assert result.best(name) == "oracle"
    sign = -1 if result.better[name] == "lower" else 1
    oracle, random, opposite = (sign * result.value(m, name) for m in ("oracle", "random", "opposite"))
    assert oracle > random > opposite
    found = result.compare("oracle", "opposite", name)
    assert sign * found.difference > 0
    assert found.p < 0.05


def test_the_oracle_wins_under_au_mse():
    """Pruning ranks by |R|, so the size of the true weights is what counts; the opposite has the same."""
    result = whence.evaluate(bag(), TEXTS, [RANDOM, ORACLE, OPPOSITE], ["au_mse"])
    assert result.value("oracle", "au_mse") == pytest.approx(result.value("opposite", "au_mse"))
    assert result.best("au_mse") != "random"


def test_data_in_every_shape_is_the_same_data(tmp_path):
    labels = [1, 0, 1, 0, 1, 0, 1, 0]
    pairs = list(zip(TEXTS, labels, strict=True))
    lines = tmp_path / "data.tsv"
    lines.write_text("\n".join(f"{label}\t{text}" for text, label in pairs))
    table = tmp_path / "data.csv"
    table.write_text("text,label\n" + "\n".join(f'"{text}",{label}' for text, label in pairs))
    objects = tmp_path / "data.jsonl"
    objects.write_text("\n".join(json.dumps({"text": t, "label": n}) for t, n in pairs))
    shapes = [
        pairs,
        [{"text": t, "label": n} for t, n in pairs],
        {"text": TEXTS, "label": labels},
        [(t, np.int64(n)) for t, n in pairs],
        lines,
        table,
        objects,
        iter(pairs),
    ]
    values = [
        whence.evaluate(bag(), data, [ORACLE], ["auac"], target="true").values("oracle", "auac").tolist()
        for data in shapes
    ]
    assert all(v == values[0] for v in values)


def test_labels_by_name(sentiment):
    data = [("a gem", "positive"), ("a dull film", "Negative")]
    by_name = whence.evaluate(sentiment, data, ["gi"], ["auac"], target="true")
    by_index = whence.evaluate(sentiment, [("a gem", 1), ("a dull film", 0)], ["gi"], ["auac"], target="true")
    as_read = whence.evaluate(sentiment, [("a gem", "1"), ("a dull film", "0")], ["gi"], ["auac"], target="true")
    assert as_read.inputs == by_index.inputs
    assert as_read.values("gi", "auac").tolist() == by_index.values("gi", "auac").tolist()
    assert by_name.values("gi", "auac").tolist() == by_index.values("gi", "auac").tolist()


def test_the_target_is_the_true_label_where_asked():
    one = [("bad", 0), ("bad", 1)]
    result = whence.evaluate(bag(), one, [ORACLE], ["auac"], target="true")
    values = result.values("oracle", "auac")
    assert values[0] == pytest.approx(1 - values[1], abs=1e-5)  # one word: the two curves are mirror images
    assert "target=true" in result.describe("auac")


def test_the_same_input_runs_once(monkeypatch):
    from whence.models.text import TextClassifier

    rows = []
    forward = TextClassifier.forward

    def counted(self, batch):
        rows.extend(
            tuple(r[m.bool()].tolist()) for r, m in zip(batch["input_ids"], batch["attention_mask"], strict=True)
        )
        return forward(self, batch)

    model = bag()
    examples, _ = model.encode(TEXTS)
    for some in (examples, examples[:1]):
        model.beside(some)  # asked once, and not part of the evaluation
    monkeypatch.setattr(TextClassifier, "forward", counted)
    whence.evaluate(model, TEXTS, [ORACLE, RANDOM, OPPOSITE], ["auac", "au_mse", "aopc"])
    originals = {tuple(bag().encode(t)[0][0].inputs["input_ids"].tolist()) for t in TEXTS}
    perturbed = [r for r in rows if r not in originals]
    assert len(perturbed) == len(set(perturbed))
    assert all(rows.count(o) <= 2 for o in originals)  # once for the targets, once among the perturbed


def test_limit_draws_by_seed():
    many = [f"good movie {w}" for w in small.WORDS]
    first = whence.evaluate(bag(), many, [ORACLE], ["auac"], limit=5, seed=1)
    again = whence.evaluate(bag(), many, [ORACLE], ["auac"], limit=5, seed=1)
    other = whence.evaluate(bag(), many, [ORACLE], ["auac"], limit=5, seed=2)
    assert first.inputs == again.inputs != other.inputs
    assert len(first) == 5


# -- what may explain -------------------------------------------------------------------------------------------


def test_methods_by_name_recipe_object_function_and_file(sentiment, tmp_path):
    from whence.methods.explaining import as_method

    mine = whence.Recipe("mine", softmax="detach", norm="detach")
    path = mine.but(name="saved").save(tmp_path / "saved.json")
    functions = lambda model, text, target: whence.explain(model, text, "ah_ln", target)
    methods = ["ah_ln", mine, str(path), ("object", as_method("ah_ln")), ("function", functions)]
    result = whence.evaluate(sentiment, ["a gorgeous, witty movie", "a dull film"], methods, ["auac"])
    assert result.methods == ("ah_ln", "mine", "saved", "object", "function")
    values = [result.value(m, "auac") for m in result.methods]
    assert values == pytest.approx([values[0]] * 5, abs=1e-6)


def test_explanations_without_special_tokens_are_taken():
    short = lambda model, text, target: Explanation(
        scores=truth(model, text, target).numpy()[1:-1], tokens=model.encode(text)[0][0].tokens[1:-1]
    )
    result = whence.evaluate(bag(), TEXTS, [ORACLE, ("short", short)], ["auac"])
    assert result.value("short", "auac") == pytest.approx(result.value("oracle", "auac"))


def test_functions_of_other_libraries():
    """captum: attribute(inputs, target) gives (1, token, hidden); Quantus: explain_func(model, inputs, targets)."""
    module = bag().module

    def attribute(inputs, target):
        weights = module.words(inputs)
        return torch.stack([weights[..., target], -weights[..., 1 - target]], -1)

    def explain_func(module, inputs, targets):
        weights = module.words.weight.detach().numpy()[inputs]
        return np.stack([w[:, t] - w[:, 1 - t] for w, t in zip(weights, targets, strict=True)])

    methods = [ORACLE, from_captum(attribute), from_quantus(explain_func)]
    result = whence.evaluate(bag(), TEXTS, methods, ["auac"])
    assert result.methods == ("oracle", "attribute", "explain_func")
    for name in result.methods:
        assert result.value(name, "auac") == pytest.approx(result.value("oracle", "auac"))


def test_pixel_attributions_are_summed_to_patches():
    model, images = whence.load(small.vit()), torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))

    def attribute(inputs, target):
        inputs = inputs.clone().requires_grad_()
        (grad,) = torch.autograd.grad(model.module(pixel_values=inputs).logits[:, target].sum(), inputs)
        return inputs * grad

    result = whence.evaluate(model, list(images), ["gi", from_captum(attribute)], ["auac", "agreement"], fill="black")
    assert result.value("gi", "agreement:attribute") == pytest.approx(1, abs=0.02)  # float32, and near ties


def test_a_plain_module_without_tokenizer():
    ids = torch.randint(1, 50, (4, 7), generator=torch.Generator().manual_seed(0))
    data = [{"tokens": row, "label": 0} for row in ids]
    result = whence.evaluate(small.by_hand(), data, ["gi", "ah_ln"], ["auac", "au_mse"])
    assert np.isfinite(result.value("gi", "auac"))
    assert len(result) == 4


def test_a_language_model():
    model = whence.load((small.gpt2(), small.bytelevel()))
    result = whence.evaluate(model, ["a good film", "bad"], ["gi"], ["auac", "lerf_morf"])
    assert np.isfinite(result.value("gi", "lerf_morf"))


# -- resuming ---------------------------------------------------------------------------------------------------


class Interrupted(Exception):
    pass


def _breaks_at(number):
    seen = []

    def explain(model, text, target):
        seen.append(text)
        if len(seen) == number:
            raise Interrupted
        return truth(model, text, target)

    return from_function(explain, "oracle")


def test_resuming_gives_the_same_result(tmp_path, monkeypatch):
    from whence.evaluation import running

    monkeypatch.setitem(running.ROUND, "cpu", 50)  # about two examples in a round
    settings = {"metrics": ["auac", "au_mse", "agreement"], "resume": tmp_path / "journal.jsonl"}
    with pytest.raises(Interrupted):
        whence.evaluate(bag(), TEXTS, [_breaks_at(6), RANDOM], **settings)
    lines = settings["resume"].read_text().splitlines()
    assert 1 < len(lines) < 1 + 2 * len(TEXTS)
    with settings["resume"].open("a") as file:
        file.write(lines[-1][: len(lines[-1]) // 2])  # a crash in the middle of a line
    looked = []
    counting = from_function(lambda m, t, c: (looked.append(t), truth(m, t, c))[1], "oracle")
    counting = type(counting)("oracle", counting.explain, _breaks_at(0).settings)
    resumed = whence.evaluate(bag(), TEXTS, [counting, RANDOM], **settings)
    assert 0 < len(looked) < len(TEXTS)
    whole = whence.evaluate(bag(), TEXTS, [counting, RANDOM], metrics=settings["metrics"])
    assert resumed.to_dict()["measured"] == whole.to_dict()["measured"]
    looked.clear()
    whence.evaluate(bag(), TEXTS, [counting, RANDOM], **settings)
    assert not looked


def test_a_journal_of_other_settings_is_refused_with_the_difference(tmp_path):
    path = tmp_path / "journal.jsonl"
    whence.evaluate(bag(), TEXTS[:2], [ORACLE], ["auac"], resume=path)
    with pytest.raises(InputError, match=r"metrics\.auac\.fill: 'unk' in the file, 'mask' now"):
        whence.evaluate(bag(), TEXTS[:2], [ORACLE], ["auac"], fill="mask", resume=path)
    other = tmp_path / "other.jsonl"
    other.write_text("not a journal\n")
    with pytest.raises(InputError, match="no journal"):
        whence.evaluate(bag(), TEXTS[:2], [ORACLE], ["auac"], resume=other)


# -- intervals --------------------------------------------------------------------------------------------------


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    from whence.results.bootstrap import estimate

    values = np.random.default_rng(0).normal(3.0, 2.0, size=(400, 1))
    found = estimate(values, np.ones_like(values), 0.95, 4000, 0)
    half = 1.96 * values.std() / np.sqrt(400)
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.05 * 2)
    assert estimate(values, np.ones_like(values), 0.95, 4000, 0) == found


def test_a_ratio_divides_sums():
    from whence.results.bootstrap import estimate

    assert estimate(np.array([[1.0], [9.0]]), np.array([[2.0], [10.0]])).value == pytest.approx(10 / 12)


def test_pairs_make_small_differences_visible():
    """b is a little better than a on every example, though the examples differ much more than that."""
    from whence.results.bootstrap import difference

    rng = np.random.default_rng(0)
    a = rng.normal(0, 5, size=(60, 1))
    b = a + 0.1 + rng.normal(0, 0.05, size=(60, 1))
    ones = np.ones_like(a)
    found, p = difference((b, ones), (a, ones), 0.95, 2000, 0)
    assert 0 < found.low < 0.1 < found.high < 0.2
    assert p < 0.01
    same, p = difference((a, ones), (a, ones), 0.95, 2000, 0)
    assert (same.low, same.high, p) == (0, 0, 1)


def test_p_has_two_sides():
    """Better and worse are equally surprising, and p is twice the smaller tail."""
    from whence.results.bootstrap import difference

    a = np.random.default_rng(0).normal(0.3, 1.0, size=(40, 1))
    nothing, ones = np.zeros_like(a), np.ones_like(a)
    up, p_up = difference((a, ones), (nothing, ones), 0.95, 4000, 0)
    down, p_down = difference((nothing, ones), (a, ones), 0.95, 4000, 0)
    assert p_up == p_down
    assert (up.value, up.low, up.high) == pytest.approx((-down.value, -down.high, -down.low))
    z = a.mean() / (a.std() / np.sqrt(len(a)))  # of a normal distribution, which the bootstrap comes close to
    assert p_up == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.02)


@pytest.mark.parametrize(("examples", "least", "certain"), [(3, 1 / 4, False), (5, 1 / 16, False), (6, 1 / 32, True)])
def test_a_few_differences_of_one_sign_may_be_chance(examples, least, certain):
    """n coins fall on one side with probability 2^(1 - n), whatever resamples of them say."""
    from whence.results.bootstrap import difference
    from whence.results.evaluation import Difference

    a = np.linspace(1.0, 2.0, examples)[:, None]
    nothing, ones = np.zeros_like(a), np.ones_like(a)
    found, p = difference((a, ones), (nothing, ones), 0.95, 2000, 0)
    assert p == least
    assert Difference("a", "b", "m", found.value, found.low, found.high, p, found.examples).certain is certain


def test_differences_are_over_examples_that_both_have():
    """What only one method was measured on says nothing about the other."""
    from whence.results.bootstrap import difference

    first = (np.array([[1.0], [2.0], [100.0], [0.0]]), np.array([[1.0], [1.0], [1.0], [0.0]]))
    second = (np.array([[0.5], [1.0], [0.0], [-100.0]]), np.array([[1.0], [1.0], [0.0], [1.0]]))
    found, _ = difference(first, second, 0.95, 200, 0)
    assert found.value == pytest.approx(0.75)
    assert found.examples == 2
    assert 0.5 <= found.low <= found.high <= 1.0


# -- results ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result():
    return whence.evaluate(bag(), TEXTS, [ORACLE, RANDOM], ["auac", "au_mse", "agreement"])


def test_the_table_is_tidy_and_holds_the_settings(result):
    rows = result.table()
    assert {(r["method"], r["metric"]) for r in rows} >= {("oracle", "auac"), ("random", "au_mse")}
    row = next(r for r in rows if (r["method"], r["metric"]) == ("oracle", "auac"))
    assert row["low"] <= row["value"] <= row["high"]
    for setting in ("order=signed", "fill=unk", "special=kept", "target=predicted"):
        assert setting in row["settings"]
    assert len(result.per_example) == len(TEXTS) * len(rows) - 0


def test_curves_have_bands(result):
    curve = result.curves["oracle", "auac"]
    assert curve.x.tolist() == pytest.approx([n / 10 for n in range(11)])
    assert (curve.low <= curve.mean).all()
    assert (curve.mean <= curve.high).all()
    assert np.trapezoid(curve.mean, curve.x) == pytest.approx(result.value("oracle", "auac"))


def test_saved_and_loaded(result, tmp_path):
    again = Evaluation.load(result.save(tmp_path / "x.json"))
    assert again.to_dict() == result.to_dict()
    assert again.compare("oracle", "random", "auac") == result.compare("oracle", "random", "auac")
    assert result.save(tmp_path / "x.csv").read_text().count("\n") == 1 + len(result.table())
    page = result.save(tmp_path / "x.md").read_text()
    assert page.startswith("| method | auac ↑ | au_mse ↓ |")
    assert "fill=unk" in page
    drawn = result.save(tmp_path / "x.html").read_text()
    assert drawn.count("<polyline") == 4
    assert "://" not in drawn.replace("http://www.w3.org/2000/svg", ""), "nothing to fetch"
    with pytest.raises(InputError, match=r"ends in .*\.json"):
        result.save(tmp_path / "x.doc")


def test_parquet_needs_its_extra(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whence-xai\[data\]'"):
        result.save(tmp_path / "x.parquet")


def test_names_are_escaped_in_html():
    odd = from_function(truth, "<script>")
    assert "<script>" not in whence.evaluate(bag(), TEXTS[:2], [odd], ["auac"])._repr_html_()


def test_printed_with_settings_and_best(result):
    shown = str(result)
    assert "auac: order=signed, fill=unk, special=kept" in shown
    assert "agreement:" not in shown.splitlines()[0]
    assert next(line for line in shown.splitlines() if line.startswith("oracle")).count("*") >= 1


def test_ali_sets_every_switch():
    data = list(zip(TEXTS, [1, 0] * 4, strict=True))
    result = whence.evaluate(bag(), data, [ORACLE], ["auac", "au_mse"], protocol="ali")
    assert "special=counted" in result.describe("auac")
    assert "order=absolute" in result.describe("au_mse")
    assert "target=true" in result.describe("auac")


# -- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"metrics": ["auca"]}, UnknownNameError, "Did you mean 'auac'"),
        ({"methods": ["ah_lm"]}, UnknownNameError, "Did you mean 'ah_ln'"),
        ({"target": "true"}, InputError, "needs a label for every example, and example 0"),
        ({"target": "gold"}, OptionError, "target='gold' is not 'predicted' or 'true'"),
        ({"metrics": ["segmentation"]}, InputError, "is for images"),
        ({"metrics": ["token_f1"]}, InputError, "needs a rationale for every example"),
        ({"metrics": ["agreement"], "methods": ["gi"]}, InputError, "at least two"),
        ({"metrics": ["auac", "auac"]}, InputError, "two metrics are called 'auac'"),
        ({"methods": ["gi", "gi"]}, InputError, "two methods are called 'gi'"),
        ({"fill": "blank"}, OptionError, "unknown fill 'blank'"),
        ({"order": "up"}, OptionError, "order='up' is not 'signed' or 'absolute'"),
        ({"data": []}, InputError, "empty"),
        ({"data": "a gem"}, InputError, "pass a list of texts"),
        ({"data": [("a gem", 7)]}, InputError, "example 0: the model has no class 7; its classes are 0: negative"),
        (
            {"data": [("a gem", "positive"), ("dull", "neg")]},
            InputError,
            "unknown label 'neg': the classes are 'negative'",
        ),
        ({"data": [("a gem", "7")]}, InputError, "unknown label '7'"),
        ({"data": [("a gem", -1)]}, InputError, "example 0: the model has no class -1"),
        ({"data": [{"sentense": "a gem"}]}, InputError, "name a column 'text'"),
        ({"limit": 0}, InputError, "limit=0 is not a whole number of at least 1"),
        ({"methods": [3]}, InputError, "can't explain with int"),
        ({"methods": [lambda m, t, c: [1.0]]}, InputError, "1 scores for"),
        ({"methods": [lambda m, t, c: [float("nan")] * 4]}, InputError, "NaN"),
    ],
)
def test_bad_input_says_what_to_type(options, error, message, sentiment):
    values = {"data": ["a gem"], "methods": ["gi", "ah_ln"], "metrics": ["auac"]} | options
    with pytest.raises(error, match=message):
        whence.evaluate(sentiment, values.pop("data"), values.pop("methods"), values.pop("metrics"), **values)


def test_masks_that_are_missing():
    images = torch.zeros(2, 3, 16, 16)
    with pytest.raises(InputError, match="needs a mask for every example, and example 0 has none"):
        whence.evaluate(small.vit(), list(images), ["gi"], ["segmentation"])


def test_a_rationale_that_is_not_in_the_text():
    with pytest.raises(InputError, match="does not stand in the text"):
        whence.evaluate(bag(), [{"text": "good film", "rationale": ["bad"]}], [ORACLE], ["token_f1"])


def test_every_metric_says_where_it_comes_from():
    for name, metric in metrics.items():
        assert metric.__doc__, name
        assert metric.better in ("higher", "lower", "")
