"""The gallery shows the code of examples/figures.py, whole and in order."""

from __future__ import annotations

import ast

from docs.generate.gallery import REPORTS, SCRIPT, gallery, reports, shown


def test_all_figures_are_shown_with_code_that_stands_alone():
    yielded = [n.value.elts[0].value for n in ast.walk(ast.parse(SCRIPT.read_text())) if isinstance(n, ast.Yield)]
    found = list(shown())
    assert [name for name, _ in found] == yielded
    code = "\n".join(code for _, code in found)
    tree = ast.parse(code)
    made = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    made |= {n.name for n in tree.body if isinstance(n, ast.FunctionDef)} | {"whence", "viz", "Image", "ImageDraw"}
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    assert used <= made


def test_reports_are_made_and_linked(tmp_path):
    reports(tmp_path)
    page = gallery()
    for name in REPORTS:
        assert "<html" in (tmp_path / f"{name}.html").read_text(encoding="utf-8")[:500]
        assert f"(gallery/{name}.html)" in page
