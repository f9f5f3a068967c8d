"""`python -m docs.generate FOLDER`: FOLDER/docs with every page, FOLDER/zensical.toml to build them by."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

from docs.generate import gallery, method_pages, notebooks
from docs.generate.chooser import chooser
from docs.generate.commands import commands
from docs.generate.errors import errors
from docs.generate.front import figures
from docs.generate.navigation import NAVIGATION, check, toml
from docs.generate.reference import reference
from docs.generate.written import ROOT, assets, dressed, written

FILLED: dict[str, Callable[[], str]] = {"figures of merit": figures, "errors": errors}
"""Places in written pages, `<!-- NAME -->`, and what stands there on the site."""


def assemble(folder: Path) -> None:
    """All pages, files and the configuration. A page that no menu names, or that a menu misses, is an error."""
    docs = folder / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    for name, file in assets().items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, docs / name)
    pages = written({name: make() for name, make in FILLED.items()})
    pages |= {"chooser.md": chooser(), "gallery.md": gallery.gallery(), "reference/commands.md": commands()}
    pages |= method_pages.method_pages() | reference() | notebooks.notebook_pages(docs / "notebooks")
    check(NAVIGATION, set(pages))
    for name, text in pages.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(dressed(text), encoding="utf-8")
    method_pages.pictures(docs / "methods" / "pictures")
    gallery.draw(docs / "gallery")
    gallery.reports(docs / "gallery")
    for name in notebooks.NOTEBOOKS:
        shutil.copyfile(notebooks.FOLDER / f"{name}.ipynb", docs / "notebooks" / f"{name}.ipynb")
    listed = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    (docs / "llms.txt").write_text(listed.replace(".md)", ".html)"), encoding="utf-8")  # as the site has them
    settings = (ROOT / "docs" / "site.toml").read_text(encoding="utf-8")
    (folder / "zensical.toml").write_text(settings.replace("[project]\n", f"[project]\n{toml(NAVIGATION)}\n", 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where pages and settings go; its docs/ is made anew")
    assemble(parser.parse_args().folder.resolve())


if __name__ == "__main__":
    main()
