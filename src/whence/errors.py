"""Every error whence raises on purpose.

WhenceError
├── InputError              what was passed in can't be explained as it is
│   ├── EmptyInputError
│   ├── InputTooLongError
│   └── OptionError         an option that does not exist, or a value that it does not take
├── UnknownNameError        a method, recipe, label, … that does not exist; carries suggestions
├── ModelError              the model can't be loaded or explained
│   ├── ModelNotFoundError
│   └── NumericsError       NaN weights, overflow in half precision
└── MissingExtraError       an optional dependency is not installed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "EmptyInputError",
    "InputError",
    "InputTooLongError",
    "MissingExtraError",
    "ModelError",
    "ModelNotFoundError",
    "NumericsError",
    "OptionError",
    "UnknownNameError",
    "WhenceError",
    "nearest",
]


def nearest(name: object, known: Iterable[str]) -> str:
    """ " Did you mean 'that'?" where one of the known names is close; nothing where none is."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


class WhenceError(Exception):
    """Base of all errors raised on purpose by whence."""

    def of_input(self, n: int) -> WhenceError:
        """The same error, saying which input of a list it is about."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.args = (f"input {n}: {self}",)
        return made


class InputError(WhenceError, ValueError):
    """The input can't be explained as it is."""


class EmptyInputError(InputError):
    """Nothing to explain."""


class InputTooLongError(InputError):
    """The input has more tokens than the model can take."""


class OptionError(InputError):
    """An option that does not exist, or a value that it does not take."""


class UnknownNameError(WhenceError, KeyError):
    """A name that is not registered. Says which names are, and which one was probably meant."""

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        self.kind, self.name, self.known = kind, name, sorted(known)
        super().__init__(f"unknown {kind} {name!r}.{nearest(name, self.known)} Known: {', '.join(self.known)}")

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class ModelError(WhenceError, RuntimeError):
    """The model can't be loaded or explained."""


class ModelNotFoundError(ModelError):
    """No such model on this machine, and none could be fetched."""


class NumericsError(ModelError):
    """Weights or results are not finite."""


class MissingExtraError(WhenceError, ImportError):
    """An optional dependency is needed. The message holds the exact command to install it."""

    def __init__(self, package: str, extra: str, purpose: str):
        wanted = f"'whence-xai[{extra}]'" if extra else package
        super().__init__(f"{purpose} needs {package}, which is not installed. Type: pip install {wanted}")
