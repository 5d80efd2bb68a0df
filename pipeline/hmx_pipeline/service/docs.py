"""`GET /docs/api`: renders the OpenAPI document as static HTML, without scripts or external resources.

All text is escaped, so descriptions cannot inject markup.
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from hmx_pipeline.service.documentation import HEAD, HEADERS, TAIL

_METHODS: Final = ("get", "post", "put", "patch", "delete")
router: Final = APIRouter(include_in_schema=False)


@router.get("/docs/api")
async def api(request: Request) -> Response:
    state = request.app.state
    if not hasattr(state, "api_page"):  # anybody may ask, and it takes 10 ms
        state.api_page = rendered(request.app.openapi())
    return Response(state.api_page, media_type="text/html; charset=utf-8", headers=HEADERS)


def rendered(openapi: Mapping[str, Any]) -> str:
    parts = [
        HEAD.format(title="HMX API", words=""),
        f'<p class="lead">{escape(openapi["info"]["description"])} <a href="/openapi.json">The document</a></p>\n',
    ]
    for path, item in openapi["paths"].items():
        for method in _METHODS:
            if method in item:
                parts += _operation(f"{method.upper()} {path}", item[method])
    parts.append("<h2>Schemas</h2>\n")
    parts += (_folded(name, _code(schema)) for name, schema in openapi["components"].get("schemas", {}).items())
    return "".join([*parts, TAIL])


def _operation(name: str, said: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section class="card">\n<h2><code>{escape(name)}</code></h2>\n'
    yield f"<p>{escape(said.get('description', ''))}</p>\n"
    parameters = said.get("parameters", ())
    if parameters:
        yield "<table><thead><tr><th>Parameter</th><th>In</th><th>Schema</th><th>Meaning</th></tr></thead><tbody>\n"
        for one in parameters:
            shape = {key: value for key, value in one["schema"].items() if key not in ("title", "description")}
            schema = f"<code>{escape(json.dumps(shape))}</code>"
            where = one["in"] + (", required" if one.get("required") else "")
            cells = (f"<code>{escape(one['name'])}</code>", escape(where), schema, escape(one.get("description", "")))
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"
        yield "</tbody></table>\n"
    for kind, body in said.get("requestBody", {}).get("content", {}).items():
        yield _folded(f"Body, {kind}", _code(body.get("schema", {})))
    for status, answer in said.get("responses", {}).items():
        for kind, body in answer.get("content", {"nothing": {}}).items():
            yield _folded(f"Answer {status}, {kind}: {answer.get('description', '')}", _code(body.get("schema", {})))
    yield "</section>\n"


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inner}</details>\n"


def _code(schema: Any) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2))}</pre>"
