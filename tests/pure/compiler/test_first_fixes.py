"""What helped in one session only: told where a command, or the argument that the error names, is known whole."""

from collections.abc import Iterator

import pytest

from hmx_pipeline.compiler import failure_playbook
from hmx_pipeline.compiler.first_fixes import FirstFix, first_fix
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.doors.claude_code_transcripts import ClaudeCodeImport
from tests.support.inprocess import events_log, run, sessions_fold
from tests.support.transcripts import CWD, Transcript


def ticks() -> Iterator[str]:
    return (f"2026-03-14T09:00:{second:02d}.000Z" for second in range(60))


def fixes_of(*calls: tuple[str, dict[str, str], str]) -> list[FirstFix]:
    """Of one session with these calls of tools, each with the error that it ended with, or none."""
    made, at = Transcript("s1"), ticks()
    made.user("Ship the branch", next(at))
    for tool, arguments, error in calls:
        made.result(made.call(tool, arguments, next(at)), error or "done", next(at), ok=not error, told="done")
    made.user("Thanks, that works perfectly", next(at))
    events = ClaudeCodeImport("acme").events(("s1.jsonl", line) for line in made.written())
    (log,) = events_log(events, 1).values()
    learnt = (Contribution.model_validate(one) for one in run(sessions_fold, log).contributions)
    return [fix for one in learnt if one.pattern_type == failure_playbook.NAME and (fix := first_fix(one))]


def bash(command: str, error: str = "") -> tuple[str, dict[str, str], str]:
    return "Bash", {"command": command}, f"Exit code 1\n{error}" if error else ""


REJECTED = "! [rejected] ann/shop-7 -> ann/shop-7 (non-fast-forward)"


def test_the_command_that_worked_instead_is_told_with_the_one_that_failed() -> None:
    (fix,) = fixes_of(
        bash("git push origin ann/shop-7", REJECTED),
        bash("git pull --rebase origin ann/shop-7 && git push origin ann/shop-7"),
    )
    assert fix == (
        "git push origin ann/shop-7",
        REJECTED,
        ("git pull --rebase origin ann/shop-7 && git push origin ann/shop-7",),
    )
    (flag,) = fixes_of(bash("gh pr diff 88 --stat", "unknown flag: --stat"), bash("gh pr diff 88 --name-only"))
    assert (flag.failed, flag.worked) == ("gh pr diff 88 --stat", ("gh pr diff 88 --name-only",))
    assert 0 < flag.likeness < fix.likeness < 1


def test_of_a_call_the_argument_that_the_error_names_is_told() -> None:
    (fix,) = fixes_of(
        ("Skill", {"skill": "team:plan", "args": "a.md"}, "Unknown skill: team:plan"),
        ("Skill", {"skill": "plan", "args": "b.md"}, ""),
    )
    assert fix == ("Skill(skill=team:plan)", "Unknown skill: team:plan", ("Skill(skill=plan)",))


@pytest.mark.parametrize(
    "calls",
    [
        [bash("git push", REJECTED)],
        [bash("ls scripts", "ls: scripts: No such file or directory"), bash("ls tools")],
        [bash("pytest a.py", "1 failed: no such fixture"), bash("pytest b.py")],
        [
            bash("make image", "error: no such file in setup.py"),
            ("Edit", {"file_path": f"{CWD}/setup.py", "old_string": "a", "new_string": "b"}, ""),
            bash("make image"),
        ],
        [("Read", {"file_path": "/a/b.py"}, "File does not exist: /a/b.py"), ("Read", {"file_path": "/a/c.py"}, "")],
        [bash("echo 'a\nb' | tally", "error: unknown option"), bash("echo 'a\nb' | tally --all")],
    ],
    ids=["nothing helped", "looked elsewhere", "a check", "an edit helped", "read another file", "several lines"],
)
def test_what_no_command_helped_or_nobody_could_run_again_is_no_fix(
    calls: list[tuple[str, dict[str, str], str]],
) -> None:
    assert fixes_of(*calls) == []
