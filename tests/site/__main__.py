"""The documentation as a site that works offline: `python -m tests.site` (or `make docs-site`) writes build/site.

The pages link each other, and files of the project, by the paths that they have in it. So the site has the same
folders: the pages and the files that they link are copied as they lie, and the headings of docs/index.md are the
navigation. A link that leads nowhere, a list that is not rendered as one and anything that a page would load from
elsewhere end the build.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import yaml

from tests.support.documents import DOCS, ROOT, pages
from tests.support.drawings import BLOCK, FOLDER, file_of

SOURCE, SITE = ROOT / "build/site-source", ROOT / "build/site"
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|<|#)([^)#\s]+)(?:#[^)]*)?\)")
CONFIG = {
    "site_name": "hmx-pipeline",
    "docs_dir": str(SOURCE / "pages"),
    "site_dir": str(SITE),
    "theme": {
        "name": "material",
        "font": False,
        "icon": {"logo": "material/memory"},
        "features": ["navigation.sections", "navigation.top", "toc.follow", "search.highlight", "content.code.copy"],
        "palette": [
            {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "teal",
             "toggle": {"icon": "material/weather-night", "name": "dark"}},
            {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "teal",
             "toggle": {"icon": "material/weather-sunny", "name": "light"}},
        ],
    },
    "plugins": ["search", "offline"],
    "extra": {"polyfills": ["assets/iframe-worker.js"]},
    "markdown_extensions": [
        "tables", "sane_lists", "pymdownx.superfences", "pymdownx.highlight",
        {"toc": {"permalink": True, "slugify": "PLACE"}},
    ],
    "validation": {
        "nav": {"omitted_files": "ignore"},
        "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn", "absolute_links": "warn"},
    },
}  # fmt: skip
LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//'
    r'|<link[^>]+rel="(?:stylesheet|preload|icon)"[^>]+href="(?:https?:)?//'
)
"""What a browser would load from elsewhere."""
UNLISTED = re.compile(r"<p>[^<]*\n(?:[-*]|\d+\.) ")
"""A list that stands right behind a line: GitHub shows a list, Python's Markdown a paragraph."""


def linked(page: Path) -> list[tuple[str, Path]]:
    """The titles and files that a page links."""
    found = LINK.findall(page.read_text(encoding="utf-8"))
    return [(title, (page.parent / path).resolve()) for title, path in found]


def collect() -> None:
    """Copies the pages and, page by page, the files that they link."""
    waiting = list(pages())
    done: set[Path] = set()
    while waiting:
        page = waiting.pop()
        if page in done or not page.is_file():
            continue
        done.add(page)
        place = SOURCE / "pages" / page.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, place)
        if page.suffix == ".md":
            place.write_text(BLOCK.sub(partial(_drawing, place), page.read_text(encoding="utf-8")), encoding="utf-8")
            waiting += (target for _, target in linked(page))


def _drawing(page: Path, found: re.Match[str]) -> str:
    """An image of a Mermaid block; no script draws it."""
    drawing = FOLDER / file_of(found[1])
    place = SOURCE / "pages" / drawing.relative_to(ROOT)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(drawing, place)
    return f"![a drawing]({os.path.relpath(place, page.parent)})"


def navigation() -> list[dict[str, object]]:
    _, *sections = re.split(r"^## ", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: list[dict[str, object]] = [{"Home": "README.md"}, {"All pages": "docs/index.md"}]
    for section in sections:
        named = [
            {title[0].upper() + title[1:]: str((DOCS / path).resolve().relative_to(ROOT))}
            for title, path in LINK.findall(section)
        ]
        found.append({section.partition("\n")[0]: named})
    return found


def main() -> int:
    shutil.rmtree(SOURCE, ignore_errors=True)
    collect()
    (SOURCE / "pages/assets").mkdir()
    shutil.copy(Path(__file__).parent / "iframe-worker.js", SOURCE / "pages/assets")
    config = yaml.safe_dump({**CONFIG, "nav": navigation()}, sort_keys=False)
    slugs = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
    (SOURCE / "mkdocs.yml").write_text(config.replace("PLACE", slugs), encoding="utf-8")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--quiet", "--config-file", "mkdocs.yml"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    if subprocess.run(build, cwd=SOURCE, env=quiet, check=False).returncode:
        return 1
    wrong = [
        f"{page.relative_to(SITE)}: {found[0][-100:]!r}"
        for page in sorted(SITE.rglob("*.html"))
        for rule in (LOADED, UNLISTED)
        if (found := rule.search(page.read_text(encoding="utf-8")))
    ]
    print("\n".join(wrong) or f"{len(list(SITE.rglob('*.html')))} pages: open {SITE / 'index.html'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
