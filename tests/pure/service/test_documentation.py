"""The pages that the service shows: all of them, every link leads to one, and nothing in them is more than text."""

import re
from posixpath import dirname, join, normpath

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hmx_pipeline.service import documentation, problems
from hmx_pipeline.service.access import Access
from tests.support.documents import DOCS
from tests.support.drawings import FOLDER, blocks, file_of

NAMES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def client() -> TestClient:
    return served(per_minute=0)


def served(per_minute: int) -> TestClient:
    app = FastAPI(docs_url=None, redirect_slashes=False)
    app.state.access = Access("", per_minute)
    app.include_router(documentation.router)
    problems.install(app)
    return TestClient(app)


def ids(client: TestClient, name: str) -> set[str]:
    return set(re.findall(r'<h\d id="([^"]+)"', client.get(f"/docs/{name}").text))


def test_every_page_is_shown_and_every_link_leads_to_a_page_and_a_heading(client: TestClient) -> None:
    followed = 0
    for name in NAMES:
        answer = client.get(f"/docs/{name}")
        assert answer.status_code == 200, name
        body = answer.text.partition("<main")[2]
        for target in re.findall(r'<a href="(?!https?:)([^"]+)"', body):
            path, _, heading = target.partition("#")
            there = normpath(join(dirname(name), path)) if path else name
            assert there in NAMES, (name, target)
            assert not heading or heading in ids(client, there), (name, target)
            followed += 1
    assert followed > 100


def test_pages_load_nothing_and_run_nothing(client: TestClient) -> None:
    for path in ("", *NAMES, "search?q=kafka"):
        answer = client.get(f"/docs/{path}")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        body = re.sub(r'<img src="/docs/images/[0-9a-f]{12}\.svg"', "", answer.text.partition("<main")[2])
        assert not re.search(r"<script|<img|<!--|src=", body)


def test_each_mermaid_block_is_drawn_and_its_drawing_loads_and_runs_nothing(client: TestClient) -> None:
    names = {file_of(block) for block in blocks()}
    assert names == {path.name for path in FOLDER.glob("*.svg")}, "make drawings"
    shown = {name for page in NAMES for name in re.findall(r"/docs/images/([^\"]+)", client.get(f"/docs/{page}").text)}
    assert shown == names
    assert not any('class="language-mermaid"' in client.get(f"/docs/{page}").text for page in NAMES)
    for name in names:
        answer = client.get(f"/docs/images/{name}")
        assert answer.headers["content-type"] == "image/svg+xml"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not re.search(r"<script|foreignObject|@import|url\((?!#)|href=|\son\w+=", answer.text)
    assert client.get("/docs/images/none.svg").status_code == client.get("/docs/images/page.png").status_code == 404


def test_a_search_finds_sections_with_all_words_those_with_them_in_the_title_first(client: TestClient) -> None:
    found = client.get("/docs/search", params={"q": "Dead LETTERS"}).text
    assert re.search(r'<a href="([^"]+)"', found.partition("<ul>")[2])[1] == "/docs/how-to/operate.md#dead-letters"
    marks = "<script>alert(1)</script>"
    nothing = client.get("/docs/search", params={"q": marks}).text
    assert "0 sections" in nothing
    assert marks not in nothing
    assert "0 sections" in client.get("/docs/search").text


def test_visitors_share_a_limit_of_searches_and_a_search_has_few_words() -> None:
    limited = served(per_minute=2)
    words = "kafka redis log of the and a to"
    for asked in (words, f"{words} {words} nowhere written"):
        assert "<li>" in limited.get("/docs/search", params={"q": asked}).text, asked
    assert limited.get("/docs/search", params={"q": "kafka"}).status_code == 429
    assert limited.get("/docs/").status_code == 200


@pytest.mark.parametrize("path", ["nope.md", "..%2FREADME.md", "%2Fetc%2Fpasswd", "index.md%00", "images/page.png"])
def test_what_is_no_page_is_not_found(client: TestClient, path: str) -> None:
    assert client.get(f"/docs/{path}").status_code == 404


def test_docs_without_a_slash_leads_to_the_pages(client: TestClient) -> None:
    assert client.get("/docs", follow_redirects=False).headers["location"] == "/docs/"
