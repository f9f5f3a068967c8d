"""The API's documentation: the OpenAPI document, with this server's limits in it, and a page made from it.

The page is plain HTML without scripts: it needs no network and no exception from the content policy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from fastapi import FastAPI

from whence.models import AbstractAdapter
from whence.models.choosing import Chooser
from whence.models.writing import CausalLM
from whence.web.catalogue import CHOICES, Catalogue, sides_of
from whence.web.settings import Limits

__all__ = ["STYLE", "events", "files", "install", "page"]

STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText; }
a { color: light-dark(#1d4f9c, #8ab4f8); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid #8884; margin-top: 2rem; }
h2 { font-size: 1.1rem; } h2 b { color: #2166ac; }
pre { background: #8881; padding: .75rem; border-radius: .4rem; white-space: pre-wrap; overflow-wrap: anywhere; }
code, pre { font: .875rem/1.4 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; margin-bottom: 1rem; }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8883; }
td:nth-child(2):not(:last-child) { width: 38%; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { h2 b { color: #92c5de; } }
"""


def files(types: Mapping[str, str]) -> dict[int | str, dict[str, Any]]:
    """The answer that is a file of any of these types."""
    bodies: dict[str, Any] = {t: {"schema": {"type": "string", "format": "binary"}} for t in types.values()}
    if "application/json" in bodies:
        bodies["application/json"] = {"schema": {"type": "object"}}
    return {200: {"description": "The file, as a download.", "content": bodies}}


def events(told: str) -> dict[int | str, dict[str, Any]]:
    """The answer that is a line of JSON for each event."""
    return {200: {"description": f"Lines of JSON: {told}.", "content": {"application/x-ndjson": {}}}}


def install(app: FastAPI, catalogue: Catalogue, runs: Sequence[str], limits: Limits) -> None:
    """Write the server's models, methods, runs and limits into the document that describes it."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _bound(make()["components"]["schemas"], catalogue, limits)
            _name(make()["paths"], runs)
            _fit(make(), catalogue)
        return make()

    app.openapi = openapi  # type: ignore[method-assign]


def _bound(schemas: dict[str, Any], catalogue: Catalogue, limits: Limits) -> None:
    schemas["TokensRequest"]["properties"]["model"]["enum"] = list(catalogue)
    schemas["MessageBody"]["properties"]["content"]["maxLength"] = limits.characters
    texts, pictures = {"maxLength": limits.characters}, {"maxLength": limits.image_bytes * 4 // 3}
    most = {"text": texts, "pair": texts, "image": pictures, "pair_image": pictures}
    most["sound"] = {"maxLength": limits.sound_bytes * 4 // 3}
    for name in (*EXPLAINS.values(), *SPECIAL.values()):
        fields = schemas[name]["properties"]
        fields["model"]["enum"] = list(catalogue)
        for part, bound in most.items():
            if "anyOf" in fields.get(part, ()):
                _variant(fields[part], "string").update(bound)
        if "labels" in fields:
            _variant(fields["labels"], "array").update(minItems=1, maxItems=limits.labels, uniqueItems=True)
        if "method" in fields:
            fields["method"]["enum"] = list(catalogue.methods)
        if "methods" in fields:
            fields["methods"]["maxItems"] = limits.methods
            fields["methods"]["items"]["enum"] = list(catalogue.methods)
            _variant(fields["targets"], "array").update(minItems=1, maxItems=limits.targets)
            _variant(fields["generate"], "integer")["maximum"] = limits.generate


def _name(paths: dict[str, Any], runs: Sequence[str]) -> None:
    for path, operations in paths.items():
        if runs and "{name}" in path:
            named = next(p for p in operations["get"]["parameters"] if p["name"] == "name")
            named["schema"]["enum"] = list(runs)


EXPLAINS = {
    "/api/explain": "ExplainRequest",
    "/api/stream": "StreamRequest",
    "/api/figure": "FigureRequest",
    "/api/remove": "RemoveRequest",
}
SPECIAL = {
    "/api/attention": "AttentionRequest",
    "/api/write": "WriteRequest",
    "/api/write/figure": "WriteFigureRequest",
    "/api/cite": "CiteRequest",
    "/api/cite/figure": "CiteFigureRequest",
    "/api/similarity": "SimilarityRequest",
    "/api/similarity/figure": "PairFigureRequest",
}


def _fit(document: dict[str, Any], catalogue: Catalogue) -> None:
    """Addresses that only some models are for: those models by name; where there is none, the address is left out."""
    served = {name: catalogue.model(name) for name in catalogue}
    compares = [name for name, model in served.items() if sides_of(model)]
    writes = [name for name, model in served.items() if model.writes]
    cites = [name for name, model in served.items() if isinstance(model, CausalLM)]
    able_to = {
        **{path: list(served) for path in EXPLAINS},
        "/api/attention": [name for name, model in served.items() if sides_of(model) or not isinstance(model, Chooser)],
        "/api/similarity": compares,
        "/api/similarity/figure": compares,
        "/api/write": writes,
        "/api/write/figure": writes,
        "/api/cite": cites,
        "/api/cite/figure": cites,
    }
    _exemplify(document["components"]["schemas"], *next(iter(served.items())))
    for path, schema in (EXPLAINS | SPECIAL).items():
        able = able_to[path]
        if able:
            document["components"]["schemas"][schema]["properties"]["model"]["enum"] = able
        else:
            del document["paths"][path]


def _exemplify(schemas: dict[str, Any], name: str, model: AbstractAdapter) -> None:
    """The examples have labels where the first model chooses; of an image or a sound they show where it goes."""
    if not isinstance(model, Chooser):
        return
    given = next(iter(CHOICES.get(model.task, ())), {})
    shown = {key: value if key in ("text", "labels") else "…" for key, value in given.items()}
    for schema in EXPLAINS.values():
        before = schemas[schema].get("example", {})
        kept = {key: value for key, value in before.items() if key not in ("text", "targets")}
        schemas[schema]["example"] = kept | {"model": name} | shown


def _variant(field: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(v for v in field["anyOf"] if v.get("type") == kind and "const" not in v)


def page(document: dict[str, Any], address: str) -> str:
    """The document for people; `address` is where they found it."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(document['info']['title'])} API</title>",
        '<link rel="icon" href="/static/favicon.svg"><link rel="stylesheet" href="/api/docs.css"></head><body><main>',
        f"<h1>{escape(document['info']['title'])} {escape(document['info']['version'])}: REST API</h1>",
        f"<p>{escape(document['info'].get('summary', ''))}</p>",
        '<p>For programs: <a href="/openapi.json">openapi.json</a>. The page itself: <a href="/">/</a>.</p>',
    ]
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            parts += _operation(document, address.rstrip("/") + path, verb.upper(), operation, path)
    return "\n".join([*parts, "</main></body></html>"])


def _operation(
    document: dict[str, Any], address: str, verb: str, operation: dict[str, Any], path: str
) -> Iterator[str]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    yield f"<section><h2><b>{verb}</b> <code>{escape(path)}</code></h2>"
    yield f"<p>{escape(operation.get('description', ''))}</p>"
    yield f"<pre>{escape(_curl(address, verb, _example(document, body)))}</pre>"
    rows = [
        _row(p["name"], p["schema"], p.get("description", ""), p.get("required"))
        for p in operation.get("parameters", ())
    ]
    if body is not None:
        schema = _resolved(document, body)
        needed = schema.get("required", ())
        rows += [_row(n, f, f.get("description", ""), n in needed) for n, f in schema["properties"].items()]
    if rows:
        yield "<table><thead><tr><th>name</th><th>type</th><th></th></tr></thead><tbody>"
        yield from rows
        yield "</tbody></table>"
    yield "<table><thead><tr><th>answer</th><th></th></tr></thead><tbody>"
    for code, response in operation["responses"].items():
        yield f"<tr><td>{escape(code)}</td><td>{escape(_said(document, response))}</td></tr>"
    yield "</tbody></table></section>"


def _said(document: dict[str, Any], response: dict[str, Any]) -> str:
    schema = response.get("content", {}).get("application/json", {}).get("schema", {})
    fields = ", ".join(_resolved(document, schema).get("properties", ()))
    return str(response["description"]) + (f" {{{fields}}}" if fields and fields != "error" else "")


def _row(name: str, schema: dict[str, Any], text: str, required: Any) -> str:
    kind = escape(_type(schema)) + (", required" if required else "")
    return f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{escape(text)}</td></tr>"


def _type(schema: dict[str, Any]) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(v) for v in schema.get("enum", [schema.get("const")]))
    bounds = [f"{word} {schema[key]:,}" for key, word in _BOUNDS.items() if key in schema]
    inner = f" of {_type(schema['items'])}" if "items" in schema else ""
    return str(schema.get("type", "any")) + inner + (f" ({', '.join(bounds)})" if bounds else "")


_BOUNDS = {"minLength": "at least", "maxLength": "at most", "minimum": "from", "maximum": "to", "maxItems": "at most"}


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"].get(name, schema)
    return found


def _example(document: dict[str, Any], body: dict[str, Any] | None) -> dict[str, Any] | None:
    """A request that works: the schema's example, or the examples of its fields."""
    if body is None:
        return None
    schema = _resolved(document, body)
    example = dict(schema.get("example") or {"model": "sentiment", "text": "a gorgeous, witty, seductive movie"})
    served = schema["properties"]["model"]["enum"]
    if example["model"] not in served:  # its labels are not those of the example
        example = {"model": served[0]} | {k: v for k, v in example.items() if k not in ("model", "methods", "targets")}
    if "format" in schema["properties"]:
        example["format"] = "svg"
    return example


def _curl(address: str, verb: str, body: dict[str, Any] | None) -> str:
    if verb == "GET":
        return f"curl '{address}'"
    save = " -o whence.svg" if body and "format" in body else ""
    return f"curl '{address}'{save} -H 'Content-Type: application/json' -d '{json.dumps(body, ensure_ascii=False)}'"
