"""A table of named things, filled by decorators, that answers a wrong name with the right one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Generic, TypeVar

from whence.errors import InputError, UnknownNameError

__all__ = ["Registry", "load_all"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to things of one kind.

    >>> shapes = Registry("shape")
    >>> shapes.add("circle", 1)
    1
    >>> shapes["circle"]
    1
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._items: dict[str, T] = {}
        self._mirrors: list[tuple[Registry[object], Callable[[str], object]]] = []

    def add(self, name: str, item: T, *, replace: bool = False) -> T:
        if name in self._items and not replace:
            raise InputError(f"{self.kind} {name!r} is registered already; pass replace=True to replace it")
        for mirror, make in self._mirrors:
            mirror.add(name, make(name), replace=replace)
        self._items[name] = item
        return item

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator form of `add`."""
        return lambda item: self.add(name, item)

    def remove(self, name: str) -> None:
        self._items.pop(name, None)
        for mirror, _ in self._mirrors:
            mirror.remove(name)

    def mirrored(self, mirror: Registry[object], make: Callable[[str], object]) -> None:
        """Whatever is here, now and later, is also in `mirror`: what `make` makes of its name."""
        for name in self._items:
            mirror.add(name, make(name))
        self._mirrors.append((mirror, make))

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[name]
        except (KeyError, TypeError):
            raise UnknownNameError(self.kind, name, self._items) from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[tuple[str, T]]:
        return list(self._items.items())


def load_all(package: str, path: list[str]) -> list[ModuleType]:
    """Import every module of a package, and so register what they hold: a new file is all that a new thing needs."""
    return [importlib.import_module(f"{package}.{found.name}") for found in pkgutil.iter_modules(path)]
