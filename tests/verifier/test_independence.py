"""The verifier shares no code with what it verifies, whatever it imports on the way."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERIFIED = ("stages", "ordering", "worker", "store", "kafka", "runtime", "queries")


def test_no_import_leads_into_a_room_that_is_verified() -> None:
    ways: dict[str, str] = {}
    rest = [module_of(file) for file in Path(__file__).parent.glob("*.py") if not file.name.startswith("test_")]
    ways.update(dict.fromkeys(rest, ""))
    while rest:
        module = rest.pop()
        for imported in imports(module):
            if imported not in ways:
                ways[imported] = f"{ways[module]} {module} →"
                rest.append(imported)
    forbidden = {f"hmx_pipeline.{room}" for room in VERIFIED}
    found = {name: way for name, way in ways.items() if ".".join(name.split(".")[:2]) in forbidden}
    assert not found
    assert "hmx_pipeline.compiler.candidate" in ways, "imports are followed into the pipeline"


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


def imports(module: str) -> Iterator[str]:
    """Modules of this checkout, packages among them; also what is imported inside functions."""
    file = file_of(module)
    for node in ast.walk(ast.parse(file.read_text())) if file is not None else ():
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name.startswith(("hmx_pipeline", "tests")) and file_of(name) is not None)


def file_of(module: str) -> Path | None:
    root = ROOT / "pipeline" if module.startswith("hmx_pipeline") else ROOT
    path = root.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)
