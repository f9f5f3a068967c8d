"""Tables that are read and taken away: the same cells in every form, numbers with a true minus, nothing obeyed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.viz import made
from whence.results.showing import draw, formats
from whence.viz.tabular import Grid, latex, markdown, minus, notebook, sortable

GRID = Grid.of(
    "Values",
    ("method", "auac ↑"),
    [("lrp_<b>", "0.9 [-0.1, 1.0] *"), ("a|b", "-2e-05")],
    strong=frozenset({(0, 1)}),
    notes=("50 % of it",),
)


def test_only_negative_numbers_have_a_minus():
    assert minus("leave-one-out -0.5, -.5 x-1 1e-05 (-3)") == "leave-one-out −0.5, −.5 x-1 1e-05 (−3)"


def test_markdown_is_aligned_and_bars_are_escaped():
    assert markdown(GRID) == (
        "| method  |                auac ↑ |\n"
        "| ------- | --------------------: |\n"
        "| lrp_<b> | **0.9 [−0.1, 1.0] *** |\n"
        "| a\\|b    |                −2e-05 |\n"
        "\n50 % of it\n"
    )


def test_latex_has_rules_sides_and_escapes():
    made_of = latex(GRID)
    assert r"\begin{tabular}{lr}" in made_of
    assert r"method" in made_of.split(r"\midrule")[0]
    assert r"lrp\_\textless{}b\textgreater{} & \textbf{0.9 [$-$0.1, 1.0]}\rlap{\,*} \\" in made_of
    assert r"{\footnotesize 50 \% of it}" in made_of
    lines = made_of.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len({line.index("&") for line in lines}) == 1, "columns are aligned in the source"


def test_a_bracket_that_begins_a_row_is_no_length():
    assert r"{}[SEP]" in latex(Grid.of("x", ("token",), [("a",), ("[SEP]",), ("*",)]))
    assert r"{}* " in latex(Grid.of("x", ("token",), [("a",), ("*",)]))


def test_html_escapes_and_says_which_columns_are_numbers():
    page = sortable(GRID, 3)
    assert "lrp_&lt;b&gt;" in page
    assert 'data-copies="3"' in page
    assert page.count('class="w-right"') == 3
    assert "<b>0.9 [−0.1, 1.0] *</b>" in page
    assert "lrp_&lt;b&gt;" in notebook(GRID)


@pytest.mark.parametrize(
    "name", ["evaluation", "tcav", "citations", "audit", "tuning", "diagnosis", "patching", "pair"]
)
def test_results_with_numbers_are_tables_for_papers(name):
    tex = draw(made.every()[name], "tex")
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") >= 1
    assert "<b>" not in tex


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_every_table_compiles(tmp_path):
    body = []
    for n, result in enumerate(made.every().values()):
        if ".tex" in formats(result):
            (tmp_path / f"part{n}.tex").write_text(draw(result, "tex"), encoding="utf-8")
            body.append(rf"\input{{part{n}}}\par")
    (tmp_path / "marks.tex").write_text(latex(Grid.of("x", ("token",), [("a",), ("[SEP]",), ("*",)])))
    body.append(r"\input{marks}\par")
    packages = r"\usepackage[T1]{fontenc}\usepackage{xcolor}\usepackage{booktabs}"
    whole = rf"\documentclass{{article}}{packages}\begin{{document}}{chr(10).join(body)}\end{{document}}"
    (tmp_path / "all.tex").write_text(whole)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-1500:]
