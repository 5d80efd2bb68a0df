"""Aider's history as events: every event is accepted, the same twice, and what it does not tell is not made up."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.doors.aider_history import AiderImport
from hmx_pipeline.doors.draft import ImportReport
from hmx_pipeline.intake.decode import Accepted, decode

Json = dict[str, Any]
HEAD = """
# aider chat started at 2026-03-14 09:00:00

> You can skip this check with --no-gitignore  
> Aider v0.86.2  
> Git repo: .git with 3 files  
"""  # noqa: W291  aider ends its lines with two spaces
WORKED = """
#### /add shop.py  
> Added shop.py to the chat  

#### Make the tests pass  
####   
#### and keep it short  

I add the import.

#### What changes

shop.py
```python
<<<<<<< SEARCH
x = 1
=======
import left_pad
x = 1
>>>>>>> REPLACE
```

> a quote of the model

> Tokens: 2.1k sent, 88 received.  
> Applied edit to shop.py  
> Commit 1a2b3c4 fix: Import left_pad  

Shall I install it?

> pip install left_pad  
> Run shell command? (Y)es/(N)o/(D)on't ask again [Yes]: y  
>   
> Running pip install left_pad  
> Add command output to the chat? (Y)es/(N)o/(D)on't ask again [Yes]: n  

#### /test pytest -q  
> Added 3 lines of output to the chat.  

Mended.

> Tokens: 2.1k sent, 8 received.  
> Warning: this goes
on over lines
and ends  

#### /test pytest -q  

#### /ask Why left_pad?  

#### Why left_pad?  

It pads.
"""  # noqa: W291


def imported(*files: str) -> tuple[list[Json], ImportReport]:
    importing = AiderImport("acme")
    lines = [(f"{n}.md", line) for n, text in enumerate(files) for line in text.encode(errors="replace").split(b"\n")]
    events = list(importing.events(lines))
    assert all(isinstance(decode(orjson.dumps(event)), Accepted) for event in events)
    return events, importing.report


def test_a_history_becomes_what_was_said_and_done() -> None:
    events, report = imported(HEAD + WORKED)
    told = [(event["event_type"], event["content"]) for event in events]
    assert [kind for kind, _ in told] == [
        "message", "file_edit", "command_exec", "message", "test_run", "message", "test_run", "message", "message",
    ]  # fmt: skip
    assert told[0][1]["text"] == "Make the tests pass\n\nand keep it short"
    edit = {"path": "shop.py", "operation": "modify", "success": True}
    assert told[1][1] == {**edit, "old_text": "x = 1", "new_text": "import left_pad\nx = 1"}
    assert told[2][1] == {"command": "pip install left_pad"}
    assert told[3][1]["text"] == "Shall I install it?"
    assert [(one["command"], one["success"]) for _, one in (told[4], told[6])] == [
        ("pytest -q", False), ("pytest -q", True),
    ]  # fmt: skip
    assert [one["text"] for _, one in (told[5], told[7], told[8])] == ["Mended.", "Why left_pad?", "It pads."]
    assert {event["timestamp"] for event in events} == {"2026-03-14T09:00:00Z"}
    assert {event["agent_id"] for event in events} == {"aider"}
    assert report.left_out["words of the assistant between its calls"] == 1
    assert report.left_out["commands to the client"] == 2


def test_what_was_imported_is_not_told_again_and_a_longer_history_only_adds() -> None:
    events, _ = imported(HEAD + WORKED)
    again, report = imported(HEAD + WORKED, HEAD + WORKED)
    assert again == events
    assert report.left_out["events copied from another file"] == len(events)
    longer, _ = imported(HEAD + WORKED + "\n#### Thanks  \n" + HEAD.replace("09:00:00", "10:00:00") + "\n#### Hi  \n")
    assert longer[: len(events)] == events
    assert len({event["session_id"] for event in longer}) == 2


def test_a_refused_command_and_edit_are_feedback_and_so_is_an_undo() -> None:
    asked = "Run shell command? (Y)es/(N)o/(D)on't ask again [Yes]:"
    text = f"\n#### Clean up  \n\nSure.\n\n> rm -rf /  \n> {asked} n  \n> Skipping edits to a.py  \n\n#### /undo  \n"
    events, _ = imported(HEAD + text)
    assert [event["event_type"] for event in events] == ["message", "feedback", "feedback", "message", "feedback"]
    assert [event["metadata"].get("rejected_command") for event in events[1:3]] == ["rm -rf /", "a.py"]


def test_a_test_of_which_nothing_follows_is_not_taken_for_passed() -> None:
    events, report = imported(HEAD + "\n#### /test pytest -q  \n")
    assert events == []
    assert report.left_out["calls without a result"] == 1


@pytest.mark.parametrize("half", range(0, len(HEAD + WORKED), 41))
def test_of_half_a_history_the_beginning_is_the_same(half: int) -> None:
    whole, found = (
        [event["event_id"] for event in imported(text)[0]] for text in (HEAD + WORKED, (HEAD + WORKED)[:half])
    )
    assert found[:-1] == whole[: max(0, len(found) - 1)]


def test_what_is_no_history_is_named() -> None:
    _, report = imported("# My notes\n\n> a  \n", "# aider chat started at 2026-99-01 10:00:00\n\n#### Hi  \n")
    assert report.unreadable == [
        "0.md: no session begins in it", "1.md: no time: # aider chat started at 2026-99-01 10:00:00",
    ]  # fmt: skip


@given(st.lists(st.sampled_from([*(HEAD + WORKED).split("\n"), "<<<<<<< SEARCH", "=======", "> ", "####   ", "```"])))
def test_no_order_of_lines_breaks_an_import(lines: list[str]) -> None:
    text = "\n".join(["# aider chat started at 2026-03-14 09:00:00", *lines])
    assert imported(text)[0] == imported(text, text)[0]
