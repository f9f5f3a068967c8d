"""LaTeX: every special character is shown, none is obeyed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.viz import made
from whence.results import Comparison
from whence.results.showing import draw
from whence.viz.latex import escaped

NASTY = r"""\ { } $ & # % _ ^ ~ < > | " ' ` -- --- \input{x} %comment \end{document}"""


def test_special_characters_by_hand():
    assert escaped("50%_{x}") == r"50\%\_\{x\}"
    assert escaped("\\input") == r"\textbackslash{}input"
    assert escaped("--") == "-{}-{}"


@pytest.mark.parametrize("char", list("\\{}$&#%_^~"))
def test_no_special_character_is_left_bare(char):
    bare = re.sub(r"\\[a-zA-Z]+\{\}|\\.", "", escaped(char))
    assert char not in bare


def test_boxes_have_the_colours_of_the_scores():
    tex = draw(made.explanation("good dull so", [2.0, -2.0, 0.0]), "tex")
    assert r"\colorbox[RGB]{230,97,1}{\strut{}\hspace{1pt}good\hspace{1pt}}" in tex
    assert r"\colorbox[RGB]{33,102,172}{\strut{}\textcolor{white}{\hspace{1pt}dull\hspace{1pt}}}" in tex
    assert not re.search(r"colorbox[^\n]*so", tex), "zero is white: no box"


def test_tokens_of_a_word_have_no_space_between_them():
    assert "ge\\hspace" not in draw(made.explanation("gems", [1.0, 1.0], cut=2), "tex")
    assert "}%\n\\colorbox" in draw(made.explanation("gems", [1.0, 1.0], cut=2), "tex")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_it_compiles(tmp_path):
    (tmp_path / "one.tex").write_text(draw(made.explanation(NASTY), "tex"))
    (tmp_path / "two.tex").write_text(draw(Comparison((made.explanation(NASTY), made.explanation(NASTY))), "tex"))
    (tmp_path / "three.tex").write_text(draw(made.image(), "tex"))
    body = r"\input{one}\input{two}\input{three}"
    packages = r"\usepackage[T1]{fontenc}\usepackage{xcolor}"
    (tmp_path / "all.tex").write_text(rf"\documentclass{{article}}{packages}\begin{{document}}{body}\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-800:]
