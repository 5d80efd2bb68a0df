"""Whatever tenants write is text in a terminal: it colours nothing, moves no cursor, and begins no line of its own."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from msgspec import structs
from rich.text import Text

from hmx_pipeline.cli import archive, console, opened_memory, table, watch
from hmx_pipeline.cli import memory as commands
from hmx_pipeline.cli.console import ERR, OUT, fail, plain, print_json
from hmx_pipeline.contracts.pack import WorkflowHints
from hmx_pipeline.contracts.safe_text import on_one_line
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import Made
from hmx_pipeline.stages.state_tables import SessionRow
from hmx_pipeline.store.fetch import Store
from tests.support.hostile import ALL
from tests.support.memory import artifact, episode, fetched
from tests.support.records import event

OURS = re.compile(r"\x1b\[[0-9;]*m")
Terminal = Callable[[], str]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """What a colour terminal of 80 columns is sent, less the colours of our own."""
    for each in (OUT, ERR):
        monkeypatch.setattr(each, "_force_terminal", True)
        monkeypatch.setattr(each, "_width", 80)
    with OUT.capture() as out, ERR.capture() as err:
        yield lambda: OURS.sub("", "".join((*(s.text for s in OUT._buffer), *(s.text for s in ERR._buffer))))
    del out, err


def check(sent: str, text: str, times: int = 1) -> None:
    """All of it is printable, and what the tenant wrote is there, however it was wrapped."""
    assert all(character.isprintable() or character == "\n" for character in sent)
    assert flat(sent).count(flat(on_one_line(text))) >= times, sent


def flat(text: str) -> str:
    return "".join(text.split())


def hostile(text: str) -> dict[str, Any]:
    content = {"steps": [{"order": 1, "description": text, "tools_used": [text]}], "preconditions": [text]}
    made = artifact(f"a1{text}", text, artifact_type="x-acme-runbook", content=content, tags=[text], summary=text)
    return orjson.loads(made.to_json())


def memory() -> Store:
    return cast("Store", SimpleNamespace(get_artifact=lambda *_: None))


@pytest.mark.parametrize("text", ALL)
def test_a_message_is_one_line_whatever_it_quotes(terminal: Terminal, text: str) -> None:
    with pytest.raises(SystemExit):
        opened_memory.tenant_or_only([text, "acme"], f"not {text}")
    check(terminal(), text, 2)
    assert terminal().count("\n") == 1


@pytest.mark.parametrize("text", ALL)
def test_the_tenants_to_choose_from_are_one_line(terminal: Terminal, text: str) -> None:
    with pytest.raises(SystemExit):
        opened_memory.tenant_or_only([text, "acme"], None)
    check(terminal(), text)
    assert terminal().count("\n") == 1


@pytest.mark.parametrize("text", ALL)
def test_an_artifact_and_the_list_of_them_are_text(terminal: Terminal, text: str) -> None:
    made = hostile(text)
    commands.show_artifacts([made], text)
    commands.show_artifact(made)
    check(terminal(), text, 2)


@pytest.mark.parametrize("text", ALL)
def test_a_pack_is_text(terminal: Terminal, text: str) -> None:
    found = [*fetched([episode(f"e{i}", "deploy it", index=i) for i in range(2)]).episodes]
    sources = [
        structs.replace(each.source, text=f"deploy {text}", event_id=f"{i}{text}") for i, each in enumerate(found)
    ]
    held = [structs.replace(one, source=source, made=Made()) for one, source in zip(found, sources, strict=True)]
    request = PackRequest(query=f"how to deploy {text}", tenant_id="acme", explain=True)
    made = assemble(request, plan(request), replace(fetched(), episodes=tuple(held)))
    hints = WorkflowHints(suggested_next_steps=[], blockers=[f"x {text}"])
    commands.show_pack(orjson.loads(made.model_copy(update={"workflow_hints": hints}).to_json()))
    assert made.entries
    assert made.dropped_entries
    check(terminal(), "deploy")
    assert flat(on_one_line(f"0{text}")) in flat(terminal())


@pytest.mark.parametrize("text", ALL)
def test_a_line_of_watch_is_one_line(text: str) -> None:
    line = {
        "time": "2026-03-14T03:00:00.000Z", "tenant_id": text, "kind": "episode", "session_id": text,
        "event_type": text, "late": False, "text": text,
    }  # fmt: skip
    shown = Text.from_markup(watch.sentence(line), emoji=False)
    check(shown.plain, " ".join(text.split()), 4)
    assert all(str(span.style) in ("dim", "cyan") for span in shown.spans)


@pytest.mark.parametrize("text", ALL)
def test_cells_of_tables_are_text(terminal: Terminal, text: str) -> None:
    OUT.print(console.table("one", ("a", "b"), [(f"x{text}", 1_000)]))
    row = SessionRow(text, text, 1, 0, 2, 0, 0, 0)
    OUT.print(console.table("two", ("tenant",), [table._session(row)[:1]]))
    check(terminal(), text)


@pytest.mark.parametrize("text", ALL)
def test_markup_goes_on_behind_what_others_wrote(text: str) -> None:
    shown = Text.from_markup(f"[bold]{plain(text)}[/] [dim]after[/]", emoji=False)
    assert shown.plain == f"{on_one_line(text)} after"
    assert [str(span.style) for span in shown.spans if span.end > span.start] == ["bold", "dim"]


@pytest.mark.parametrize("text", ALL)
def test_a_refusal_names_artifacts_on_one_line(terminal: Terminal, text: str) -> None:
    with pytest.raises(SystemExit):
        archive._refuse(memory(), "acme", hostile(text) | {"status": "archived", "metadata": {}})
    check(terminal(), text)
    assert terminal().count("\n") == 1


@pytest.mark.parametrize("text", ALL)
def test_json_for_a_terminal_says_the_same_in_printable_characters(
    text: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    print_json({text: [text]})
    written = capfdbinary.readouterr().out
    assert orjson.loads(written) == {text: [text]}
    assert all(character.isprintable() or character == "\n" for character in written.decode())


def test_an_error_of_several_lines_of_our_own_keeps_them(terminal: Terminal) -> None:
    with pytest.raises(SystemExit):
        fail("it ended:\nlast \x1b[31mwords")
    assert terminal() == "error: it ended:\nlast ␛[31mwords\n"


def test_a_command_in_a_real_terminal_sends_nothing_of_a_tenants_escapes(tmp_path: Path) -> None:
    lines = [event(f"s{text}", n, tenant_id=f"t{text}", event_type="message") for n, text in enumerate(ALL)]
    lines += [event("s", n, hmx_version=text) for n, text in enumerate(ALL)]
    file = tmp_path / "hostile.ndjson"
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    sent = in_a_terminal(sys.executable, "-m", "hmx_pipeline.cli", "validate", str(file))
    assert "Would be rejected" in sent
    # A bar that is drawn anew moves the cursor up and shows it again; nothing else does.
    assert all(c.isprintable() or c in "\r\n" for c in re.sub(r"\x1b\[(?:[0-9;]*m|\?25[hl]|2K|1A)", "", sent))


def in_a_terminal(*command: str) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm-256color"}
    ):
        os.close(theirs)
        sent = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not part:
                break
            sent += part
    os.close(ours)
    return sent.decode()
