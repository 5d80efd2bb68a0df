"""An agent that reads its packs back into its events teaches memory nothing: what memory has said is no evidence."""

from itertools import chain
from typing import Any

import orjson

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from hmx_pipeline.retrieval.searchable import document, episode_step
from tests.support.inprocess import artifacts_of, events_log, law_five, run, sessions_fold
from tests.support.records import START_MS, event
from tests.support.sessions import session
from tests.support.talk import knowledge_of, said

STATED = said("stated", "Our database is Postgres.", "Always run the linter before committing.")
TAUGHT = [*chain.from_iterable(session(number) for number in range(24)), *STATED]
ECHOES = 10


def pack() -> list[str]:
    """What memory says of the procedures that the sessions have taught, and of what was said in them."""
    latest = {value["artifact_id"]: Artifact.model_validate(value) for value in artifacts_of(TAUGHT)}
    released = [run(lambda: sessions_fold(4, 4), log).episodes for log in events_log(TAUGHT).values()]
    documents = [found for e in chain.from_iterable(released) if (found := document(e, episode_step(e))) is not None]
    memory = MemorySnapshot(
        state_version="v",
        newest=START_MS,
        episodes=tuple(FoundSource(found, 10) for found in documents),
        artifacts=tuple(FoundSource(artifact, 10) for artifact in latest.values() if artifact.status == "active"),
    )
    request = PackRequest(query="deploy the service to staging", tenant_id="acme", token_budget=100_000)
    return [entry.content for entry in assemble(request, plan(request), memory).entries]


def echo(number: int, told: list[str]) -> list[dict[str, Any]]:
    """A session that holds nothing but what the pack has said, in every way in which agents pass it around."""
    prompt, line = "\n\n".join(told), told[number % len(told)]
    returned = {"entries": [{"content": text} for text in told]}
    told_again = [
        ("message", {"role": "system", "text": prompt}),
        ("message", {"role": "user", "text": line}),
        ("message", {"role": "assistant", "text": f"{line}\n\n{prompt}"}),
        ("tool_result", {"tool_name": "recall", "success": True, "result": returned}),
        ("error", {"error_type": "", "message": line}),
        ("observation", {"text": orjson.dumps({"entries": told}).decode()}),
        ("feedback", {"signal": "positive", "comment": line}),
    ]
    return events(number, told_again)


def typed_echo(number: int, told: list[str]) -> list[dict[str, Any]]:
    """The same as events of types that speak of the graph; that there was such an event may become known."""
    prompt, line = "\n\n".join(told), told[number % len(told)]
    told_again = [
        ("handoff.created", {"summary": line, "next_owner": line}),
        ("user.preference_changed", {"preference": line, "value": prompt}),
        ("goal.created", {"goal": line, "title": line, "text": prompt}),
        ("x-acme-note", {"note": prompt, "lines": told}),
    ]
    return events(number, told_again)


def events(number: int, told_again: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        event(f"echo-{number}", n, at=START_MS + 60_000 * number + n, event_type=kind, content=content)
        for n, (kind, content) in enumerate(told_again)
    ]


def test_replaying_a_pack_in_many_sessions_leaves_artifacts_and_knowledge_as_they_were() -> None:
    told = pack()
    assert any("Postgres" in text for text in told), "a fact is in it"
    assert any("\n1. " in text for text in told), "a procedure is in it"
    assert any(" user: " in text for text in told), "and what users have said"
    echoes = list(chain.from_iterable(echo(number, told) for number in range(ECHOES)))
    assert knowledge_of([*TAUGHT, *echoes]) == knowledge_of(TAUGHT) != []
    assert law_five(artifacts_of([*TAUGHT, *echoes])) == law_five(artifacts_of(TAUGHT)) != []


def test_events_that_speak_of_the_graph_say_nothing_that_a_pack_has_said() -> None:
    told = pack()
    echoes = list(chain.from_iterable(typed_echo(number, told) for number in range(ECHOES)))
    known = {record["record_id"]: record for record in knowledge_of(TAUGHT)}
    after = {record["record_id"]: record for record in knowledge_of([*TAUGHT, *echoes])}
    assert {record_id: after.get(record_id) for record_id in known} == known
    said = orjson.dumps([record for record_id, record in after.items() if record_id not in known]).decode()
    assert not [word for word in ("Postgres", "linter", "Build image", "Please") if word in said]


def test_without_the_mark_it_would_be_evidence() -> None:
    """Or the test above would hold of nothing."""
    told = [text.removeprefix("[hmx]").split("user: ")[-1] for text in pack()]
    asked = [text for text in told if text.startswith("Please rotate")]
    sessions = [
        [
            event(f"s-{n}", 0, content={"role": "user", "text": asked[0]}),
            event(f"s-{n}", 1, event_type="tool_call", content={"tool_name": "build_image", "arguments": {}}),
            event(f"s-{n}", 2, event_type="tool_call", content={"tool_name": "apply_manifest", "arguments": {}}),
            event(f"s-{n}", 3, event_type="feedback", content={"signal": "positive"}),
        ]
        for n in range(ECHOES)
    ]
    assert law_five(artifacts_of([*TAUGHT, *chain.from_iterable(sessions)])) != law_five(artifacts_of(TAUGHT))
