"""`python -m docs.generate FOLDER`: FOLDER/docs with every page, FOLDER/zensical.toml to build them by."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from docs.generate.navigation import NAVIGATION, check, toml
from docs.generate.written import ROOT, assets, written


def assemble(folder: Path) -> None:
    """All pages, files and the configuration. A page that no menu names, or that a menu misses, is an error."""
    pages = written()
    check(NAVIGATION, set(pages))
    docs = folder / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    for name, text in pages.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")
    for name, file in assets().items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, docs / name)
    settings = (ROOT / "docs" / "site.toml").read_text(encoding="utf-8")
    (folder / "zensical.toml").write_text(settings.replace("[project]\n", f"[project]\n{toml(NAVIGATION)}\n", 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where pages and settings go; its docs/ is made anew")
    assemble(parser.parse_args().folder)


if __name__ == "__main__":
    main()
