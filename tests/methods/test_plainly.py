"""Every method has words for people."""

from __future__ import annotations

import pytest

from whence.methods import methods
from whence.methods.plainly import _KNOWN, plain


@pytest.mark.parametrize("name", list(_KNOWN))
def test_it_has_a_name_a_sentence_and_a_caveat(name):
    words = plain(name)
    assert words.title != name
    assert words.says.endswith(".")
    assert words.caveat.endswith(".")


def test_every_method_that_comes_with_whence_is_known():
    ours = {name for name, made in methods.items() if getattr(made, "func", made).__module__.startswith("whence.")}
    assert ours <= set(_KNOWN)
    assert set(_KNOWN) <= set(methods)
