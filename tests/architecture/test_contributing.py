"""CONTRIBUTING.md is run as it stands: each of its files is added to a copy of the package, and does what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import whence

ROOT = Path(whence.__file__).parent
PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# src/(whence/\S+\.py)\n")


def sections() -> dict[str, list[str]]:
    """The code under each heading that has some."""
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {part.splitlines()[0]: BLOCK.findall(part) for part in parts}
    return {heading: blocks for heading, blocks in found.items() if blocks}


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the package with every file of the page in it. Models are linked: they are large."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT, folder / "whence", ignore=shutil.ignore_patterns("__pycache__", "bundled"))
    (folder / "whence" / "bundled").symlink_to(ROOT / "bundled")
    for blocks in sections().values():
        path, code = _file(blocks)
        with (folder / path).open("a", encoding="utf-8") as file:  # a new file, or the end of one
            file.write(code)
    return folder


def _file(blocks: list[str]) -> tuple[str, str]:
    (made,) = (b for b in blocks if FILE.match(b))
    return FILE.match(made).group(1), FILE.sub("", made, count=1)


def test_the_page_shows_one_file_for_everything():
    assert list(sections()) == [f"A new {what}" for what in ("recipe", "rule", "method", "metric", "figure")]
    for blocks in sections().values():
        assert len(blocks) == 2
        path, _ = _file(blocks)
        assert path == "whence/core/recipe.py" or not (ROOT.parent / path).exists()


def test_every_section_does_what_it_says(tree, tmp_path):
    uses = [next(b for b in blocks if not FILE.match(b)) for blocks in sections().values()]
    script = "import torch\nimport whence\n" + "".join(uses) + "print('calm' in whence.methods, whence.__file__)\n"
    environment = {**os.environ, "PYTHONPATH": str(tree), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["True", str(tree / "whence" / "__init__.py")]
    assert "<svg" in (tmp_path / "strip.svg").read_text()
