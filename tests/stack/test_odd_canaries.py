"""A person's word where nobody looks for one (tags, tools, options, keys, event types) reaches nobody else: no pack,
record, shared artifact or fingerprint holds it."""

import logging
from collections.abc import Iterator
from itertools import cycle, product
from typing import Any
from urllib.parse import unquote

import orjson
import pytest
from prometheus_client import REGISTRY, generate_latest

from hmx_pipeline.contracts.fingerprint import Tier
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.queries.fingerprint_query import make_fingerprint
from hmx_pipeline.store.subject_view import SubjectView
from tests.act.served import learn
from tests.stack.test_subject_canaries import NOBODY, QUESTIONS, STRANGER, WORDS, answer, others
from tests.support.memory import Memory
from tests.support.records import START_MS, event

Turn = tuple[str, dict[str, Any]]


def turns(word: str, subject: str) -> Iterator[Turn]:
    """Once in each of 24 places."""
    call = {"tool_name": "apply_manifest", "call_id": "1"}
    fix = {"tool_name": f"mcp__{word}__fix", "call_id": "2"}
    doubt = {"unknown_id": "u", "reason": "r", "claim_key": "k", "gap_type": "g", "status": "open"}
    about = {"authority_status": "non_authoritative", "source_events": [{"seq": 1, "hash": "a" * 64}]}
    yield "message", {"role": "user", "text": "Please deploy the ledger service to staging"}
    yield "message", {"role": "system", "text": "extracted_memories"}
    yield "goal.created", {"title": f"Ship the {word}", "description": word}
    yield "tool_call", {**call, "arguments": {"service": "ledger", word: "1"}}
    yield "tool_result", {**call, "success": False, "output": "cannot open it"}
    yield "error", {"error_type": f"{word}Error", "message": "cannot open it"}
    yield "tool_call", {**fix, "arguments": {"a": 1}}
    yield "tool_result", {**fix, "success": True, "output": "ok"}
    yield "command_exec", {"command": f"deployctl run --{word} ledger", "success": True, "exit_code": 0}
    yield "command_exec", {"command": f"{word}ctl run ledger", "success": True, "exit_code": 0}
    yield "file_edit", {"path": f"src/{word}/main.py", "success": True}
    yield "test_run", {"command": f"pytest {word}", "success": True}
    yield "tool_call", {**call, "call_id": "3", "arguments": {"service": "ledger"}}
    yield "tool_result", {**call, "call_id": "3", "success": True, "output": "applied"}
    yield "decision", {"question": "Which color for the logo?", "chosen_option": "blue", "alternatives": [word]}
    yield "decision", {"question": f"Which {word} to use?", "chosen_option": word, "alternatives": ["none"]}
    yield "handoff.created", {"title": word, "summary": f"Go on with {word}", "next_steps": [word]}
    yield "skill.proposed", {"skill_id": word, "name": word, "procedure": [word]}
    yield "issue.diagnosed", {"issue": "deploy", "root_cause": word, "fix": word}
    yield "metacognition.unknown.recorded", {**doubt, **about, "question": f"Where is the {word}?"}
    yield "user.preference_changed", {"userId": subject, "key": word, "value": word}
    yield f"x-{word}-note", {"text": word}
    yield "api_result", {"api": word, "result": word, "success": True}
    yield "feedback", {"signal": "positive", "comment": word}


def session(number: int, subject: str) -> list[dict[str, Any]]:
    word, at = WORDS[subject], START_MS - 86_400_000 + number * 600_000
    named = {"user_id": subject, "extractedMemories": [f"User likes {word}"], word: word}
    return [
        event(
            f"{number}",
            n,
            timestamp=format_ms(at + 1_000 * n),
            event_type=kind,
            content=content,
            agent_id=word if number % 2 else "shared-agent",
            metadata=named,
            tags=[word, "ops"],
            trace_id=word,
            source=word,
            provenance_ref=word,
            correlation_id=word,
        )
        for n, (kind, content) in enumerate(turns(word, subject))
    ]


@pytest.fixture(scope="module")
def learnt(redis_url: str) -> Iterator[Memory]:
    memory = Memory(redis_url, "odd-canaries-")
    memory.wipe()
    told = enumerate(who for who, _ in product(WORDS, range(4)))
    memory.write(*learn([one for number, who in told for one in session(number, who)], sharing="subjects"))
    yield memory
    memory.wipe()
    memory.client.close()


def held(text: str, subject: str | None) -> list[str]:
    return [word for word in others(subject) if word in text.casefold()]


@pytest.mark.parametrize("subject", [NOBODY, *WORDS, STRANGER])
def test_no_pack_holds_another_persons_odd_word(learnt: Memory, subject: str | None) -> None:
    for query, name in zip(QUESTIONS, cycle(("none", "0", "5"))):
        assert not held(answer(learnt, query, subject, session_id=name), subject), query


@pytest.mark.parametrize("subject", WORDS)
@pytest.mark.parametrize("kind", ["event", "contribution", "knowledge", "artifact"])
def test_no_record_that_a_bound_key_may_read_holds_it(learnt: Memory, subject: str, kind: str) -> None:
    tenant = learnt.keys.tenant("acme")
    read = getattr(SubjectView(learnt.store, "acme", subject), kind)
    names = [unquote(key.rpartition(b":")[2].decode()) for key in learnt.client.scan_iter(f"{tenant.root}:{kind}:*")]
    found = [record for name in names if (record := read(name)) is not None]
    assert len(found) < len(names)
    assert not held(repr(found), subject)


def test_no_shared_artifact_holds_it(learnt: Memory) -> None:
    every = [one for status in Status for one in learnt.store.all_artifacts("acme", None, status)]
    shared = [one for one in every if not one["metadata"].get("subject_id")]
    assert len(every) > len(shared) > 0
    assert not held(repr(shared), None)


@pytest.mark.parametrize("tier", Tier)
def test_no_fingerprint_holds_it(learnt: Memory, tier: Tier) -> None:
    told = make_fingerprint(learnt.store, "acme", tier).to_json()
    assert orjson.loads(told)["behavioral_patterns"]["sessions"] == (0 if tier is Tier.MINIMAL else 12)
    assert not held(told.decode(), None)


def test_no_metric_and_no_line_of_a_log_holds_it(learnt: Memory, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        learn(session(99, "ann"), sharing="subjects")
        answer(learnt, "What does it mean?", "ann")
    assert not held(caplog.text + generate_latest(REGISTRY).decode(), None)
