"""`hmx import claude-code` into the whole pipeline: imported twice, a session teaches once, and comes back."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.lessons import best
from hmx_pipeline.cli.transcripts import TENANT
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.settings import Settings
from tests.support.forked import PROGRAM
from tests.support.pipeline import environment, new_settings, running
from tests.support.transcripts import Transcript

SESSIONS = 4
EVENTS = 6 * SESSIONS + 2
REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\nnever run npm audit fix"
)


def write_sessions(folder: Path) -> None:
    """In each the tests fail, are mended by a command, and pass; one transcript ends in the middle of a line."""
    for number in range(SESSIONS):
        made = Transcript(f"s{number}")
        times = (f"2026-03-14T0{number}:00:{second:02d}.000Z" for second in range(60))
        made.user("Run the tests of the shop", next(times))
        made.ran("npm test", "Error: Cannot find module 'left-pad'\n1 failed", next(times), exit_code=1)
        made.ran("npm install --save left-pad", "added 1 package", next(times))
        made.ran("npm test", "12 passed", next(times))
        made.result(made.call("Bash", {"command": "npm audit fix"}, next(times)), REFUSED, next(times), ok=False)
        if number == 0:
            made.ran("npm publish a-1.2.tgz --acces public", "Unknown option: --acces", next(times), exit_code=1)
            made.ran("npm publish a-1.2.tgz --access public", "published", next(times))
        made.user("Thanks, that works perfectly", next(times))
        file = made.write(folder)
    with file.open("ab") as half:
        half.write(b'{"type": "user", "sessionId": "s3", "uu')


def hmx(settings: Settings, *words: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, *PROGRAM, *words, "--json"],
        env=environment(settings), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(json.loads(ran.stdout))


def test_what_is_imported_twice_teaches_once_and_comes_back(kafka: str, redis_url: str, tmp_path: Path) -> None:
    settings = new_settings(kafka, redis_url)
    write_sessions(tmp_path / "projects")
    (tmp_path / "logs").mkdir()
    asked = ("import", "claude-code", str(tmp_path / "projects"), "--tenant", TENANT)
    with running(settings, tmp_path / "logs", "worker", "materialiser", partitions=2):
        counted = hmx(settings, *asked, "--dry-run")
        assert counted["sent"] == 0
        told = [hmx(settings, *asked) for _ in range(2)]
        wait_for_all(settings)
        assert [one["sent"] for one in told] == [sum(counted["events"].values())] * 2 == [EVENTS] * 2
        assert told[0]["left_out"] == {"lines that cannot be read": 1}
        outcomes = verify(settings).outcomes
        assert (outcomes[Outcome.RELEASED], outcomes[Outcome.DUPLICATE]) == (EVENTS, EVENTS)
        pack = hmx(settings, "pack", "npm test fails: Cannot find module", "--tenant", TENANT)
        assert any("`npm install --save left-pad`" in entry["content"] for entry in pack["entries"])
        shown = [(kind, text) for kind, text, _ in best(settings, TENANT)]
        assert shown[0][0] == "fix"
        assert "`npm install --save left-pad`" in shown[0][1]
        assert ("correction", "npm audit: never run npm audit fix") in shown
        failed, worked = "npm publish a-1.2.tgz --acces public", "npm publish a-1.2.tgz --access public"
        once = f"`{failed}` fails\nError: Unknown option: --acces\nWorked: `{worked}`"
        assert [text for kind, text in shown if kind == "fix"][1:] == [once], "what helped in one session comes last"
