"""A pattern that thousands of sessions show: its artifact keeps every limit, whatever came first (HMX-A §12)."""

import random
from functools import cache
from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.canonical import canonical_json
from hmx_pipeline.contracts.evidence import EvidenceControl
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.limits import (
    ARTIFACT_BYTES,
    ARTIFACT_CONTENT_BYTES,
    ARTIFACT_SOURCES,
    ARTIFACT_TAGS,
    PATTERN_CONTRIBUTIONS,
    PATTERN_DEBOUNCE_MS,
)
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import ARTIFACTS, EVIDENCE
from tests.support.inprocess import barrier_record, run, sessions_fold
from tests.support.records import START_MS, LogRecord, log
from tests.support.sessions import session


@cache
def one() -> dict[str, Any]:
    """What one session says about its procedure."""
    records = log(list(enumerate(session(0))))
    for output in run(sessions_fold, [*records, barrier_record(9_000, offset=len(records))]).on(EVIDENCE):
        found: dict[str, Any] = orjson.loads(output.value or b"")
        if found.get("pattern_type") == "run":
            return found
    raise AssertionError("the session shows no procedure")


def said_by(number: int) -> bytes:
    name = f"session-{number}"
    return orjson.dumps(
        {
            **one(),
            "contribution_id": f"contribution-{number}",
            "outcome": "success",
            "session_id": name,
            "segment_id": f"{name}-0",
            "first_at": START_MS + number,
            "last_at": START_MS + number + 1,
            "source_events": [f"{name}-event-{k}" for k in range(12)],
            "tags": [f"tag-{number % 200}"],
        }
    )


def artifact_after(order: list[int]) -> dict[str, Any]:
    records = [
        LogRecord(0, n, START_MS, join_key("acme", "p", f"session-{number}", "0").encode(), said_by(number))
        for n, number in enumerate(order)
    ]
    value = EvidenceControl(kind="tick", barrier_id="", partition=0, partitions=1).to_json()
    end = LogRecord(0, len(order), START_MS + PATTERN_DEBOUNCE_MS, b"tick", value, [(KIND, b"tick")])
    (output,) = run(PatternsFold, [*records, end], cut=lambda left: min(left, 2_000)).on(ARTIFACTS)
    made: dict[str, Any] = orjson.loads(output.value or b"")
    return made


@pytest.mark.requirement("A-30", "X28")
@pytest.mark.parametrize("sessions", [3 * PATTERN_CONTRIBUTIONS // 2, pytest.param(50_000, marks=pytest.mark.slow)])
def test_an_artifact_of_many_sessions_keeps_every_limit_and_does_not_depend_on_their_order(sessions: int) -> None:
    made = artifact_after(list(range(sessions)))
    Artifact.model_validate(made)
    assert len(orjson.dumps(made)) <= ARTIFACT_BYTES
    assert len(canonical_json(made["content"])) <= ARTIFACT_CONTENT_BYTES
    assert PATTERN_CONTRIBUTIONS // 2 < len(made["source_memory_ids"]) <= PATTERN_CONTRIBUTIONS
    assert 0 < len(made["source_events"]) <= ARTIFACT_SOURCES
    assert len(made["tags"]) == ARTIFACT_TAGS
    assert artifact_after(random.Random(1).sample(range(sessions), sessions)) == made
