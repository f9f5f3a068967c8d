"""What every question is: frozen options, a check before long work, an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from whence.diagnostics.subject import Subject
from whence.options import Options
from whence.registry import Registry
from whence.results.diagnosis import Section

__all__ = ["AbstractQuestion", "questions"]


@dataclass(frozen=True, kw_only=True)
class AbstractQuestion(Options, ABC):
    """One question about the attention of a model. Defaults are the constants of its paper."""

    title: ClassVar[str]

    def check(self, subject: Subject) -> None:
        """Raise what can be known to fail, before anything long is begun."""

    @abstractmethod
    def ask(self, subject: Subject, *, progress: bool | None = None) -> Section:
        """The answer."""


questions: Registry[Callable[..., AbstractQuestion]] = Registry("section")
"""Name to question. `whence.diagnose(sections=…)` takes the names."""
