"""The hub that can't be reached: said at once, and what was kept of it is still found."""

from __future__ import annotations

import socket

import pytest
import transformers
from huggingface_hub import constants

import whence
from whence.errors import ModelNotFoundError
from whence.models import reaching


@pytest.fixture(autouse=True)
def online(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def test_a_model_that_is_not_here_is_refused_without_a_question(monkeypatch):
    def asked(*_, **__):
        raise AssertionError("the hub was asked again")

    monkeypatch.setattr(reaching, "answers", lambda: False)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", asked)
    with pytest.raises(ModelNotFoundError, match=r"can't load 'nobody/nothing' \(the hub can't be reached from here\)"):
        whence.load("nobody/nothing")
    assert constants.HF_HUB_OFFLINE is False, "as it was"


def test_models_that_are_here_ask_nobody(monkeypatch):
    def asked():
        raise AssertionError("a bundled model needs no hub")

    monkeypatch.setattr(reaching, "answers", asked)
    assert whence.load("sentiment").labels == ("negative", "positive")


def test_a_file_that_is_no_model_asks_nobody(monkeypatch, tmp_path):
    def asked(*_, **__):
        raise AssertionError("the hub was asked for a file")

    monkeypatch.setattr("transformers.utils.hub.cached_file", asked)
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", asked)
    monkeypatch.chdir(tmp_path)
    for name in ("trace.json", "README.md"):
        (tmp_path / name).write_text("{}")
        with pytest.raises(ModelNotFoundError, match=rf"'{name}' is a file, and no model: pass the folder with config"):
            whence.load(name)


def test_a_file_by_the_name_of_a_bundled_model_does_not_hide_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sentiment").write_text("a file")
    assert whence.load("sentiment").labels == ("negative", "positive")


def test_a_closed_door_is_known_as_one(monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert reaching.answers()
    assert not reaching.answers()


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy"])
def test_behind_a_proxy_nobody_knows(monkeypatch, name):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv(name, "http://proxy.example:3128")
    assert reaching.answers()


def test_the_first_thread_to_end_does_not_wake_the_hub_for_the_others(monkeypatch):
    monkeypatch.setattr(reaching, "answers", lambda: False)
    first, second = reaching.kept_alone(), reaching.kept_alone()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert constants.HF_HUB_OFFLINE is True
    second.__exit__(None, None, None)
    assert constants.HF_HUB_OFFLINE is False


def test_offline_mode_that_was_chosen_stays(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with reaching.kept_alone():
        pass
    assert constants.HF_HUB_OFFLINE is True
