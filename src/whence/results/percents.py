"""Shares as people read them."""

from __future__ import annotations

__all__ = ["percent"]


def percent(share: float, digits: int | None = None) -> str:
    """A share in percent, which no line break takes from its number; without `digits`, with as many as it takes not to
    show a 100 % or 0 % that is none.

    >>> [percent(share).replace("\\xa0", " ") for share in (0.824, 0.9996, 0.0002, 1.0)]
    ['82 %', '99.96 %', '0.02 %', '100 %']
    >>> percent(0.9996, 1)
    '100.0\\xa0%'
    """
    if digits is not None:
        return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"
    for least in range(5):
        text = f"{100 * share:.{least}f}"
        if 0.0 < float(text) < 100.0 or share in (0.0, 1.0):
            return f"{text}\N{NO-BREAK SPACE}%"
    return f"more than {percent(0.9999)}" if share > 0.5 else f"less than {percent(0.0001)}"
