"""No form of msgspec is compiled by a thread that others run beside."""

import ast
import subprocess
import sys
from pathlib import Path

import hmx_pipeline

FIRST_USES = """
import sys, threading
from hmx_pipeline.contracts.artifact_content import CONTENTS, why_not
from hmx_pipeline.intake.deviations import _SHAPES, notes

sys.setswitchinterval(1e-7)
together = threading.Barrier(12)

def all_at_once():
    for name, shape in _SHAPES.items():
        together.wait()
        notes(name, dict.fromkeys(shape.__annotations__, "x"))
    for name, form in CONTENTS.items():
        together.wait()
        why_not(name, dict.fromkeys(form.__annotations__, "x"))

threads = [threading.Thread(target=all_at_once) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_that_use_a_form_for_the_first_time_end_no_process() -> None:
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", FIRST_USES], check=False).returncode == 0


def test_a_decoder_is_made_while_its_module_is_imported() -> None:
    """`decode(…, type=…)` compiles its type when it is first called, on whichever thread that is."""
    late = [
        f"{path.name}:{call.lineno}"
        for path in Path(hmx_pipeline.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("msgspec.")
        and any(named.arg == "type" for named in call.keywords)
    ]  # fmt: skip
    assert not late
