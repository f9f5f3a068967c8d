"""Imports point downward, the import is light, and `__all__` is true."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import whence

ROOT = Path(whence.__file__).parent
# Lowest first. Layers on one line never import each other.
LAYERS = [
    {"errors", "cancel", "stamp"},
    {"progress", "extras", "files"},
    {"registry", "options"},
    {"data"},
    {"core", "results"},
    {"models"},
    {"methods", "concepts", "diagnostics", "evaluation", "viz"},
    {"verbs"},
    {"runner"},
    {"web"},
    {"cli", "__init__"},
    {"__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MODULES = sorted(ROOT.rglob("*.py"))
LAZY = {"cli"}
"""The command imports what it needs when it is needed: `whence --help` should not load torch."""


def _layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> list[tuple[str, bool]]:
    """Modules of ours that a file imports, and whether it does so inside a function.

    `from whence import models` and `from whence.core import trail` name modules too; `from whence import load` does not.
    """
    inside = {
        id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(f)
    }
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            home = [] if node.module == "whence" else [node.module]
            names = [*home, *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        found += [(name, id(node) in inside) for name in names if name.split(".")[0] == "whence"]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downward(path):
    here = _layer(path)
    for name, hidden in imported(ast.parse(path.read_text())):
        parts = name.split(".")
        other = parts[1] if len(parts) > 1 else "__init__"
        if other not in RANK:
            other = "__init__"  # a name of the package itself
        assert other == here or RANK[other] < RANK[here] or here in LAZY, f"{here} imports {name}"
        assert not hidden or here in LAZY, f"{path.name} hides its import of {name} in a function"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("from whence import verbs", ["whence.verbs"]),
        ("from whence.core import trail", ["whence.core", "whence.core.trail"]),
        ("import whence.web", ["whence.web"]),
        ("def f():\n    import whence", ["whence"]),
        ("from numpy import array", []),
    ],
)
def test_every_way_to_import_is_seen(code, names):
    assert [name for name, _ in imported(ast.parse(code))] == names


def test_no_two_files_or_classes_share_a_name():
    files = [p.name for p in MODULES if p.name not in ("__init__.py", "__main__.py")]
    assert not [name for name, count in Counter(files).items() if count > 1]
    classes = [n.name for p in MODULES for n in ast.parse(p.read_text()).body if isinstance(n, ast.ClassDef)]
    assert not [name for name, count in Counter(classes).items() if count > 1]


def test_viz_sees_results_alone():
    for path in (ROOT / "viz").glob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("from whence", "import whence")):
                assert line == "from whence import cancel" or line.split()[1].startswith(
                    ("whence.results", "whence.viz", "whence.errors", "whence.extras", "whence.registry")
                ), line


def test_import_is_light():
    code = "import sys, whence; print([m for m in ('matplotlib', 'ray', 'pyarrow', 'datasets', 'shap', 'fastapi', 'scipy', 'sklearn', 'PIL') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_all_is_true():
    for info in pkgutil.walk_packages(whence.__path__, "whence."):
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"{info.name}.__all__ names {name}"


def test_no_code_names_a_model_class():
    """The engine knows torch functions, never architectures."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    families = {n.replace("-", "_") for n in CONFIG_MAPPING_NAMES} - {"clip"}  # torch.clip is a function
    for path in (ROOT / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 40:
                assert node.value.lower() not in families, f"{path.name}: {node.value}"


def test_the_vocabulary_names_what_exists():
    page = (Path(__file__).parents[2] / "docs" / "vocabulary.md").read_text(encoding="utf-8")
    named = {name for row in page.splitlines() if row.startswith("| **") for name in _places(row)}
    assert len(named) > 25
    for name in named:
        assert _exists(name), name


def _places(row: str) -> list[str]:
    cell = row.rsplit("|", 2)[1]
    return [name.strip(" `").removeprefix("whence.") for name in cell.split(",") if name.strip()]


def _exists(name: str) -> bool:
    module, _, attribute = f"whence.{name}".rpartition(".")
    if name.split(".")[0][0].isupper():  # Explanation.stamp
        module, attribute = "whence.results", name.split(".")[0]
    try:
        return hasattr(importlib.import_module(module), attribute) or bool(importlib.import_module(f"whence.{name}"))
    except ModuleNotFoundError:
        return False
