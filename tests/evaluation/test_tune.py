"""`whence.tune`, the search behind it, and recipes as files."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import whence
from tests.small import wordpiece
from whence.core.recipe import Gamma, Recipe, recipes
from whence.errors import InputError
from whence.evaluation.search import SPACE, choices_of, search

TEXTS = [
    "a very good movie and a witty plot",
    "the film is dull and the plot is boring",
    "it is not a bad movie but a gorgeous film",
    "this was very bad and very boring",
    "an witty and gorgeous movie",
    "the dull plot of this film was not good",
    "good film good plot but a bad movie",
    "the movie is good and it is witty",
    "bad plot and dull film",
    "it was a very gorgeous film",
    "a boring and very bad plot",
    "this movie was not dull but witty and good",
]


class Saturated(nn.Module):
    """logit = ±Σ_t tanh(w_t): where tanh is flat the gradient says nothing, and the slope tanh(w)/w says it all.

    Strong words (|w| = 6) have a gradient of 2e-5 and a value of 1; weak ones (|w| = .3) a gradient of .9 and .29.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(300, 1)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            sign = torch.where(torch.rand(300, 1, generator=generator) < 0.3, -1.0, 1.0)
            size = torch.where(torch.rand(300, 1, generator=generator) < 0.5, 6.0, 0.3)
            self.words.weight.copy_(sign * size)
            self.words.weight[:5] = 0

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        score = (torch.tanh(self.words(input_ids)) * attention_mask[..., None]).sum(1)
        return torch.cat([-score, score], -1)


@pytest.fixture(scope="module")
def found():
    model = whence.load((Saturated().eval(), wordpiece()), task="text-classification")
    return whence.tune(model, TEXTS, calibration=5, held_out=7, budget=14, progress=False)


def test_the_better_recipe_is_found_where_it_is_known(found):
    assert found.recipe.activation in ("slope", "gate")
    assert found.held_out.compare("tuned", "gi", "auac").low > 0
    strongest = found.effects[0]
    assert strongest.field == "activation"
    assert strongest.alternatives["gradient"] > 0


def test_the_report_is_about_examples_the_search_has_not_seen(found):
    assert found.calibration == 5
    assert len(found.held_out) == 7
    assert set(found.held_out.methods) == {"tuned", *recipes}
    low, high = found.interval
    assert low <= found.value <= high
    shown = str(found)
    assert "7 others" in shown
    assert "which choices mattered" in shown
    assert len(found.trials) <= 14


def test_the_recipe_is_a_method(found, tmp_path):
    path = found.save(tmp_path / "mine.json")
    by_file = whence.explain("sentiment", "a gem", method=str(path))
    by_recipe = whence.explain("sentiment", "a gem", method=found.recipe)
    assert by_file.method == "tuned"
    assert by_file.scores.tolist() == by_recipe.scores.tolist()
    assert found.save(tmp_path / "report.md").read_text().startswith("recipe 'tuned'")
    with pytest.raises(InputError, match=r"ends in .*\.json"):
        found.save(tmp_path / "mine.txtt")


def test_tune_says_what_is_missing(sentiment):
    with pytest.raises(InputError, match="presets are tried first"):
        whence.tune(sentiment, TEXTS, budget=3)
    with pytest.raises(InputError, match="pass more data"):
        whence.tune(sentiment, TEXTS, calibration=10, held_out=10)
    with pytest.raises(InputError, match="does not say which of two"):
        whence.tune(sentiment, TEXTS, metric="agreement")


# -- the search -------------------------------------------------------------------------------------------------

BEST = {"softmax": 2.0, "activation": "gate", "product": "detach", "norm": "identity", "linear": Gamma(0.1)}


def _hits(recipe: Recipe) -> float:
    return sum(getattr(recipe, name) == value for name, value in BEST.items())


def test_descent_finds_the_top_of_a_hill():
    asked = []

    def judge(wanted):
        asked.extend(choices_of(r) for r in wanted)
        return [_hits(r) for r in wanted]

    done = search(judge, budget=60, seed=0)
    assert _hits(done.best.recipe) == len(BEST)
    assert len(asked) == len(set(asked)) == len(done.trials) <= 60


def test_restarts_leave_a_local_top():
    """A ridge that no single change from a preset can reach: both fields must change at once."""

    def judge(wanted):
        return [5.0 if (r.norm, r.activation) == ("identity", "gate") else -float(r.norm == "identity") for r in wanted]

    space = {"norm": SPACE["norm"], "activation": SPACE["activation"]}
    assert search(judge, budget=30, seed=0, space=space).best.value == 5.0


def test_a_detached_softmax_has_no_scale_of_scores():
    one, other = Recipe("a", softmax="detach", scores=0.5), Recipe("b", softmax="detach")
    assert choices_of(one) == choices_of(other)


# -- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", recipes)
def test_recipes_come_back_from_files(name, tmp_path):
    recipe = recipes[name].but(name="mine", linear=whence.Gamma(0.05), conv=whence.Epsilon(1e-3))
    assert Recipe.load(recipe.save(tmp_path / "r.json")) == recipe


def test_files_that_are_no_recipes(tmp_path):
    path = tmp_path / "r.json"
    with pytest.raises(InputError, match="no such recipe"):
        whence.explain("sentiment", "a gem", method=str(path))
    path.write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        Recipe.load(path)
    path.write_text("{}")
    with pytest.raises(InputError, match="no recipe of format 1"):
        Recipe.load(path)
    path.write_text(json.dumps({"format": 1, "name": "x", "norm": "sideways"}))
    with pytest.raises(InputError, match="norm='sideways' is not 'gradient'"):
        Recipe.load(path)
    path.write_text(json.dumps({"format": 1, "name": "x", "nrom": "detach"}))
    with pytest.raises(InputError, match="no 'nrom'"):
        Recipe.load(path)
    path.write_text(json.dumps({"format": 1, "name": "x", "linear": {"rule": "omega"}}))
    with pytest.raises(InputError, match="linear rule"):
        Recipe.load(path)
    with pytest.raises(InputError, match=r"saved as \.json"):
        recipes["gi"].save(tmp_path / "r.txt")
    with pytest.raises(InputError, match="functions can't be saved"):
        Recipe("mine", rules={torch.sin: np.sin}).save(path)
