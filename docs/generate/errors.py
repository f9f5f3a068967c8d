"""Errors that people meet, as they are raised: the code is run, and the message is what it said."""

from __future__ import annotations

from dataclasses import dataclass

import whence

__all__ = ["TROUBLES", "Trouble", "errors", "message"]


MODULE = "module = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(8, 2))"
QUESTION = 'question = {"image": numpy.zeros((32, 32, 3), dtype="uint8"), "text": "which shape"}'


@dataclass(frozen=True)
class Trouble:
    """Code that fails, what is behind it, and what to type instead."""

    title: str
    code: str
    why: str
    instead: str


TROUBLES = [
    Trouble(
        "No such model, or no network",
        'whence.explain("org/no-such-model", "a gem")',
        "The name is neither bundled nor a folder nor on the hub, or the hub can't be reached. A model that was "
        "fetched before is found without a network.",
        'whence.explain("sentiment", "a gem")',
    ),
    Trouble(
        "A misspelled method",
        'whence.explain("sentiment", "a gem", method="rolout")',
        "`whence methods` lists all of them; each has [a page](methods/lrp.md).",
        'whence.explain("sentiment", "a gem", method="rollout")',
    ),
    Trouble(
        "An option that a method does not have",
        'whence.explain("sentiment", "a gem", method="rollout", steps=3)',
        "Options belong to a method: its page lists them. One that nobody would read is refused: a typing error "
        "is never passed over.",
        'whence.explain("sentiment", "a gem", method="integrated_gradients", steps=8)',
    ),
    Trouble(
        "A class that does not exist",
        'whence.explain("sentiment", "a gem", target="happy")',
        "Targets are the model's own labels; `whence.classes(model, text)` lists them. Models without names have "
        '`LABEL_0`, …: `whence.load(model, labels=["bad", "good"])` names them.',
        'whence.explain("sentiment", "a gem", target="positive")',
    ),
    Trouble(
        "A text that is too long",
        'whence.explain("sentiment", "a very good film " * 200)',
        "Cutting it in silence would explain another text. `truncate=True` says that you want the first part.",
        'whence.explain("sentiment", "a very good film " * 200, truncate=True)',
    ),
    Trouble(
        "An empty text",
        'whence.explain("sentiment", "")',
        'In a table, `on_error="skip"` leaves such rows out and names them.',
        'whence.explain("sentiment", ["a gem", ""], on_error="skip")',
    ),
    Trouble(
        "A model in training mode",
        f'{MODULE}\nwhence.explain(module, {{"input": torch.tensor([[3, 1]])}}, target=1)',
        "Dropout would make every run another one.",
        'whence.explain(module.eval(), {"input": torch.tensor([[3, 1]])}, target=1)',
    ),
    Trouble(
        "A plain module and no tokenizer",
        f'{MODULE}\nwhence.explain(module.eval(), "a gem")',
        "A module knows ids, not words. Pass tensors, or load it with one: `whence.load((module, tokenizer))`.",
        'whence.explain(module.eval(), {"input": torch.tensor([[3, 1]])}, target=1)',
    ),
    Trouble(
        "A picture that is not there",
        'whence.explain("digits", "three.png")',
        "Paths are relative to where Python runs. Bytes, PIL images and arrays go in as well.",
        'whence.explain("digits", numpy.zeros((28, 28, 3), dtype="uint8"))',
    ),
    Trouble(
        "Attention where there is none over the input",
        f'{QUESTION}\nwhence.explain("shapes", question, method="gae")',
        "Methods that read attention need maps over the features that are explained; in models of pictures with text "
        "the tokens in between are others. Propagation works everywhere.",
        'whence.explain("shapes", question, method="lrp")',
    ),
    Trouble(
        "Generating with a classifier",
        'whence.explain("sentiment", "a gem", generate=5)',
        "Only language models write. `whence.load(…)` says what a model is.",
        'whence.load("sentiment")',
    ),
]


def message(trouble: Trouble) -> str:
    """The kind of error and what it says; a trouble that is none is a mistake of this page."""
    try:
        _run(trouble.code)
    except whence.WhenceError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError(f"{trouble.title!r} raises nothing: {trouble.code}")


def _run(code: str) -> dict[str, object]:
    import numpy
    import torch

    names: dict[str, object] = {"whence": whence, "numpy": numpy, "torch": torch}
    exec(compile(code, "<trouble>", "exec"), names)
    return names


def errors() -> str:
    """The section of the page: title, code, message, why, what to type."""
    lines = []
    for trouble in TROUBLES:
        said = message(trouble)
        lines += [
            f"### {trouble.title}",
            "",
            f"```python\n{trouble.code}\n```",
            "",
            f"```pytb\n{said}\n```",
            "",
            trouble.why,
            "",
            f"```python\n{trouble.instead}\n```",
            "",
        ]
    return "\n".join(lines)
