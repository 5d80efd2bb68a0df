"""`GET /docs/`: the pages of docs/ as static HTML with search, without scripts or external resources.

A wheel carries the pages, so they are those of its version and need no network. HTML in them is escaped. A link to a
file of the project that is no such page is text.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from html import escape
from itertools import pairwise
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Query
from fastapi.responses import RedirectResponse, Response
from markdown_it import MarkdownIt
from markdown_it.token import Token

from hmx_pipeline.service import page
from hmx_pipeline.service.access import VISITOR
from hmx_pipeline.service.problems import ProblemError, ProblemKind

_PACKAGED: Final = Path(__file__).resolve().parents[1] / "docs"
FOLDER: Final = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).resolve().parents[3] / "docs"
WORDS: Final = 8
"""Words of a search that count."""
FOUND: Final = 20
"""Sections shown of a search."""
AROUND: Final = 120
"""Characters shown around what was found."""
HEADERS: Final = {
    **page.HEADERS,
    "Content-Security-Policy": page.HEADERS["Content-Security-Policy"].replace(
        "form-action 'none'", "form-action 'self'"
    ),
}
HEAD: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="/page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/style.css">
</head>
<body>
<header>
<a class="skip" href="#main">Skip to the content</a>
<nav aria-label="Documentation">
<a href="/">HMX memory</a> <a href="/docs/">All pages</a> <a href="/docs/api">HTTP API</a>
</nav>
<form id="who" action="/docs/search">
<label>Find <input name="q" type="search" value="{words}" required></label>
</form>
</header>
<main id="main" tabindex="-1">
"""
TAIL: Final = "</main>\n</body>\n</html>\n"
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")

router: Final = APIRouter(include_in_schema=False)


class PageSection(NamedTuple):
    page: str
    slug: str
    title: str
    text: str
    folded: str
    """The text as it is searched."""


@cache
def pages() -> Mapping[str, str]:
    """Returns the text of each page by its path below docs/."""
    found = {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.md")}
    return {name: re.sub(r"<!--.*?-->\n?", "", text) for name, text in found.items()}


@cache
def drawings() -> Mapping[str, bytes]:
    """Returns the drawings of Mermaid blocks, which the service can't draw itself, by their names."""
    return {path.name: path.read_bytes() for path in FOLDER.joinpath("images").glob("*.svg")}


@router.get("/docs")
async def docs() -> Response:
    return RedirectResponse("/docs/", headers=HEADERS)


@router.get("/docs/")
async def index() -> Response:
    return shown("index.md")


@router.get("/docs/search", dependencies=[VISITOR])
def search(q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Shows the sections that have all words, those with the words in their titles first."""
    words = [*dict.fromkeys(q.casefold().split())][:WORDS]
    found = [one for one in sections() if words and all(word in one.folded for word in words)]
    found.sort(key=lambda one: (-sum(word in one.title.casefold() for word in words), one.page, one.slug))
    rows = [
        f'<li><a href="/docs/{escape(one.page)}#{one.slug}">{escape(one.title)}</a> '
        f'<span class="soft">{escape(one.page)}</span><p>{escape(_around(one.text, words[0]))}</p></li>\n'
        for one in found[:FOUND]
    ]
    said = f"{len(found)} sections" if len(found) != 1 else "1 section"
    body = f'<article class="card prose"><h1>{said} with “{escape(q)}”</h1>\n<ul>{"".join(rows)}</ul></article>'
    return _answer("Search", body, q)


@router.get("/docs/images/{name}")
def drawing(name: str) -> Response:
    """Shows a drawing. Its own style needs a policy of its own, which lets it load nothing."""
    if name not in drawings():
        raise ProblemError(ProblemKind.NOT_FOUND, "the documentation has no such drawing")
    headers = {**HEADERS, "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
    return Response(drawings()[name], media_type="image/svg+xml", headers=headers)


@router.get("/docs/{name:path}")
def shown(name: str) -> Response:
    """Shows a page."""
    if name not in pages():
        raise ProblemError(ProblemKind.NOT_FOUND, "the documentation has no such page: /docs/ lists all")
    return _answer(*_rendered(name))


@cache
def _rendered(name: str) -> tuple[str, str]:
    """Returns a page's title and body: anybody may ask, and a long one takes 40 ms."""
    tokens = _MARKDOWN.parse(pages()[name])
    for heading, inner in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", slug(inner.content))
        _relink(inner, name)
        if heading.type == "fence" and heading.info == "mermaid":
            _draw(heading)
    title = next(inner.content for inner in tokens if inner.type == "inline")
    return title, f'<article class="card prose">\n{_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})}</article>'


def _draw(fence: Token) -> None:
    """Shows the drawing of a Mermaid block instead of it; the block stays as text, for whoever can't see a drawing."""
    name = f"{sha256(fence.content.encode()).hexdigest()[:12]}.svg"
    if name in drawings():
        fence.type, code = "html_block", escape(fence.content)
        fence.content = (
            '<p class="drawing" tabindex="0" role="group" aria-label="A drawing">'
            f'<img src="/docs/images/{name}" alt="Its text follows"></p>\n'
            f"<details><summary>the drawing as text</summary><pre>{code}</pre></details>\n"
        )


def _relink(inner: Token, name: str) -> None:
    """Turns links to what is not served into text."""
    away = False
    for token in inner.children or ():
        if token.type == "link_open":
            path = str(token.attrs["href"]).partition("#")[0]
            away = bool(path) and "://" not in path and normpath(join(dirname(name), path)) not in pages()
        if away and token.type in ("link_open", "link_close"):
            token.tag, token.attrs = "span", {}


def slug(heading: str) -> str:
    """Returns a heading's name in addresses, as GitHub spells it."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


@cache
def sections() -> tuple[PageSection, ...]:
    return tuple(one for name in sorted(pages()) for one in _sections(name))


def _sections(name: str) -> Iterator[PageSection]:
    for part in re.split(r"^(?=#{1,4} )", pages()[name], flags=re.MULTILINE):
        title = part.partition("\n")[0].lstrip("# ")
        if title:
            yield PageSection(name, slug(title), re.sub(r"[`*]", "", title), part, part.casefold())


def _around(text: str, word: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*|#]|-{3,}", r"\1", text.partition("\n")[2])
    at = max(0, plain.casefold().find(word) - AROUND)
    return f"… {' '.join(plain[at : at + 2 * AROUND].split())} …"


def _answer(title: str, body: str, words: str = "") -> Response:
    head = HEAD.format(title=escape(title), words=escape(words))
    return Response(f"{head}{body}{TAIL}", media_type="text/html; charset=utf-8", headers=HEADERS)
