"""The real aider on a stub of its model: what it writes down is imported, whole and twice the same."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hmx_pipeline.doors.aider_history import AiderImport
from tests.support.model_server import Json, answering

AIDER = shutil.which("aider")
EDIT = "I add it.\n\nshop.py\n```python\n<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n```\n"


def scripted(messages: list[Json]) -> Json:
    return {"content": EDIT if "Mend the shop" in str(messages[-1]["content"]) else "It works."}


@pytest.mark.skipif(AIDER is None, reason="needs aider on the path: pip install aider-chat")
def test_what_aider_writes_down_is_imported(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "shop.py").write_text("x = 1\n")
    (work / "said").write_text("Mend the shop\n/test sh -c 'exit 3'\n/test true\n/run echo works\n/ask Does it work?\n")
    with answering(scripted) as model:
        env = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "OPENAI_API_BASE": model,
            "OPENAI_API_KEY": "none",
        }  # fmt: skip
        flags = ["--no-git", "--no-stream", "--no-pretty", "--no-check-update", "--no-show-model-warnings"]
        asked = [str(AIDER), "--model", "openai/stub", "--edit-format", "diff", "--yes-always", *flags, "shop.py"]
        with (work / "said").open() as said:
            subprocess.run(asked, cwd=work, env=env, stdin=said, check=True, timeout=180)
    file = work / ".aider.chat.history.md"
    lines = [(str(file), line) for line in file.read_bytes().split(b"\n")]
    importing = AiderImport("acme")
    events = list(importing.events(lines))
    told = [(event["event_type"], event["content"]) for event in events]
    assert [(kind, content.get("success")) for kind, content in told] == [
        ("message", None), ("file_edit", True), ("message", None), ("test_run", False), ("message", None),
        ("test_run", True), ("command_exec", None), ("message", None), ("message", None),
    ]  # fmt: skip
    assert (told[0][1]["text"], told[2][1]["text"]) == ("Mend the shop", "I add it.")
    assert (told[1][1]["old_text"], told[1][1]["new_text"]) == ("x = 1", "x = 2")
    assert told[-1][1]["text"] == "It works."
    assert list(AiderImport("acme").events(lines)) == events
    assert importing.report.unreadable == []
