"""The gallery: every figure of examples/figures.py with the code that draws it, and reports to click through."""

from __future__ import annotations

import ast
import runpy
import shutil
import textwrap
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import whence
from docs.generate.written import ROOT

__all__ = ["draw", "gallery", "reports", "shown"]

SCRIPT = ROOT / "examples" / "figures.py"
REPORTS = {
    "explanation": 'whence.explain("sentiment", "a gorgeous, witty, seductive movie that never outstays its welcome")',
    "comparison": 'whence.compare("sentiment", "not a good movie, but the actors are wonderful", '
    '["lrp", "gi", "gae", "rollout"], target="all")',
    "attention": 'whence.attention("sentiment", "not a good movie, but the actors are wonderful")',
    "inside": 'whence.explain("sentiment", "a dull film with a superb cast", at=["layers", "heads"])',
    "evaluation": 'whence.evaluate("sentiment", [("a superb film", 1), ("dull and far too long", 0)], '
    '["lrp", "gi", "random"], progress=False)',
    "sound": 'whence.explain("tones", "rising.wav")',
    "question": 'whence.explain("shapes", {"image": "shapes.png", "text": "which shape is the one in purple"})',
}
"""Reports by name, and the code they are of: `.save("NAME.html")` makes the page."""
LARGER = {
    "trace.png": (
        "language_models.md",
        "What was written, and where it came from",
        "whence.explain(llm, chat, generate=30)",
    ),
    "cited.png": ("guides/citations.md", "An answer with its sources", "whence.cite(llm, question, documents)"),
    "graph.png": ("graphs.md", "From token to token, through heads", "whence.graph(llm, prompt)"),
    "pair.png": ("similarity.md", "Why two texts are similar", "whence.similarity(embedder, a, b)"),
}
"""Pictures of docs/figures that need larger models: `docs/screenshots.py` draws them."""


def shown() -> Iterator[tuple[str, str]]:
    """Name and code of each figure, with the lines that it needs and no figure before has shown."""
    source = SCRIPT.read_text(encoding="utf-8")
    tree = ast.parse(source)
    body = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "figures").body
    above = dict(filter(None, map(_named, tree.body)))
    waiting: list[ast.stmt] = []
    given: set[str] = set()
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Yield(value=ast.Tuple(elts=[ast.Constant(value=str(name)), figure]))):
                used = {n.id for s in (*waiting, figure) for n in ast.walk(s) if isinstance(n, ast.Name)}
                needed = [above[n] for n in above if n in used and n not in given]
                given |= used
                code = [*(_code(source, s) for s in (*needed, *waiting)), f'{_code(source, figure)}.save("{name}.svg")']
                yield name, "\n".join(code)
                waiting = []
            case ast.Expr(value=ast.Constant()):  # the docstring
                pass
            case _:
                waiting.append(statement)


def _named(statement: ast.stmt) -> tuple[str, ast.stmt] | None:
    """What a figure may need from above: a constant or a function."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name, statement
        case ast.FunctionDef(name=name) if name not in ("figures", "main"):
            return name, statement
    return None


def _code(source: str, node: ast.AST) -> str:
    """As it is written, moved to the left."""
    if getattr(node, "col_offset", 0) == 0:
        return ast.get_source_segment(source, node) or ""
    text = ast.get_source_segment(source, node, padded=True) or ""
    first, _, rest = text.partition("\n")
    return textwrap.dedent(text) if first.startswith(" ") else "\n".join([first, textwrap.dedent(rest)]).rstrip("\n")


def draw(folder: Path) -> None:
    """All figures as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in runpy.run_path(str(SCRIPT))["figures"]():
        figure.save(folder / f"{name}.svg")


def reports(folder: Path) -> None:
    """All reports as pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("rising.wav", "shapes.png"):
        shutil.copyfile(ROOT / "examples" / name, folder / name)
    with chdir(folder):
        for name, code in REPORTS.items():
            eval(code, {"whence": whence}).save(f"{name}.html")


def gallery() -> str:
    """The page."""
    lines = [
        "# Gallery",
        "",
        "Every figure with its code, in one session: what one line defines, the next may use. They are drawn when the",
        "site is built, by `python examples/figures.py FOLDER`; options are in [figures](figures.md).",
        "",
        "```python",
        "from PIL import Image, ImageDraw",
        "",
        "import whence",
        "from whence import viz",
        "```",
        "",
    ]
    for name, code in shown():
        lines += [f"## {name.capitalize()}", "", f"![{name}](gallery/{name}.svg)", "", f"```python\n{code}\n```", ""]
    lines += ["## Reports", "", "Pages that need no server and no network: open them, click, hover.", ""]
    for name, code in REPORTS.items():
        wrapped = "\n".join(textwrap.wrap(code, 100, break_on_hyphens=False)) if len(code) > 100 else code
        lines += [f"### [{name.capitalize()}](gallery/{name}.html)", ""]
        lines += [f'```python\n{wrapped}.save("{name}.html")\n```', ""]
    lines += [
        "## With larger models",
        "",
        "Drawn by `docs/screenshots.py`, with models that do not come with whence.",
        "",
    ]
    for picture, (page, title, code) in LARGER.items():
        lines += [f"### [{title}]({page})", "", f"![{title}](figures/{picture})", ""]
        lines += [f'```python\n{code}.save("page.html")\n```', ""]
    return "\n".join(lines)
