"""What the package imports is declared: nothing works only because another dependency happens to bring it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = ("archive", "local", "mcp", "nats", "otel", "semantic")


def imported() -> Iterator[tuple[str, str]]:
    """Top-level packages outside the standard library, each with a file that imports it."""
    for file in sorted((ROOT / "pipeline").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
            for name in {name.partition(".")[0] for name in names}:
                if name not in sys.stdlib_module_names and name not in ("hmx_pipeline", "hmx_mcp"):
                    yield name, str(file.relative_to(ROOT))


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[=]", name)[0]).lower()


def test_every_package_that_is_imported_is_declared() -> None:
    declared = {plain(one) for one in PROJECT["dependencies"]}
    declared |= {plain(one) for extra in OPTIONAL for one in PROJECT["optional-dependencies"][extra]}
    brought_by = packages_distributions()
    missing = {name: file for name, file in imported() if declared.isdisjoint(map(plain, brought_by.get(name, ())))}
    assert not missing, "declare them in pyproject.toml, with the version of the lock; then `make lock`"
