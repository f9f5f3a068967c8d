"""Errors on the page are those that are raised, and what it says to type instead works."""

from __future__ import annotations

import warnings

import pytest

from docs.generate.errors import TROUBLES, _run, message


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda t: t.title)
def test_a_trouble_is_one_and_its_remedy_works(trouble, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "Error: " in message(trouble)
    *before, _ = trouble.code.splitlines()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a skipped row warns, which is what the page promises
        _run("\n".join([*before, trouble.instead]))
