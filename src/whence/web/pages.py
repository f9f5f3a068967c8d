"""Files of the page, read from the package."""

from __future__ import annotations

from importlib import resources

from fastapi import APIRouter
from fastapi.responses import Response

from whence.web.refusals import ApiError

__all__ = ["page", "router"]

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "wav": "audio/wav",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
    "json": "application/json",
}
FOLDERS = {
    "static": ("whence.web", "static"),
    "assets": ("whence.viz", "assets"),
    "examples": ("whence.web", "examples"),
}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def index() -> Response:
    return page("static", "index.html")


@router.get("/static/{path:path}")
async def static(path: str) -> Response:
    return page("static", path)


@router.get("/assets/{path:path}")
async def assets(path: str) -> Response:
    return page("assets", path)


@router.get("/examples/{path:path}")
async def examples(path: str) -> Response:
    return page("examples", path)


def page(folder: str, path: str) -> Response:
    """A file of the package. Names are looked up one by one, so that none leads out of its folder."""
    missing = ApiError(404, "not_found", "There is no such page.", "Start at /, or see /api/docs.")
    suffix = path.rpartition(".")[2]
    if suffix not in TYPES:
        raise missing
    package, name = FOLDERS[folder]
    here = resources.files(package) / name
    for part in path.split("/"):
        here = next((entry for entry in (here.iterdir() if here.is_dir() else ()) if entry.name == part), None)  # type: ignore[assignment]
        if here is None:
            raise missing
    if not here.is_file():
        raise missing
    return Response(here.read_bytes(), media_type=TYPES[suffix], headers={"Cache-Control": "no-cache"})
