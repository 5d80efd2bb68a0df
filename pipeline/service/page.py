"""`GET /`: one page to look at memory with. It asks the same routes as everybody, and loads nothing from elsewhere."""

from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

_PAGE: Final = files("pipeline.service").joinpath("page.html").read_bytes()
_POLICY: Final = "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"

router: Final = APIRouter()


@router.get("/", include_in_schema=False)
async def page() -> HTMLResponse:
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})
