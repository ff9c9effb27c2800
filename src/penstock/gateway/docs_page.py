"""The OpenAPI document, and a page of it for people: plain HTML that loads nothing from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi.openapi.utils import get_openapi
from starlette.responses import HTMLResponse

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
body { color: #1d2733; background: #fff; }
summary { cursor: pointer; padding: .35rem 0; } code, pre { font: 13px/1.5 ui-monospace, monospace; }
pre { background: #f3f5f7; padding: .6rem; overflow: auto; } b.m { display: inline-block; width: 4.2rem; }
details { border-top: 1px solid #d8dee4; padding-left: .2rem; } h2 { margin-top: 2rem; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
@media (prefers-color-scheme: dark) {
  body { color: #d6dde5; background: #12171d; }
  pre { background: #1b222b; } details { border-color: #2b343f; }
}
"""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
VALIDATION: Final = ("HTTPValidationError", "ValidationError")


def install(app: FastAPI, description: str) -> None:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app, description)
        return app.openapi_schema

    async def docs(_request: Request) -> HTMLResponse:
        return HTMLResponse(page(openapi()), headers={"content-security-policy": POLICY})

    app.openapi = openapi  # type: ignore[method-assign]  # how FastAPI wants it to be replaced
    app.add_route("/docs", docs, include_in_schema=False)


def document(app: FastAPI, description: str) -> dict[str, Any]:
    """Without the 422 that FastAPI adds to whatever has parameters: wrong ones are answered with 400."""
    found = get_openapi(
        title=app.title,
        version=app.version,
        description=description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    for _, _, operation in operations(found):
        operation["responses"].pop("422", None)
    schemas = found.get("components", {}).get("schemas", {})
    for name in VALIDATION:
        schemas.pop(name, None)
    return found


def operations(openapi: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def page(openapi: dict[str, Any]) -> str:
    by_tag: dict[str, list[str]] = {}
    for method, path, operation in operations(openapi):
        tag = (operation.get("tags") or ["other"])[0]
        by_tag.setdefault(tag, []).append(section(method, path, operation))
    title = escape(f"{openapi['info']['title']} {openapi['info']['version']}")
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>',
        f"<h1>{title}</h1>",
        *(f"<p>{escape(text)}</p>" for text in openapi["info"].get("description", "").split("\n\n")),
        '<p>For programs: <a href="/openapi.json">/openapi.json</a></p>',
    ]
    for tag, sections in by_tag.items():
        parts += [f"<h2>{escape(tag)}</h2>", *sections]
    return "\n".join(parts) + "\n</html>\n"


def section(method: str, path: str, operation: dict[str, Any]) -> str:
    name = f'<b class="m">{escape(method)}</b> <code>{escape(path)}</code>'
    parts = [
        f"<details><summary>{name} {escape(operation.get('summary', ''))}</summary>",
        f"<p>{escape(operation.get('description', ''))}</p>",
    ]
    if operation.get("parameters"):
        rows = "".join(parameter_row(parameter) for parameter in operation["parameters"])
        parts.append(f"<table>{rows}</table>")
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<p>Body, {escape(kind)}:</p>{pretty(content.get('schema', {}))}")
    rows = "".join(
        f"<tr><td>{escape(str(status))}<td>{escape(answer.get('description', ''))}"
        for status, answer in operation["responses"].items()
    )
    return "\n".join([*parts, f"<p>Answers:</p><table>{rows}</table></details>"])


def parameter_row(parameter: dict[str, Any]) -> str:
    needed = "" if parameter.get("required") else " (optional)"
    schema = parameter.get("schema", {})
    about = parameter.get("description") or schema.get("description") or ""
    kind = schema.get("type", "")
    return (
        f"<tr><td><code>{escape(parameter['name'])}</code>{needed}"
        f"<td>{escape(parameter['in'])}<td>{escape(str(kind))}<td>{escape(about)}"
    )


def pretty(value: Any) -> str:
    return f"<pre>{escape(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())}</pre>"
