"""Fonts of this machine for PDF and PNG: which one has a character, and how wide a text becomes."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from whence.errors import MissingExtraError
from whence.results.showing import Font

__all__ = ["family", "measure", "missing", "outline"]

FACES: dict[Font, tuple[str, ...]] = {
    "sans": ("Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "Nimbus Sans", "DejaVu Sans"),
    "serif": ("Times New Roman", "Times", "Liberation Serif", "Nimbus Roman", "STIXGeneral", "DejaVu Serif"),
}
"""The first of these that is installed; matplotlib brings the last ones along."""

PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans CJK",
    "Source Han Sans",
    "PingFang",
    "Hiragino Sans",
    "YaHei",
    "Yu Gothic",
    "Malgun",
    "Noto Sans",
)
PACKAGES = {"CJK": "fonts-noto-cjk", "HIRAGANA": "fonts-noto-cjk", "KATAKANA": "fonts-noto-cjk"}
PACKAGES |= {"HANGUL": "fonts-noto-cjk"}
"""Where letters come from, by a word in their names."""
EMOJI = ((0x2300, 0x23FF), (0x2600, 0x27BF), (0x1F000, 0x1FAFF))
SYMBOLA = ((0x2300, 0x27BF), (0x1F000, 0x1F6F3), (0x1F700, 0x1F918), (0x1F980, 0x1F984), (0x1F9C0, 0x1F9C0))
"""Emoji, and those that a font with outlines has (fonts-symbola, up to those of 2015): colour fonts can't be drawn."""

_found: dict[str, Any] = {}
"""Families that were found for characters the face lacks, in the order of need."""
_missing: set[str] = set()


def manager() -> Any:
    """matplotlib's font manager."""
    try:
        from matplotlib import font_manager
    except ImportError:
        raise MissingExtraError("matplotlib", "viz", "PDF and PNG") from None
    return font_manager


@lru_cache(maxsize=2)
def _face(font: Font) -> str:
    known = {entry.name for entry in manager().fontManager.ttflist}
    return next(face for face in FACES[font] if face in known)


def family(text: str, font: Font = "sans") -> tuple[str, ...]:
    """The font families for a text: the face, then whatever is needed for characters it lacks."""
    face = _face(font)
    if text.isascii():
        return (face,)
    own = _paths((face,), False)[0]
    for char in text:
        if not char.isascii() and char not in _missing and not any(_has(p, char) for p in (own, *_found.values())):
            _look_for(char)
    return (face, *_found)


def missing() -> frozenset[str]:
    """Characters no installed font has, as far as was looked."""
    return frozenset(_missing)


@lru_cache(maxsize=256)
def _paths(families: tuple[str, ...], bold: bool) -> list[Any]:
    fonts = manager()
    weight = "bold" if bold else "normal"
    return [fonts.fontManager.findfont(fonts.FontProperties(family=[name], weight=weight)) for name in families]


@lru_cache(maxsize=65536)
def _has(path: Any, char: str) -> bool:
    if unicodedata.category(char) in ("Cf", "Cc") or 0xFE00 <= ord(char) <= 0xFE0F:  # they have no picture of their own
        return True
    try:
        return bool(manager().get_font(path).get_char_index(ord(char)))
    except (OSError, RuntimeError, ValueError):  # broken and bitmap fonts
        return False


def _look_for(char: str) -> None:
    """Find a font with this character, also one installed after matplotlib made its list."""
    fonts = manager()
    if _take(fonts.fontManager.ttflist, char):
        return
    known = {entry.fname for entry in fonts.fontManager.ttflist}
    for path in sorted(set(fonts.findSystemFonts()) - known):
        try:
            fonts.fontManager.addfont(path)
        except (OSError, RuntimeError):
            continue
    if _take([entry for entry in fonts.fontManager.ttflist if entry.fname not in known], char):
        return
    _missing.add(char)
    name = unicodedata.name(char, "")
    warnings.warn(
        f"no installed font has {char!r} ({name or hex(ord(char))}): it is drawn as a box. {_advice(char, name)}",
        stacklevel=2,
    )


def _advice(char: str, name: str) -> str:
    """What to do about a character that no font has."""
    if _within(char, EMOJI) and not _within(char, SYMBOLA):
        return "Colour emoji can't be drawn in PDF and PNG: save as .svg or .html, which use the reader's fonts"
    scripts = (found for script, found in PACKAGES.items() if script in name)
    package = "fonts-symbola" if _within(char, SYMBOLA) else next(scripts, "fonts-noto-core")
    return f"Install one (on Debian: apt install {package}), or save as .svg or .html, which use the reader's fonts"


def _within(char: str, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(first <= ord(char) <= last for first, last in ranges)


def _take(entries: Iterable[Any], char: str) -> bool:
    """Note the best of these fonts that has the character."""
    fonts = manager()
    for entry in sorted(entries, key=_rank):
        path = fonts.FontPath(entry.fname, entry.index)
        # the font of last resort has a picture of every block and a letter of none
        if "Last Resort" not in entry.name and _has(path, char):
            _found[entry.name] = path
            return True
    return False


def _rank(entry: Any) -> tuple[int, int, str]:
    first = next((n for n, name in enumerate(PREFERRED) if name in entry.name), len(PREFERRED))
    plain = entry.style == "normal" and str(entry.weight) in ("400", "normal", "regular")
    return first, 0 if plain and "Mono" not in entry.name else 1, entry.name


@lru_cache(maxsize=65536)
def _em(text: str, families: tuple[str, ...], bold: bool) -> float:
    """Width at a size of one: the ink between two bars, less that of the bars, since ink alone has no side bearings."""
    from matplotlib.ft2font import LoadFlags

    font = manager().get_font(_paths(families, bold))
    font.set_size(100, 72)

    def ink(shown: str) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `family` has said which glyphs are missing
            font.set_text(shown, 0.0, flags=LoadFlags.NO_HINTING)
        return float(font.get_width_height()[0] / 6400)

    return ink(f"|{text}|") - ink("||")


def outline(text: str, size: float, bold: bool, font: Font = "sans") -> list[tuple[str, tuple[float, ...]]]:
    """The letters as paths: commands of SVG with their numbers, from the left end of the baseline, y downward."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    properties = FontProperties(family=list(family(text, font)), weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `family` has said which glyphs are missing
        path = TextPath((0, 0), text, size=size, prop=properties)
    made = []
    for points, code in path.iter_segments(simplify=False, curves=True):
        flipped = tuple(float(-v if n % 2 else v) for n, v in enumerate(points))
        made.append((_COMMANDS[int(code)], flipped if int(code) != CLOSE else ()))
    return made


CLOSE = 79
_COMMANDS = {1: "M", 2: "L", 3: "Q", 4: "C", CLOSE: "Z"}
"""matplotlib's codes of paths, as SVG spells them."""


@lru_cache(maxsize=65536)
def measure(text: str, size: float = 12.0, bold: bool = False, font: Font = "sans") -> float:
    """Width in pixels, shaped as it will be drawn."""
    families = family(text, font)
    if text.isascii():
        return sum(_em(char, families, bold) for char in text) * size
    return _em(text, families, bold) * size
