"""The report as a whole: what a user types, what is saved, what goes wrong."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import whence
from tests import small
from tests.diagnostics.models import Averaged
from whence.cli import app
from whence.data.labelled import film_sentences
from whence.diagnostics.adversarial import Adversarial
from whence.diagnostics.counterfactual import Counterfactual
from whence.diagnostics.guided import Guided
from whence.errors import InputError, InputTooLongError, ModelError, UnknownNameError
from whence.results.diagnosis import Diagnosis
from whence.verbs.diagnose import QUICK
from whence.viz.diagnosis_page import figures

DATA = [
    ("a gorgeous, witty, seductive movie", "positive"),
    ("so very dull and slow", "negative"),
    ("a warm and funny film", 1),
    ("the jokes do not work", 0),
]
SMALL = (
    "agreement",
    Counterfactual(shuffles=3, heads=False),
    Adversarial(rate=0.1, starts=2, examples=2),
    Guided(seeds=2, epochs=5),
)


@pytest.fixture(scope="module")
def report(sentiment):
    return whence.diagnose(sentiment, DATA, sections=SMALL, steps=4, methods=["rollout"], progress=False)


def test_the_same_seed_gives_the_same_report(sentiment, report):
    again = whence.diagnose(sentiment, DATA, sections=SMALL, steps=4, methods=["rollout"], progress=False)
    assert again.to_dict() == report.to_dict()
    other = whence.diagnose(sentiment, DATA, sections=SMALL[1:2], seed=1, progress=False)
    assert other["counterfactual"].points != report["counterfactual"].points


def test_sections_tables_and_settings(report):
    assert [s.name for s in report] == ["agreement", "counterfactual", "adversarial", "guided"]
    assert report["adversarial"].settings["steps"] == report["guided"].settings["steps"] == 4
    rows = report.table()
    assert {row["section"] for row in rows} == {"agreement", "counterfactual", "adversarial", "guided"}
    assert any(row.get("what") == "rollout" for row in rows)
    with pytest.raises(UnknownNameError, match="Did you mean 'guided'"):
        report["guide"]


def test_saved_and_read_again(report, tmp_path):
    assert Diagnosis.load(report.save(tmp_path / "x.json")).table() == report.table()
    page = report.save(tmp_path / "x.html").read_text()
    assert page.count("<svg") == 6
    drawn = [figure.svg for section in report for figure in figures(section).values()]
    assert len([ElementTree.fromstring(svg) for svg in drawn]) == 6, "well-formed on their own"
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org)", page), "nothing is fetched from elsewhere"
    assert "does not follow that the model would learn" in report.save(tmp_path / "x.md").read_text()
    with pytest.raises(InputError, match=r"ends in .*\.json"):
        report.save(tmp_path / "x.xyz")
    assert str(report).startswith("# Is attention an explanation?")
    assert report.__rich__() is not None


def test_other_kinds_of_models():
    """A causal classifier with grouped heads and a language model: rows are those of the predicting token."""
    for module in (small.llama_classifier(), small.gpt2()):
        model = whence.load((module, small.bytelevel()))
        found = whence.diagnose(
            model,
            ["a good movie", "a very dull film indeed"],
            sections=["agreement", Counterfactual(shuffles=2), Adversarial(starts=2)],
            steps=2,
            methods=[],
        )
        assert found["counterfactual"].where(layer="all", attention="permuted")[0]["tvd"] > 0
        assert found["adversarial"].rows[0]["examples"] == 2


def test_model_and_torch_are_untouched(sentiment, report):
    before = sentiment.module.state_dict()
    grads = [p.requires_grad for p in sentiment.module.parameters()]
    state = torch.get_rng_state()
    copy = {k: v.clone() for k, v in before.items()}
    whence.diagnose(sentiment, DATA, sections=SMALL[1:], steps=2, progress=False)
    assert all(torch.equal(copy[k], v) for k, v in sentiment.module.state_dict().items())
    assert [p.requires_grad for p in sentiment.module.parameters()] == grads
    assert all(p.grad is None for p in sentiment.module.parameters())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("data", "options", "error", "says"),
    [
        ([], {}, InputError, "no examples"),
        ("one text", {}, InputError, "takes a list of texts"),
        ([("a gem", "positive"), "dull"], {}, InputError, "example 1 has no label"),
        ([("a gem", "postive")], {}, UnknownNameError, "Did you mean 'positive'"),
        ([("a gem", 7)], {}, InputError, "its classes are 0: negative, 1: positive"),
        (["a gem " * 300], {}, InputTooLongError, "truncate=True"),
        (["a gem", "great"], {}, InputError, "only 'positive'"),
        (["a gem"], {"sections": ["agrement"]}, UnknownNameError, "Did you mean 'agreement'"),
        (["a gem"], {"sections": []}, InputError, "no sections"),
        (["a gem"], {"limit": 0}, InputError, "limit=0"),
        (["a gem"], {"methods": ["rolout"]}, UnknownNameError, "rollout"),
    ],
)
def test_bad_input_is_told_before_long_work(sentiment, data, options, error, says):
    with pytest.raises(error, match=re.escape(says)):
        whence.diagnose(sentiment, data, **options)


def test_models_that_can_not_be_diagnosed(digits):
    ids = {"input_ids": torch.tensor([[1, 2, 3]])}
    with pytest.raises(ModelError, match="computes none"):
        whence.diagnose(Averaged().eval(), ids)
    with pytest.raises(InputError, match="reads images"):
        whence.diagnose(digits, [np.zeros((28, 28), dtype=np.uint8)])


def test_built_in_sentences_are_balanced():
    data = film_sentences()
    assert len(data) == len({row.input for row in data}) == 40
    assert sum(row.label == "positive" for row in data) == 20


def test_the_command(tmp_path):
    data, page = tmp_path / "d.tsv", tmp_path / "d.json"
    data.write_text("positive\ta gem of a film\nnegative\tso very dull\n")
    options = ["--quick", "--sections", "counterfactual,adversarial", "--steps", "2", "--save", str(page)]
    result = CliRunner().invoke(app, ["diagnose", "--data", str(data), *options])
    assert result.exit_code == 0, result.output
    assert "Does the prediction change" in result.stdout
    assert [s["name"] for s in json.loads(page.read_text())["sections"]] == ["counterfactual", "adversarial"]
    wrong = CliRunner().invoke(app, ["diagnose", "--save", "x.xyz"])
    assert isinstance(wrong.exception, InputError)


def test_quick_asks_every_question():
    from whence.diagnostics.question import questions

    assert set(QUICK) == set(questions)
