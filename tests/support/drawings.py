"""The drawings of the pages: each Mermaid block as an SVG under docs/images, named by what the block says.

`python -m tests.support.drawings` (or `make drawings`) makes those that lack and deletes those that nothing shows. It
needs npm and Chromium; whoever reads the pages needs neither.
"""

import hashlib
import re
import subprocess

from tests.support.documents import DOCS, ROOT, pages

MERMAID = "mermaid@11.12.2"
FOLDER = DOCS / "images"
BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LOOKS = {
    "startOnLoad": False,
    "theme": "base",
    "htmlLabels": False,
    "flowchart": {"htmlLabels": False, "useMaxWidth": False},
    "fontFamily": "system-ui, 'DejaVu Sans', sans-serif",
    "themeVariables": {
        "primaryColor": "#fff", "primaryBorderColor": "#2a6c67", "primaryTextColor": "#22282a", "lineColor": "#5a6468",
        "clusterBkg": "#f7f6f2", "clusterBorder": "#e4e1d9", "edgeLabelBackground": "#fff",
    },
}  # fmt: skip
_LOAD = "document.head.append(Object.assign(document.createElement('script'), {text: arguments[0]}))"
_DRAW = """
const [looks, code, id, done] = arguments;
mermaid.initialize(looks);
mermaid.render(id, code).then(made => done(made.svg), error => done("error: " + error));
"""
_DARK = """@media (prefers-color-scheme: dark) {
#ID .node :is(rect, path, polygon, circle) { fill: #26292b !important; stroke: #79c2b9 !important; }
#ID text, #ID tspan { fill: #e5e3dd !important; }
#ID .flowchart-link { stroke: #a3acae !important; }
#ID .marker { fill: #a3acae !important; stroke: #a3acae !important; }
#ID .cluster rect { fill: #141617 !important; stroke: #2d3133 !important; }
#ID .edgeLabel rect, #ID .labelBkg { fill: #1c1f20 !important; background: #1c1f20 !important; }
}"""


def blocks() -> set[str]:
    return {block for page in pages() for block in BLOCK.findall(page.read_text(encoding="utf-8"))}


def file_of(block: str) -> str:
    return f"{hashlib.sha256(block.encode()).hexdigest()[:12]}.svg"


def _drawn(wanted: set[str]) -> None:
    from tests.web.browser import browsing

    folder = ROOT / "build" / "mermaid"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--silent", "--prefix", folder, MERMAID], check=True)
    script = (folder / "node_modules/mermaid/dist/mermaid.min.js").read_text(encoding="utf-8")
    with browsing() as browser:
        browser.view(1280, 900)
        browser.open("about:blank")
        browser.run(
            "document.head.append(Object.assign(document.createElement('script'), {text: arguments[0]}))", script
        )
        for block in wanted:
            name = f"d{file_of(block).removesuffix('.svg')}"
            svg = browser.post("execute/async", script=_DRAW, args=[_LOOKS, block, name])
            assert svg.startswith("<svg"), svg
            dark = _DARK.replace("ID", name)
            (FOLDER / file_of(block)).write_text(svg.replace("</style>", f"{dark}</style>", 1) + "\n", encoding="utf-8")
            print(FOLDER / file_of(block))


if __name__ == "__main__":
    found = {file_of(block): block for block in blocks()}
    for old in FOLDER.glob("*.svg"):
        if old.name not in found:
            old.unlink()
    lacking = {block for name, block in found.items() if not (FOLDER / name).exists()}
    if lacking:
        _drawn(lacking)
