"""Imports point downward, the import is light, and `__all__` is true."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import whence

ROOT = Path(whence.__file__).parent
# Lowest first. Layers on one line never import each other.
LAYERS = [
    {"errors", "types", "cancel"},
    {"progress"},
    {"registry"},
    {"core", "results"},
    {"models"},
    {"methods", "concepts", "diagnostics", "evaluation", "viz"},
    {"verbs"},
    {"runner"},
    {"web"},
    {"cli", "__init__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MODULES = sorted(ROOT.rglob("*.py"))


def _layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downward(path):
    here = _layer(path)
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            parts = name.split(".")
            if parts[0] != "whence" or len(parts) == 1:
                continue
            other = parts[1]
            assert other == here or RANK[other] < RANK[here], f"{here} imports {name}"


def test_viz_sees_results_alone():
    for path in (ROOT / "viz").glob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("from whence", "import whence")):
                assert line.split()[1].startswith(("whence.results", "whence.viz", "whence.errors")), line


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
