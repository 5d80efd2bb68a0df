"""`GET /`: serves the operators' web page, which uses the public routes and no external resources."""

from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from hmx_pipeline.service.problems import ProblemError, ProblemKind

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FILES: Final = {file.name: file.read_bytes() for file in files("hmx_pipeline.service").joinpath("web").iterdir()}
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src 'self'; script-src 'self'; "
    "style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}

router: Final = APIRouter(include_in_schema=False)


@router.get("/")
async def page() -> Response:
    return _answer("index.html")


@router.get("/page/{name}")
async def part(name: str) -> Response:
    """Serves a file of the page."""
    if name not in _FILES:
        raise ProblemError(ProblemKind.NOT_FOUND, "the page has no such file")
    return _answer(name)


def _answer(name: str) -> Response:
    return Response(_FILES[name], media_type=_TYPES[name[name.rindex(".") :]], headers=HEADERS)
