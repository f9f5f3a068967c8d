"""The report as a file; tests/browser opens it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.viz import made
from whence.results import Comparison, Explanation
from whence.viz import colour, report

EXP = Explanation(scores=np.array([0.1, -0.9]), tokens=("a", "gem"), target="good", target_score=1.0, method="lrp")


def data(page: str) -> dict:
    return json.loads(re.search(r'id="whence-data">(.*?)</script>', page, re.DOTALL)[1])


def test_policy_allows_this_script_and_this_style_and_no_network():
    page = report.page(EXP)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    for kind in ("script", "style"):
        inside = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not re.search(r'(?:src|href)="(?!data:)', page)


@pytest.mark.parametrize("token", ["</script>", "<!--<script>", "\u2028"])
def test_no_token_ends_the_element_that_holds_the_data(token):
    page = report.page(Explanation(scores=np.ones(1), tokens=(token,), text=token, target=token, method="lrp"))
    assert data(page)["explanations"][0]["tokens"] == [token]
    assert page.count("</script>") == 2


def test_what_explanations_share_is_written_once():
    other = Explanation(scores=np.array([1.0, 2.0]), tokens=("a", "gem"), target="bad", target_score=2.0, method="lrp")
    first, second = data(report.page(Comparison((EXP, other))))["explanations"]
    assert first["tokens"] == ["a", "gem"]
    assert "".join(phrase["text"] for phrase in second.pop("verdict")) == other.verdict
    assert second == {"target": "bad", "target_score": 2.0, "scores": [1.0, 2.0]}


def test_scores_are_short_and_exact():
    scores = np.random.default_rng(0).normal(size=100).astype(np.float32)
    page = report.page(Explanation(scores=scores, tokens=("x",) * 100, method="lrp"))
    found = data(page)["explanations"][0]["scores"]
    np.testing.assert_array_equal(np.array(found, np.float32), scores)
    assert max(len(str(s)) for s in found) < 16


def test_not_a_number_is_null():
    page = report.page(Explanation(scores=np.array([np.nan, 1.0]), tokens=("a", "b"), method="lrp"))
    assert data(page)["explanations"][0]["scores"] == [None, 1.0]


def test_images_and_features_without_names_have_a_page():
    for scores in (np.ones((2, 2)), np.ones(3)):
        assert "<noscript><div" in report.page(Explanation(scores=scores, target="7", method="lrp"))


def test_palette_is_that_of_the_figures():
    pair = r"light-dark\((#\w+), (#\w+)\)"
    rules = re.findall(rf"\.w-([pn])(\d+) {{ background: {pair}; color: {pair} }}", report.asset("palette.css"))
    assert len(rules) == 2 * report.LEVELS
    for sign, level, light, dark, on_light, on_dark in rules:
        strength = int(level) / report.LEVELS
        assert light == "#{:02x}{:02x}{:02x}".format(*colour.blend(strength if sign == "p" else -strength, 1.0))
        for back, ink in ((light, on_light), (dark, on_dark)):
            rgb = tuple(int(back[i : i + 2], 16) for i in (1, 3, 5))
            assert colour.contrast_text(rgb) == f"#{ink[1:] * 2}"


@pytest.mark.parametrize(
    ("score", "name"), [(0.0, "w-z"), (0.02, "w-z"), (0.5, "w-p12"), (-1, "w-n24"), (9, "w-p24"), (np.nan, "w-z")]
)
def test_shade(score, name):
    assert report.shade(score, 1.0) == name


def test_a_comparison_of_pictures_is_not_titled_by_its_first_method():
    both = Comparison((made.image(), replace(made.image(), method="gi")))
    assert "<title>3 by lrp, gi · whence</title>" in report.page(both)
    many = Comparison(tuple(replace(made.image(), method=f"m{n}") for n in range(7)))
    assert "<title>3 by 7 methods · whence</title>" in report.page(many)
