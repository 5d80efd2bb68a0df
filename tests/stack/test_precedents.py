"""What past sessions did reaches the packs of one that is under way, from a real Redis."""

import random
from typing import Any

import jsonschema
import orjson
import pytest

from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.pack import WorkflowHints
from hmx_pipeline.contracts.schemas import documents
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import EPISODES, EVIDENCE
from tests.quality.remembered import as_read
from tests.support.inprocess import barrier_record, run, sessions_fold
from tests.support.memory import Memory, episode, episode_as_read
from tests.support.records import START_MS, log
from tests.support.sessions import interleaved, session

QUESTION = "Please deploy the ledger service to staging"


def told(count: int, tenant: str = "acme") -> list[TopicRecord]:
    """What the sessions stage publishes of so many sessions."""
    records = log(list(enumerate(interleaved([session(n, tenant) for n in range(count)], 1))))
    outputs = run(sessions_fold, [*records, barrier_record(9_000, offset=len(records))]).outputs
    return as_read(outputs, EPISODES, EVIDENCE)


def begun(*tools: str, said: str = QUESTION, first: int = 1_000) -> list[TopicRecord]:
    """A session that has just used these tools; `!`: that failed."""
    made: list[tuple[str, dict[str, Any]]] = [("message", {"role": "user", "text": said})]
    for number, tool in enumerate(tools):
        name, ok = tool.removeprefix("!"), not tool.startswith("!")
        made.append(("tool_call", {"tool_name": name, "arguments": {}, "call_id": f"{number}"}))
        made.append(("tool_result", {"tool_name": name, "call_id": f"{number}", "success": ok}))
    at = START_MS + 86_400_000
    episodes = [
        episode(f"now-{n}", session="now", event_type=kind, content=content, index=n, at=at + n)
        for n, (kind, content) in enumerate(made)
    ]
    return [episode_as_read(fields, first + n) for n, fields in enumerate(episodes)]


def hints(memory: Memory, query: str = QUESTION, **asked: Any) -> WorkflowHints | None:
    return memory.pack(query, session_id="now", **asked).workflow_hints


def tools(found: WorkflowHints | None) -> list[str]:
    return [tool for step in found.suggested_next_steps for tool in step.tools] if found else []


@pytest.mark.requirement("C-03", "C-18")
def test_a_pack_says_what_past_sessions_did_next_and_names_one_that_did(memory: Memory) -> None:
    memory.write(*told(24), *begun("build_image"))
    pack = memory.pack(QUESTION, session_id="now")
    jsonschema.validate(orjson.loads(pack.to_json()), documents()["context-pack.json"])
    assert pack.workflow_hints is not None
    step = pack.workflow_hints.suggested_next_steps[0]
    assert (step.description, step.tools) == ("Check namespace", ["check_namespace"])
    assert step.confidence > 0.5
    source = memory.store.get_contribution("acme", step.artifact_id)
    assert source is not None
    assert pack.metadata["precedents"][step.artifact_id] == {"session_id": source["session_id"]}
    assert all(isinstance(memory.store.get_event("acme", event), dict) for event in source["source_events"])


@pytest.mark.requirement("C-18")
def test_after_a_failure_a_pack_says_what_was_done_after_it_before(memory: Memory) -> None:
    memory.write(*told(24), *begun("build_image", "check_namespace", "!apply_manifest"))
    found = hints(memory)
    assert found is not None
    assert found.blockers
    assert tools(found)[0] == "create_namespace"


def test_who_asks_for_no_session_and_who_has_no_past_gets_no_advice(memory: Memory) -> None:
    memory.write(*told(24), *begun("build_image"))
    assert memory.pack(QUESTION).workflow_hints is None
    assert memory.pack(QUESTION, "zeta", session_id="now").workflow_hints is None


def test_another_tenants_past_is_no_precedent(memory: Memory) -> None:
    memory.write(*begun("build_image"))
    memory.write(*told(24, "zeta"))
    assert tools(hints(memory)) == []


def test_what_a_session_did_itself_is_no_precedent(memory: Memory) -> None:
    memory.write(*told(24))
    one = memory.pack(QUESTION, session_id="session-1").metadata.get("precedents", {})
    assert one
    assert {"session_id": "session-1"} not in one.values()


def test_advice_keeps_to_what_the_pack_is_asked_to_rest_on(memory: Memory) -> None:
    records = told(24)
    memory.write(*records, *begun("build_image"))

    def sessions(**asked: Any) -> set[str]:
        named = memory.pack(QUESTION, session_id="now", **asked).metadata.get("precedents", {})
        return {each["session_id"] for each in named.values()}

    assert sessions()
    deploy = next(iter(sessions()))
    assert sessions(lineage={"session_id": deploy}) == {deploy}
    assert sessions(lineage={"agent_id": "nobody"}) == set()
    assert sessions(as_of=format_ms(START_MS - 30 * 86_400_000)) == set()


def test_a_contribution_that_is_withdrawn_or_whose_events_have_expired_advises_nothing(memory: Memory) -> None:
    records = told(24)
    memory.write(*records, *begun("build_image"))
    assert tools(hints(memory))
    courses = [r for r in records if r.topic == EVIDENCE and b'"pattern_type":"course"' in (r.value or b"")]
    half = len(courses) // 2
    memory.write(*(withdrawn(record, 10_000 + n) for n, record in enumerate(courses[:half])))
    gone = {orjson.loads(record.value or b"")["session_id"] for record in courses[:half]}
    named = memory.pack(QUESTION, session_id="now").metadata["precedents"]
    assert gone.isdisjoint(each["session_id"] for each in named.values())
    rests_on = [event for r in courses[half:] for event in orjson.loads(r.value or b"")["source_events"]]
    expiring = [episode(event, at=START_MS, index=n, ttl_seconds=60) for n, event in enumerate(rests_on)]
    memory.write(*(episode_as_read(fields, 20_000 + n) for n, fields in enumerate(expiring)))
    assert tools(hints(memory)) == []


def withdrawn(record: TopicRecord, offset: int) -> TopicRecord:
    said = Contribution.model_validate_json(record.value or b"")
    return record._replace(offset=offset, value=said.model_copy(update={"withdrawn": True}).to_json())


@pytest.mark.requirement("C-23")
@pytest.mark.parametrize("bound", [3, 8, 4_096])
def test_what_is_remembered_of_precedents_is_what_a_process_that_has_just_begun_finds(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    """While contributions come, are replaced and withdrawn, and lose their places in the samples."""
    monkeypatch.setattr("hmx_pipeline.store.changes.PATTERN_SAMPLE", bound)
    dice = random.Random(bound)
    waiting = [r for r in told(24) if r.topic == EVIDENCE and r.value and b"pattern_type" in r.value]
    memory.write(*begun("build_image"))
    written: list[TopicRecord] = []
    for turn in range(12):
        block = [waiting.pop(dice.randrange(len(waiting))) for _ in range(min(len(waiting), dice.randrange(40)))]
        block += [withdrawn(record, 0) for record in dice.sample(written, min(len(written), turn % 3))]
        at = 1_000 * (turn + 1)
        block = [record._replace(offset=at + n) for n, record in enumerate(block)]
        if block:
            memory.write(*block)
        written += block
        asked = plan(PackRequest(query=QUESTION, tenant_id="acme", session_id="now"))
        found = memory.store.fetch(asked)
        assert found == Store([memory.client], memory.keys).fetch(asked)
        held = memory.client.hlen(memory.keys.tenant("acme").precedent_cards)
        assert held <= 2 * bound
        if turn > 3:
            assert found.precedents
    assert all(memory.store.get_contribution("acme", one.source.contribution_id) for one in found.precedents)


@pytest.mark.requirement("K-05")
def test_precedents_are_the_same_after_memory_was_built_anew_in_other_blocks(memory: Memory) -> None:
    records = [*told(12), *begun("build_image")]
    memory.write(*records)
    before, pack = memory.dump(), memory.pack(QUESTION, session_id="now")
    memory.wipe()
    for start in range(0, len(records), 7):
        memory.write(*records[start : start + 7])
    assert memory.dump() == before
    assert memory.pack(QUESTION, session_id="now") == pack
