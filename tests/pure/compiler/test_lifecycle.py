"""Whatever the evidence does, the published records keep HMX-A §5 and §7."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.compiler.lifecycle import LastPublished, step
from hmx_pipeline.contracts.artifact import TRANSITIONS, Artifact
from hmx_pipeline.contracts.canonical import content_hash
from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.options import Status

PATTERN = Pattern("task_schema", "1:deploy")
ACTIVE = ArtifactCandidate(
    title="Deploy",
    summary="Build, then apply.",
    content={"steps": [1]},
    confidence=0.75,
    status=Status.ACTIVE,
    source_events=["e1"],
    tags=["deploy"],
    observed_count=5,
    success_rate=1.0,
    newest_at=1_000,
    source_memory_ids=["c1"],
    checked={"sessions": 5},
)
CANDIDATES = st.none() | st.builds(
    lambda content, status, confidence, at, contradicted: replace(
        ACTIVE,
        content={"steps": [content]},
        status=status,
        confidence=confidence,
        newest_at=at,
        contradicted=contradicted,
    ),
    st.integers(0, 2),
    st.sampled_from([Status.DRAFT, Status.ACTIVE]),
    st.sampled_from([0.4, 0.6]),
    st.integers(0, 3),
    st.sampled_from(["", "", "", "it went well in 1 of the last 10 sessions only"]),
)
MUTABLE = {"status", "superseded_by", "updated_at", "metadata"}


def published(candidates: list[ArtifactCandidate | None]) -> list[Artifact]:
    said: LastPublished | None = None
    log: list[Artifact] = []
    for now, candidate in enumerate(candidates):
        said, out = step(said, candidate, "acme", PATTERN, now)
        if said is not None:
            said = LastPublished.model_validate_json(said.to_json())
        log += out
    return log


@pytest.mark.requirement("A-03", "A-08", "A-17", "A-20", "A-24", "A-25", "A-26", "A-27", "X09")
@given(st.lists(CANDIDATES, max_size=12))
def test_every_history_is_legal(candidates: list[ArtifactCandidate | None]) -> None:
    log = published(candidates)
    newest: dict[str, Artifact] = {}
    for record in log:
        before = newest.get(record.artifact_id)
        if before is None:
            assert record.status in (Status.DRAFT, Status.ACTIVE)
        else:
            assert before.status is record.status or (before.status, record.status) in TRANSITIONS
            one, other = before.model_dump(exclude=MUTABLE), record.model_dump(exclude=MUTABLE)
            assert one == other
            moved = record.metadata["transition"]
            assert (moved["from"], moved["to"]) == (before.status, record.status)
            assert moved["cause"]
        newest[record.artifact_id] = record
        assert sum(a.status is Status.ACTIVE for a in newest.values()) <= 1
        assert record.content_hash == content_hash(record.content)
    for artifact in newest.values():
        if artifact.supersedes is not None:
            predecessor = newest[artifact.supersedes]
            assert predecessor.superseded_by == artifact.artifact_id
            assert predecessor.status is Status.SUPERSEDED
            assert artifact.version == predecessor.version + 1
        else:
            assert artifact.version == 1
        if artifact.superseded_by is not None:
            assert newest[artifact.superseded_by].supersedes == artifact.artifact_id


@pytest.mark.requirement("A-20")
@given(st.lists(CANDIDATES, max_size=12))
def test_a_draft_never_supersedes_an_active(candidates: list[ArtifactCandidate | None]) -> None:
    log = published(candidates)
    once_active = {record.artifact_id for record in log if record.status is Status.ACTIVE}
    first = {record.artifact_id: record for record in reversed(log)}
    for record in first.values():
        if record.supersedes in once_active:
            assert record.status is Status.ACTIVE


@given(st.lists(CANDIDATES, max_size=8), CANDIDATES)
def test_the_same_twice_says_nothing_new(
    candidates: list[ArtifactCandidate | None], last: ArtifactCandidate | None
) -> None:
    assert published([*candidates, last, last]) == published([*candidates, last])


@given(st.lists(CANDIDATES, max_size=8), CANDIDATES)
def test_what_is_active_in_the_end_is_the_last_candidate_whatever_came_before(
    candidates: list[ArtifactCandidate | None], last: ArtifactCandidate | None
) -> None:
    newest = {record.artifact_id: record for record in published([*candidates, last])}
    active = [a for a in newest.values() if a.status is Status.ACTIVE]
    if last is None or last.contradicted or last.status is Status.DRAFT:
        assert active == []
    else:
        (one,) = active
        assert (one.content, one.confidence, one.source_events) == (last.content, last.confidence, last.source_events)


@pytest.mark.requirement("A-17", "X09")
def test_predecessor_goes_out_first() -> None:
    old, superseded, new = published([ACTIVE, replace(ACTIVE, content={"steps": [2]})])
    assert (superseded.artifact_id, superseded.status, superseded.superseded_by) == (
        old.artifact_id, Status.SUPERSEDED, new.artifact_id,
    )  # fmt: skip
    assert (new.version, new.supersedes, new.updated_at) == (2, old.artifact_id, None)
    assert superseded.updated_at == "1970-01-01T00:00:00.001Z"


def test_a_pattern_that_recovers_opens_another_chain_with_the_cause_on_record() -> None:
    first, gone, again = published([ACTIVE, None, ACTIVE])
    assert gone.status is Status.DEPRECATED
    assert gone.metadata["transition"]["cause"] == "no evidence for it is left"
    assert again.artifact_id != first.artifact_id
    assert (again.version, again.supersedes, again.metadata["chain"]) == (1, None, 2)


def test_every_active_artifact_says_what_made_it_active() -> None:
    (active,) = published([ACTIVE])
    assert active.metadata["transition"] == {"from": "draft", "to": "active", "cause": "validation passed"}
    assert active.metadata["checked"] == {"sessions": 5}
    (draft,) = published([replace(ACTIVE, status=Status.DRAFT)])
    assert "transition" not in draft.metadata


def test_a_superseded_artifact_says_what_newer_evidence_has_changed() -> None:
    _, superseded, _ = published([ACTIVE, replace(ACTIVE, content={"steps": [2]}, confidence=0.8)])
    cause = "version 2 was compiled from newer evidence: content, confidence"
    assert superseded.metadata["transition"] == {"from": "active", "to": "superseded", "cause": cause}


def test_validation_alone_makes_a_draft_active_under_the_same_id() -> None:
    draft, active = published([replace(ACTIVE, status=Status.DRAFT), ACTIVE])
    assert draft.artifact_id == active.artifact_id
    assert (draft.status, active.status) == (Status.DRAFT, Status.ACTIVE)


@pytest.mark.requirement("A-02")
@given(st.lists(CANDIDATES, max_size=12))
def test_a_replay_mints_the_same_ids_and_different_records_different_ones(
    candidates: list[ArtifactCandidate | None],
) -> None:
    log = published(candidates)
    assert log == published(candidates)
    opened = [(r.metadata["chain"], r.version) for r in log if r.updated_at is None]
    assert len({r.artifact_id for r in log}) == len(set(opened)) == len(opened)
