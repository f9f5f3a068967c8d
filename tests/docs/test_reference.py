"""The reference has everything that can be imported, as its docstrings say it."""

from __future__ import annotations

import inspect

import whence
from docs.generate.commands import commands
from docs.generate.reference import PAGES, as_markdown, reference
from whence import viz


def test_everything_public_has_an_entry():
    pages = reference()
    assert set(pages) == {f"reference/{page}.md" for page in PAGES}
    text = "\n".join(pages.values())
    for module in (whence, viz):
        for name in module.__all__:
            if name != "__version__":
                assert text.count(f"## `{module.__name__}.{name}`\n") == 1


def test_an_entry_has_signature_fields_and_methods():
    pages = reference()
    assert "whence.explain(\n    model: Any,\n    inputs: Any," in pages["reference/verbs.md"]
    assert "- `truncate`" in pages["reference/verbs.md"]
    assert "| `target` | `str` | `''` | What is explained, in words. |" in pages["reference/results.md"]
    assert "### `.top()`\n\n```python\ntop(n: int = 5) -> list[tuple[str, float]]\n```" in pages["reference/results.md"]
    first = inspect.getdoc(whence.Recipe).splitlines()[0]
    assert first in pages["reference/recipes.md"]


def test_docstrings_become_markdown():
    text = "What.\n\n>>> 1 + 1\n2\n\nMore.\n\nArguments:\n    a, b: numbers\n        that add up.\n    c: another.\n"
    made = as_markdown(text)
    assert "```pycon\n>>> 1 + 1\n2\n```\n\nMore." in made
    assert "Arguments:\n\n- `a`, `b`: numbers that add up.\n- `c`: another.\n" in made


def test_every_command_has_its_options():
    page = commands()
    for name in ("explain", "compare", "run", "serve", "methods"):
        assert f"## `whence {name}`" in page
    assert "| `--method`" in page.split("## `whence explain`")[1].split("## `whence ")[0]
