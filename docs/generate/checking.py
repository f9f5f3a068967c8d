"""`python -m docs.generate.checking build/site`: a built site holds what it links to, and loads nothing else.

The builder checks links between pages; this looks at what came of it: pictures, files, anchors, scripts.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["faults"]

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
"""What a browser fetches without being asked."""


class Page(HTMLParser):
    """The names that a page has, and the addresses that it mentions."""

    def __init__(self, text: str):
        super().__init__()
        self.names: set[str] = set()
        self.links: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.names.add(value)
            elif key in ("src", "href") and value is not None:
                self.links.append((f"{tag} {key}", value))


def faults(site: Path) -> list[str]:
    """Every dead link, and everything that is loaded from another host."""
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        for what, link in page.links:
            wrong = _wrong(site, file, what, link, pages)
            if wrong and file.name != "404.html":  # its links begin at the root, wherever that will be
                found.append(f"{file.relative_to(site)}: {wrong}: {link}")
    return found


def _wrong(site: Path, file: Path, what: str, link: str, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        tag, _, key = what.partition(" ")
        return "loaded from elsewhere" if (tag, key) in LOADED else None
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return "no such file"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names | {"__top"}:
        return "no such place"
    return None


def main() -> None:
    found = faults(Path(sys.argv[1]).resolve())
    if found:
        raise SystemExit("\n".join(found))
    print("no dead link, nothing loaded from elsewhere")


if __name__ == "__main__":
    main()
