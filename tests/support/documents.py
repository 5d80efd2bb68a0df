"""The generated parts of the pages under docs/. `python -m tests.support.documents` (or `make docs`) writes them anew.

A page marks a generated part with `<!-- table: NAME -->` and `<!-- end -->`; `generated.PARTS` makes it from the code.
"""

import re
from pathlib import Path

from tests.support import asyncapi, bill
from tests.support.generated import PARTS, ROOT

README = ROOT / "README.md"
DOCS = ROOT / "docs"
_MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """README, CONTRIBUTING and every page under docs/."""
    return [README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def with_parts(text: str) -> str:
    """The text of a page with every marked part as the code says it."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n{found[3]}", text)


def marks(text: str) -> list[str]:
    return [name for _, name, _ in _MARKED.findall(text)]


if __name__ == "__main__":
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if with_parts(text) != text:
            page.write_text(with_parts(text), encoding="utf-8")
            print(page.relative_to(ROOT))
    asyncapi.FILE.write_text(asyncapi.document(), encoding="utf-8")
    bill.FILE.write_text(bill.document(), encoding="utf-8")
