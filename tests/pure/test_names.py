"""A name means one thing: no class of the package has the name of another, and few modules do."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pipeline" / "hmx_pipeline"
ENTRIES = {"__init__", "__main__", "app", "main"}
"""What a room or a process begins with."""


def test_no_class_name_is_used_twice() -> None:
    found = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{file.relative_to(PACKAGE)}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_module_name_is_used_twice_but_for_a_command_and_what_it_runs() -> None:
    found = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.stem not in ENTRIES and file.parent.name != "cli":
            found[file.stem].append(str(file.relative_to(PACKAGE)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
