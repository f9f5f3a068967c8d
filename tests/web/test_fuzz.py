"""Requests made up from the OpenAPI document: no answer may be a fault, and each must be as the document says.

`FUZZ_EXAMPLES=400 python -m pytest tests/web/test_fuzz.py -s` makes up more of them, and says how many.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

import whence
from tests import small
from tests.web.conftest import picture, sound
from whence.web.app import create_app
from whence.web.settings import Limits, Settings

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "40"))
PATIENCE = 300
"""Seconds for an answer: none is spent where all is well, and a busy machine is no fault."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def answers():
    """Statuses of all answers, told at the end."""
    found = Counter()
    yield found
    print(
        f"\n{found.total():,} requests, {sum(n for status, n in found.items() if status >= 500)} faults: {dict(found)}"
    )


@pytest.fixture(scope="module")
def document(digits, tones, tmp_path_factory):
    """A server of tiny models and quick methods, with a small run in it."""
    out = tmp_path_factory.mktemp("fuzz") / "run"
    whence.run(["a gem", "", "dull"], model="sentiment", out=out, method="gi", progress=False, workers=1)
    app = create_app(
        Settings(
            models={
                "tiny": whence.load((small.classifier(), small.wordpiece())),
                "writer": whence.load((small.llama(), small.bytelevel())),
                "clip": whence.load(small.clip()),
                "digits": digits,
                "tones": tones,
            },
            methods=("lrp", "gi", "rollout", "random"),
            runs=(out,),
            hosts=("localhost", "testserver"),
            limits=Limits(characters=200, image_bytes=2000, sound_bytes=4000, generate=3, targets=3, methods=3),
        )
    )
    return schemathesis.openapi.from_asgi("/openapi.json", app)


QUIET = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
OPERATIONS = [
    ("GET", "/api/info"),
    ("GET", "/api/health"),
    ("POST", "/api/explain"),
    ("POST", "/api/stream"),
    ("POST", "/api/write"),
    ("POST", "/api/write/figure"),
    ("POST", "/api/cite"),
    ("POST", "/api/cite/figure"),
    ("POST", "/api/similarity"),
    ("POST", "/api/similarity/figure"),
    ("POST", "/api/tokens"),
    ("POST", "/api/remove"),
    ("POST", "/api/attention"),
    ("POST", "/api/figure"),
    ("GET", "/api/runs"),
    ("GET", "/api/runs/{name}/rows"),
    ("GET", "/api/runs/{name}/rows/{index}"),
    ("GET", "/api/runs/{name}/summary"),
]


def test_every_operation_is_here(document):
    found = [result.ok() for result in document.get_all_operations()]
    assert sorted((o.method.upper(), o.path) for o in found) == sorted(OPERATIONS)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("verb", "path"), OPERATIONS)
def test_made_up_requests(document, answers, verb, path, mode):
    operation = document[path][verb]
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query or operation.path_parameters):
        pytest.skip("there is nothing that could be wrong")
    statuses = Counter()

    @settings(QUIET, max_examples=EXAMPLES)
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        response = case.call(timeout=PATIENCE)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    ask()
    answers.update(statuses)
    if mode is GenerationMode.NEGATIVE and verb == "POST":  # in addresses everything is a string
        assert not statuses[200], "what the document forbids was answered"


def sensible(case):
    """The made-up request with what models can answer in place of what they can't: a text or an image, known labels."""
    body = case.body
    for name in ("image", "sound", "messages"):
        body.pop(name, None)
    labels = list(dict.fromkeys(f"{n} {label[:9]}".strip() for n, label in enumerate(body.pop("labels", None) or ())))
    if body["model"] == "clip" and case.operation.path == "/api/attention":  # of one side
        body |= {"text": "a gem", "pair": None}
    elif body["model"] == "clip":
        body |= {"image": picture(mode="RGB"), "text": None, "pair": None, "labels": [*labels[:5], "a", "b", "c"]}
        body["methods"] = [name for name in body.get("methods", ()) if name != "rollout"] or ["gi"]
    elif body["model"] == "digits":
        body |= {"image": picture(colour=len(body.get("text") or "") % 256), "text": None, "pair": None}
    elif body["model"] == "tones":
        body |= {"sound": sound(), "text": None, "pair": None}
    else:
        body["text"] = (body.get("text") or "").strip()[:12] or "a gem"
        body["pair"] = (body.get("pair") or "x")[:4] if body["model"] == "tiny" else None
    if body["model"] != "writer" or body.get("generate"):
        body.pop("continuation", None)
    if body["model"] != "writer":
        body.pop("generate", None)
    if "continuation" in body:
        body["continuation"] = (body["continuation"] or "x")[:6] if isinstance(body["continuation"], str) else [5, 7]
    if isinstance(body.get("targets"), list):
        body["targets"] = [_known(t) for t in body["targets"]]
    elif body.get("targets") == "all" and body["model"] == "writer":
        body["targets"] = None
    if body.get("format") == "npz":
        body |= {"methods": ["gi"], "targets": None}
    if "layer" in body:
        body["layer"] %= 2
    return case


def _known(target):
    if isinstance(target, dict) and "written" in target:
        return 0  # not every request has a continuation
    if isinstance(target, dict):
        this = _known(target["this"])
        return {"this": this, "that": (this + 1 + _known(target["that"]) % 2) % 3}
    return target % 3 if isinstance(target, (int, float)) else len(target) % 3


@pytest.mark.filterwarnings("ignore:no installed font")  # made-up characters: drawn as boxes, and said so
@pytest.mark.parametrize("path", ["/api/explain", "/api/stream", "/api/attention", "/api/figure"])
def test_made_up_requests_that_can_be_answered(document, answers, path):
    statuses = Counter()

    @settings(QUIET, max_examples=EXAMPLES)
    @given(case=document[path]["POST"].as_strategy().map(sensible))
    def ask(case):
        response = case.call(timeout=PATIENCE)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)
        if response.status_code != 200:
            print(response.status_code, response.text[:300], str(case.body)[:300])

    ask()
    answers.update(statuses)
    assert statuses[200] > 0.9 * statuses.total(), statuses
