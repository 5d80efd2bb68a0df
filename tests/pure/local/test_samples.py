"""The sample sessions: the same bytes every time, and each record ends as EXPECTED says."""

import subprocess
import sys
from collections import Counter
from functools import lru_cache
from itertools import pairwise

import orjson
import pytest

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.event_types import EVENT_TYPES
from hmx_pipeline.contracts.headers import AUTHENTICATION, KIND, REASON, header
from hmx_pipeline.contracts.keys import partition_of, split_key
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.intake.control_records import barrier, signature
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.kafka.publisher import key_of
from hmx_pipeline.local import samples
from hmx_pipeline.local.samples import EXPECTED, SECRETS, sample_events
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.sessions import SessionsFold
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVENTS_DLQ, EVIDENCE
from tests.support.records import LogRecord

PARTITIONS = 8
KEY = "a control key"
START = 1_790_000_000_000
EACH_MS = 5


@lru_cache
def journey() -> tuple[Counter[str], list[Output]]:
    """Both stages in process: the samples, and a barrier after them in every partition."""
    counts: Counter[str] = Counter()
    outputs: list[Output] = []
    for partition in range(PARTITIONS):
        fold = SessionsFold(partitions=PARTITIONS, evidence_partitions=PARTITIONS, control_key=KEY)
        effects = Executor(fold, partition).run(_partition(partition))
        counts.update(effects.counts)
        outputs += effects.outputs
    for partition in range(PARTITIONS):
        evidence = [out for out in outputs if out.topic == EVIDENCE and out.partition == partition]
        evidence.sort(key=lambda out: header(out.headers, KIND) == b"barrier")
        records = [
            LogRecord(partition, i, START + i, out.key, out.value, out.headers) for i, out in enumerate(evidence)
        ]
        outputs += Executor(PatternsFold(), partition).run(records).outputs
    return counts, outputs


def _partition(partition: int) -> list[LogRecord]:
    records: list[LogRecord] = []
    for number, value in enumerate(sample_events()):
        key = key_of(value)
        if (partition_of(key.decode(), PARTITIONS) if key else number % PARTITIONS) == partition:
            records.append(LogRecord(partition, len(records), START + number * EACH_MS, key, value, []))
    for wait in (0, 60_000):  # the first one waits behind the gap, the second lets it pass
        value = barrier(f"b{wait}", partition, START)
        at = START + len(sample_events()) * EACH_MS + wait
        records.append(LogRecord(partition, len(records), at, None, value, [(AUTHENTICATION, signature(KEY, value))]))
    return records


def live_artifacts(tenant: str) -> list[Artifact]:
    newest: dict[str, Artifact] = {}
    for out in journey()[1]:
        if out.topic == ARTIFACTS:
            assert out.value is not None
            artifact = Artifact.model_validate_json(out.value)
            newest[artifact.artifact_id] = artifact
    return [a for a in newest.values() if a.tenant_id == tenant and a.status in (Status.DRAFT, Status.ACTIVE)]


def accepted() -> list[Accepted]:
    return [found for value in sample_events() if isinstance(found := decode(value), Accepted)]


def test_another_process_makes_the_same_bytes() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "hmx_pipeline.local.samples"],
        env={"PYTHONHASHSEED": "4711"},
        capture_output=True,
        check=True,
    )
    assert made.stdout.split(b"\n") == [*sample_events(), b""]


def test_every_record_ends_as_expected() -> None:
    counts, _ = journey()
    assert {outcome: counts[outcome] for outcome in EXPECTED.outcomes} == EXPECTED.outcomes
    assert sum(EXPECTED.outcomes.values()) == len(EXPECTED.records)
    assert counts[Outcome.CONTROL] == 2 * PARTITIONS


def test_every_rejection_has_the_reason_that_was_planted() -> None:
    reasons = Counter(header(out.headers, REASON) for out in journey()[1] if out.topic == EVENTS_DLQ)
    assert reasons == {reason.encode(): count for reason, count in EXPECTED.rejections.items()}
    assert len(EXPECTED.rejections) >= 10


def test_there_are_about_forty_sessions_of_two_teams() -> None:
    sessions = {(found.event.tenant_id, found.event.session_id) for found in accepted() if not found.control}
    assert len(sessions) == EXPECTED.sessions
    assert 40 <= EXPECTED.sessions <= 50
    assert 600 <= EXPECTED.outcomes[Outcome.RELEASED] <= 650
    assert {tenant for tenant, _ in sessions} == {"acme", "northwind"}


def test_about_one_event_in_twenty_is_overtaken() -> None:
    firsts = {}
    for found in accepted():
        firsts.setdefault(found.event.event_id, found.event)
    newest: dict[str, int] = {}
    overtaken = 0
    for event in firsts.values():
        overtaken += event.sequence < newest.get(event.session_id, -1)
        newest[event.session_id] = max(newest.get(event.session_id, -1), event.sequence)
    assert 0.03 <= overtaken / len(firsts) <= 0.06


def test_one_event_is_never_sent() -> None:
    sequences: dict[str, set[int]] = {}
    for found in accepted():
        if not found.control:
            sequences.setdefault(found.event.session_id, set()).add(found.event.sequence)
    gaps = [session for session, seen in sequences.items() if seen != set(range(max(seen) + 1))]
    assert len(gaps) == 1


def test_every_standard_event_type_occurs_and_a_custom_one() -> None:
    types = {found.event.event_type for found in accepted()}
    assert set(EVENT_TYPES) <= types
    assert any(name.startswith("x-acme-") for name in types)


def test_released_order_is_the_order_of_the_story() -> None:
    released: dict[str, list[int]] = {}
    for out in journey()[1]:
        if out.topic == EPISODES:
            assert out.value is not None
            episode = orjson.loads(out.value)
            if not episode["metadata"]["hmx"]["release"]["late"]:
                released.setdefault(episode["sessionId"], []).append(episode["metadata"]["hmx"]["sequence"])
    assert len(released) == EXPECTED.sessions
    assert all(one < other for sequences in released.values() for one, other in pairwise(sequences))


@pytest.mark.parametrize("secret", SECRETS)
def test_planted_secrets_arrive_and_go_no_further(secret: str) -> None:
    assert any(secret.encode() in value for value in sample_events())
    assert not any(secret.encode() in (out.value or b"") for out in journey()[1] if out.topic != EVENTS_DLQ)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("failure_playbook", "pulling image"),
        ("failure_playbook", "lock timeout"),
        ("failure_playbook", "connection slots"),
        ("task_schema", "deploy"),
        ("task_schema", "restructure"),
        ("task_schema", "migrate"),
        ("task_schema", "investigate"),
    ],
)
def test_what_acme_has_been_through_often_enough_is_active(kind: str, word: str) -> None:
    """A procedure's wish in one of the ways in which it is put."""
    active = [a for a in live_artifacts("acme") if a.artifact_type == kind and a.status is Status.ACTIVE]
    assert [a for a in active if word in " ".join([a.title, *a.content.get("goals", ())]).lower()]


def test_what_was_seen_too_rarely_stays_a_draft() -> None:
    drafts = {a.title.split()[0].strip(":") for a in live_artifacts("acme") if a.status is Status.DRAFT}
    assert {"Roll", "Rotate"} <= drafts
    assert not [a for a in live_artifacts("northwind") if a.status is Status.ACTIVE]


@pytest.mark.parametrize("word", ["partially initialized", "too broad"])
def test_what_says_no_more_than_to_mend_it_and_try_again_stays_a_draft(word: str) -> None:
    found = [a for a in live_artifacts("acme") if word in a.title.lower()]
    assert [a.status for a in found] == [Status.DRAFT]


def test_no_artifact_of_one_team_rests_on_the_others_events() -> None:
    owner = {found.event.event_id: found.event.tenant_id for found in accepted() if not found.control}
    for tenant in ("acme", "northwind"):
        sources = {event for artifact in live_artifacts(tenant) for event in artifact.source_events}
        assert sources
        assert {owner[event] for event in sources} == {tenant}


def test_the_right_playbook_says_how_image_pulls_recover() -> None:
    (playbook,) = (a for a in live_artifacts(samples.TENANT) if "pulling image" in a.title.lower())
    (step,) = playbook.content["recovery_steps"]
    assert "kubectl create" in step, "what has helped in one session only is not shown beside it"


def test_records_without_readable_ids_have_no_key() -> None:
    unkeyed = [value for value in sample_events() if key_of(value) is None]
    assert 0 < len(unkeyed) <= len(EXPECTED.rejections)
    assert all(not isinstance(decode(value), Accepted) for value in unkeyed)
    assert all(len(split_key(key.decode())) == 2 for value in sample_events() if (key := key_of(value)))


def test_every_reason_planted_is_one_that_bytes_alone_or_their_session_show() -> None:
    shown = {found.reason for value in sample_events() if not isinstance(found := decode(value), Accepted)}
    assert shown == EXPECTED.rejections.keys() - {Reason.EVENT_ID_REUSED, Reason.RESERVED}
