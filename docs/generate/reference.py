"""The reference: all that `whence`, `whence.viz` and `whence.results` export, from signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, cached_property
from types import FunctionType, MethodType, ModuleType
from typing import Any

import whence
from whence import results, viz
from whence.registry import Registry

__all__ = ["PAGES", "as_markdown", "reference"]

PAGES = {
    "verbs": ("What you type", "whence.explain and its kin: a model and inputs in, a result out."),
    "data_sets": ("Data sets", "Runs over files and tables."),
    "targets": ("Targets", "What is explained. `target=` of `whence.explain` takes them, and names of classes."),
    "results": ("Results", "What comes of it. Results are frozen; they show, save and load themselves."),
    "recipes": ("Recipes and methods", "How it is computed, and how to say it in other words."),
    "figures": ("Figures", "`whence.viz`: a result in, a `Figure` out."),
}
PLACES = [
    ("whence.runner", "data_sets"),
    ("whence.verbs", "verbs"),
    ("whence.models.loading", "verbs"),
    ("whence.models", "targets"),
    ("whence.results", "results"),
    ("whence.viz", "figures"),
]
"""Where a thing was defined, and the page that has it; the rest is with the recipes."""
KINDS = (FunctionType, MethodType, property, cached_property)
DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
ARGUMENTS = re.compile(r"^Arguments:\n(?P<body>(?:    .*\n?|\n)+)", re.MULTILINE)
ARGUMENT = re.compile(r"^(?P<names>[\w, *]+): (?P<text>.*)$", re.DOTALL)


def reference() -> dict[str, str]:
    """`reference/NAME.md` for each page."""
    found: dict[str, list[str]] = {page: [] for page in PAGES}
    seen: list[Any] = []
    for module in (whence, viz, results):
        for name in sorted(module.__all__, key=str.lower):
            thing = getattr(module, name)
            if not isinstance(thing, ModuleType | str) and not any(thing is other for other in seen):
                seen.append(thing)
                found[_page_of(thing)] += _entry(f"{module.__name__}.{name}", thing)
    return {
        f"reference/{page}.md": "\n".join([f"# {title}", "", about, "", *found[page]])
        for page, (title, about) in PAGES.items()
    }


def _page_of(thing: Any) -> str:
    where = "whence.core" if isinstance(thing, Registry) else thing.__module__
    return next((page for prefix, page in PLACES if where.startswith(prefix)), "recipes")


def _entry(name: str, thing: Any) -> list[str]:
    if isinstance(thing, Registry):
        known = ", ".join(f"`{n}`" for n in thing)
        return [
            f"## `{name}`",
            "",
            f"A table of names: `{name.partition('.')[2]}[…]`, `.add(name, …)`. Known: {known}.",
            "",
        ]
    lines = [f"## `{name}`", "", *_signature(name, thing), as_markdown(inspect.getdoc(thing) or ""), ""]
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        lines += [*_fields(thing), *_methods(thing)]
    return lines


def _signature(name: str, thing: Any) -> list[str]:
    if inspect.isclass(thing) and (not is_dataclass(thing) or len(fields(thing)) > 8):
        return []  # its fields are listed below, and nobody builds it by hand
    return ["```python", _written(name, inspect.signature(thing)), "```", ""]


def _written(name: str, signature: inspect.Signature) -> str:
    """On one line if it fits, else an argument to a line."""
    inner: list[str] = []
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and "*" not in inner and not any(i.startswith("*") for i in inner):
            inner.append("*")
        if p.name not in ("self", "cls"):
            inner.append(_argument(p))
    back = signature.return_annotation
    end = ")" if back is inspect.Signature.empty else f") -> {_annotation(back)}"
    line = f"{name}({', '.join(inner)}{end}"
    return line if len(line) <= 90 else "\n".join([f"{name}(", *(f"    {i}," for i in inner), end])


def _argument(p: inspect.Parameter) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    annotated = "" if p.annotation is p.empty else f": {_annotation(p.annotation)}"
    default = "" if p.default is p.empty else f" = {p.default!r}"
    return f"{star}{p.name}{annotated}{default}"


def _annotation(what: Any) -> str:
    return what if isinstance(what, str) else getattr(what, "__name__", str(what))


def _fields(made: type) -> list[str]:
    if not is_dataclass(made):
        return []
    documents = _documents(made)
    rows = []
    for f in fields(made):
        if f.name.startswith("_"):
            continue
        default = "" if f.default is MISSING else f"`{f.default!r}`"
        about = " ".join(documents.get(f.name, "").split()).replace("|", "\\|")
        rows.append(f"| `{f.name}` | `{str(f.type).replace('|', chr(92) + '|')}` | {default} | {about} |")
    return ["| field | type | default | |", "|---|---|---|---|", *rows, ""] if rows else []


@cache
def _documents(made: type) -> dict[str, str]:
    """The strings under fields, those of parents too."""
    found: dict[str, str] = {}
    for cls in reversed(made.__mro__):
        if cls.__module__.startswith("whence"):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
            assert isinstance(tree, ast.ClassDef)
            for field, below in zip(tree.body, tree.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = text
    return found


def _methods(made: type) -> list[str]:
    lines = []
    for name, thing in _members(made):
        about = as_markdown(inspect.getdoc(thing) or "")
        if isinstance(thing, property | cached_property):
            lines += [f"### `.{name}`", "", about, ""]
        else:
            lines += [f"### `.{name}()`", "", *_signature(name, thing), about, ""]
    return lines


def _members(made: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, in the order of the source, parents last; only what says what it is."""
    seen: set[str] = set()
    for cls in made.__mro__:
        if not cls.__module__.startswith("whence"):
            continue
        for name, value in vars(cls).items():
            thing = getattr(made, name) if isinstance(value, classmethod | staticmethod) else value
            public = not name.startswith("_") and name not in seen
            if public and isinstance(thing, KINDS) and inspect.getdoc(thing):
                seen.add(name)
                yield name, thing


def as_markdown(text: str) -> str:
    """A docstring: examples become code, arguments a list."""
    text = DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```", text)
    return ARGUMENTS.sub(_arguments, text)


def _arguments(found: re.Match[str]) -> str:
    items: list[str] = []
    for line in textwrap.dedent(found["body"]).splitlines():
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        elif line.strip():
            items.append(line.strip())
    made = []
    for item in items:
        parts = ARGUMENT.match(item)
        names = ", ".join(f"`{n.strip()}`" for n in parts["names"].split(",")) if parts else ""
        made.append(f"- {names}: {parts['text']}" if parts else f"- {item}")
    return "Arguments:\n\n" + "\n".join(made) + "\n"
