"""Before a tool call a pack tells what is about the call, and nothing that merely resembles it."""

from typing import Any

import pytest

from hmx_pipeline.doors.claude_code_hooks import read_hook
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest, PlannedCall
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from tests.pure.packs.test_drops import record
from tests.support.memory import T0, artifact, episode, fetched


def corrected(name: str, target: str, said: str, tool: str = "Bash") -> FoundSource[Any]:
    body = {"memory": "correction", "target": target, "tool": tool, "said": said}
    return FoundSource(record(name, f"user on {target}: {said}", body=body), 3_000_000)


def ruled(name: str, text: str, forbidden: str = "") -> Any:
    body = {"memory": "policy", "said_by": ["user"], "negated": bool(forbidden), "subject": forbidden}
    return record(name, text, kind="policy", body=body)


def playbook(name: str, verb: str) -> Any:
    content = {"failure_pattern": f"{verb} fails: no such module", "recovery_steps": ["Run `npm ci`"]}
    about = {"pattern": f"failure_playbook/error%0A{verb.replace(' ', '%20')}%0Ano such module"}
    return artifact(name, "No such module", artifact_type="failure_playbook", content=content, metadata=about)


MEMORY = MemorySnapshot(
    "v",
    T0,
    artifacts=(
        FoundSource(artifact("procedure", "Edit the totals, then run npm test and git push"), 1_000),
        FoundSource(playbook("tests fail", "run npm test"), 900),
        FoundSource(playbook("reads fail", "Read"), 900),
    ),
    knowledge=(
        corrected("push", "git push", "rebase first"),
        corrected("totals", "cart/totals.go", "round half up", "Edit"),
        corrected("other totals", "tax/totals.go", "never round", "Edit"),
        corrected("print", "cat", "can you explain the second one?"),
        corrected("search", "grep", "use rg instead of grep"),
        corrected("agent", "Task", "we have no user entity in the shop", "Task"),
        FoundSource(record("fact", "Edit git push npm test cat grep Task totals are words"), 2_000_000),
    ),
    policies=(
        ruled("pnpm", "Never use npm, use pnpm instead", "use npm, use pnpm instead"),
        ruled("lint", "Always run `mise run lint` before a push"),
        ruled("force", "Never force push to main", "force push to main"),
        ruled("sure", "Always make sure that prices are in euro"),
        ruled("file", "Always keep totals.go sorted"),
    ),
)


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("Bash", {"command": "git push origin topic"}, {"push"}),
        ("Bash", {"command": "cd shop && git add . && git push --force origin main"}, {"push", "force"}),
        ("Bash", {"command": "npm test"}, {"tests fail", "pnpm"}),
        ("Bash", {"command": "mise run lint 2>&1 | tail -20"}, {"lint"}),
        ("Bash", {"command": "cat notes.txt | grep euro"}, {"search"}),
        ("Bash", {"command": "make build"}, set()),
        ("Bash", {"command": "git status"}, set()),
        ("Edit", {"file_path": "/home/dev/shop/cart/totals.go", "new_string": "b"}, {"totals", "file"}),
        ("Edit", {"file_path": "/home/dev/shop/cart/page.go", "new_string": "b"}, set()),
        ("Read", {"file_path": "/home/dev/shop/web/page.go"}, set()),
        ("Task", {"description": "Find users", "prompt": "Where is the user entity of the shop?"}, set()),
    ],
)  # fmt: skip
def test_only_what_is_about_the_call_comes_before_it(tool: str, given: dict[str, str], told: set[str]) -> None:
    assert told_by("PreToolUse", tool_name=tool, tool_input=given) == told
    command = given.get("command") or given.get("file_path", "").removeprefix("/home/dev/shop/")
    request = PackRequest(
        query=f"{tool} {command}".strip(),
        tenant_id="acme",
        token_budget=1_000,
        before_call=PlannedCall(tool=tool, command=command),
    )
    assert {entry.source_id for entry in assemble(request, plan(request), MEMORY).entries} == told


def test_after_a_failure_what_users_said_of_other_calls_stays_away() -> None:
    given = {"command": "git push && npm test"}
    told = told_by("PostToolUseFailure", tool_name="Bash", tool_input=given, error="no such module cat grep totals")
    assert told >= {"push", "fact", "procedure"}
    assert told.isdisjoint({"totals", "other totals", "print", "search", "agent"})


def test_nobody_is_told_before_a_call_what_was_once_said_in_its_words() -> None:
    memory = fetched([episode("e1", "Then I ran git push origin main")])
    request = PackRequest(query="git push origin main", tenant_id="acme", token_budget=1_000)
    assert assemble(request, plan(request), memory).entries, "asked at large, it is"
    before = request.model_copy(update={"before_call": PlannedCall(tool="Bash", command="git push origin main")})
    assert not assemble(before, plan(before), memory).entries


def told_by(hook: str, **fields: Any) -> set[str]:
    call = read_hook({"hook_event_name": hook, "session_id": "s", "cwd": "/home/dev/shop", **fields})
    assert call is not None
    assert call.question is not None
    asked = call.question
    request = PackRequest(query=asked.query, tenant_id="acme", token_budget=1_000, sections=list(asked.sections))
    return {entry.source_id for entry in assemble(request, plan(request), MEMORY, asked.call).entries}
