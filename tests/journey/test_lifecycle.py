"""The life of artifacts on the real broker: every transition of HMX-A §5 with its cause, what operators decide, and the
chains once more from their compacted topic alone."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from click.testing import Result
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.artifact import TRANSITIONS
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import ARTIFACTS
from tests.support.memory import Memory
from tests.support.own_command import hmx
from tests.support.pipeline import new_settings, running
from tests.support.records import START_MS, event
from tests.support.topics import read
from tests.support.waiting import until
from tests.verifier import Report, check
from tests.verifier.artifacts import rebuild_chains
from tests.verifier.log import Part, Row

PARTITIONS = 2
DEPLOY = "Please deploy the billing service to staging", ("build_image", "check_namespace", "apply_manifest")
ROTATE = "Please rotate the database credentials", ("read_vault", "write_vault", "restart_service")
Wish = tuple[str, Sequence[str]]
Json = dict[str, Any]


def session(number: int, wish: Wish, worked: bool) -> list[bytes]:
    text, tools = wish
    said: list[tuple[str, Json]] = [("message", {"role": "user", "text": text})]
    for tool in tools:
        said.append(("tool_call", {"tool_name": tool, "arguments": {}, "call_id": tool}))
        said.append(("tool_result", {"tool_name": tool, "call_id": tool, "success": True}))
    said.append(("feedback", {"signal": "positive" if worked else "negative"}))
    start = START_MS + 60_000 * number
    return [
        orjson.dumps(event(f"session-{number}", n, at=start + n, event_type=kind, content=content))
        for n, (kind, content) in enumerate(said)
    ]


@dataclass
class Life:
    """A pipeline whose sessions are told one after the other."""

    settings: Settings
    memory: Memory
    told: int = 0
    seen: dict[str, Any] = field(default_factory=dict)
    """What there was to see on the way."""

    def tell(self, wish: Wish, *, good: int = 0, bad: int = 0, settle: bool = True) -> None:
        lines: list[bytes] = []
        for worked in [*[True] * good, *[False] * bad]:
            lines += session(self.told, wish, worked)
            self.told += 1
        assert publish(lines, self.settings).complete
        if settle:
            wait_for_all(self.settings)

    def listed(self, status: Status) -> list[Json]:
        return list(self.memory.store.list_artifacts("acme", "task_schema", status).artifacts)

    def the(self, status: Status) -> Json:
        (only,) = self.listed(status)
        return only

    def hmx(self, *arguments: str) -> Result:
        return hmx(self.settings, *arguments)

    def log(self) -> list[Json]:
        """Every artifact record, in order: they stand in one partition."""
        return [
            orjson.loads(message.value() or b"") for part in read(self.settings, ARTIFACTS).values() for message in part
        ]


@pytest.fixture(scope="module")
def life(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    settings = new_settings(kafka, redis_url)
    with running(settings, tmp_path_factory.mktemp("logs"), "worker", "materialiser", partitions=PARTITIONS):
        lived = Life(settings, Memory(redis_url, settings.topic_prefix))
        live(lived)
        yield lived


def live(life: Life) -> None:
    """From the first draft to what an operator archives."""
    seen = life.seen
    life.tell(DEPLOY, good=3)
    seen["draft"] = life.the(Status.DRAFT)
    seen["archiving a draft"] = life.hmx("archive", seen["draft"]["artifact_id"])
    life.tell(DEPLOY, good=3)
    seen["active"] = life.the(Status.ACTIVE)
    seen["shown when active"] = life.memory.found("deploy the billing service")
    life.tell(DEPLOY, good=1)
    seen["successor"] = life.the(Status.ACTIVE)
    seen["archiving a predecessor"] = life.hmx("archive", seen["active"]["artifact_id"])
    life.tell(DEPLOY, bad=8)
    seen["deprecated"] = life.listed(Status.DEPRECATED)
    seen["shown when deprecated"] = life.memory.found("deploy the billing service")
    life.tell(DEPLOY, good=12)
    seen["recovered"] = life.the(Status.ACTIVE)
    life.tell(ROTATE, good=3)
    seen["other draft"] = life.the(Status.DRAFT)
    life.tell(ROTATE, bad=3)
    seen["archived"] = life.hmx(
        "archive", seen["recovered"]["artifact_id"][-8:], "--reason", "the wiki has it", "--json"
    )
    life.tell(DEPLOY, good=2)
    life.memory.wipe()
    until(lambda: life.listed(Status.ARCHIVED), "Redis is filled again")
    wait_for_all(life.settings)


def edges(log: Sequence[Json]) -> dict[tuple[Status, Status], list[Json]]:
    """What was published of each transition, the first publication of an active artifact among them."""
    found: dict[tuple[Status, Status], list[Json]] = defaultdict(list)
    before: dict[str, Json] = {}
    for record in log:
        old = before.get(record["artifact_id"])
        if old is not None or record["status"] == Status.ACTIVE:
            found[Status(old["status"] if old else Status.DRAFT), Status(record["status"])].append(record)
        before[record["artifact_id"]] = record
    return found


@pytest.mark.requirement("A-16", "A-17", "A-18", "A-19", "A-20", "X11")
def test_every_transition_happens_and_says_its_cause(life: Life) -> None:
    found = edges(life.log())
    assert set(found) == set(TRANSITIONS)
    causes = {edge: {r["metadata"]["transition"]["cause"] for r in records} for edge, records in found.items()}
    for (old, new), records in found.items():
        assert all(r["metadata"]["transition"]["from"] == old for r in records)
        assert all(r["metadata"]["transition"]["to"] == new for r in records)
        assert all(r["metadata"]["checked"] for r in records)
    assert causes[Status.DRAFT, Status.ACTIVE] == {"validation passed"}
    assert causes[Status.ACTIVE, Status.ARCHIVED] == {"archived by an operator: the wiki has it"}
    for edge in ((Status.DRAFT, Status.DEPRECATED), (Status.ACTIVE, Status.DEPRECATED)):
        assert all(cause.startswith(("contradicted: ", "it no longer passes")) for cause in causes[edge])
    assert any(cause.startswith("contradicted: ") for cause in causes[Status.DRAFT, Status.DEPRECATED])
    for edge in ((Status.DRAFT, Status.SUPERSEDED), (Status.ACTIVE, Status.SUPERSEDED)):
        assert all("was compiled from newer evidence: " in cause for cause in causes[edge])


@pytest.mark.requirement("A-16", "A-17", "A-18")
def test_new_evidence_supersedes_failures_deprecate_and_success_opens_a_new_chain(life: Life) -> None:
    seen = life.seen
    assert seen["draft"]["version"] == 1
    assert seen["shown when active"][:1] == [seen["active"]["artifact_id"]]
    assert seen["successor"]["supersedes"] == seen["active"]["artifact_id"]
    deprecated = {artifact["metadata"]["chain"] for artifact in seen["deprecated"]}
    assert 1 in deprecated
    assert not set(seen["shown when deprecated"]) & {artifact["artifact_id"] for artifact in seen["deprecated"]}
    assert seen["recovered"]["metadata"]["chain"] > max(deprecated)
    assert seen["recovered"]["observed_count"] == 27


@pytest.mark.requirement("A-19", "A-21", "A-22")
def test_what_an_operator_archived_stays_so_whatever_comes_and_is_shown_on_request_only(life: Life) -> None:
    answer = life.seen["archived"]
    assert answer.exit_code == 0, answer.output
    archived = life.the(Status.ARCHIVED)
    assert json.loads(answer.stdout) == archived
    assert archived["artifact_id"] == life.seen["recovered"]["artifact_id"]
    assert [a for a in life.listed(Status.ACTIVE) if a["metadata"]["pattern"] == archived["metadata"]["pattern"]] == []
    assert archived["artifact_id"] not in life.memory.found("deploy the billing service")
    again = life.hmx("archive", archived["artifact_id"])
    assert (again.exit_code, again.stdout.startswith("archived: ")) == (0, True)


@pytest.mark.requirement("A-19", "A-20", "X11")
def test_only_what_is_active_can_be_archived_and_the_error_names_it(life: Life) -> None:
    draft, predecessor = life.seen["archiving a draft"], life.seen["archiving a predecessor"]
    assert (draft.exit_code, predecessor.exit_code) == (1, 1)
    assert "is draft; only an active artifact can be archived" in draft.stderr
    assert f"its active successor is {life.seen['successor']['artifact_id']}" in predecessor.stderr
    assert sum(1 for record in life.log() if record["status"] == Status.ARCHIVED) == 1


def test_explain_tells_evidence_thresholds_and_the_chain_and_what_is_missing(life: Life) -> None:
    successor = life.seen["successor"]["artifact_id"]
    told = json.loads(life.hmx("explain", successor, "--json").stdout)
    assert [turn["artifact_id"] for turn in told["versions"]][:3] == [
        life.seen[name]["artifact_id"] for name in ("draft", "active", "successor")
    ]
    assert [turn["status"] for turn in told["versions"]][:2] == ["superseded", "superseded"]
    assert told["versions"][0]["cause"].startswith("version 2 was compiled from newer evidence: ")
    assert {each["session_id"] for each in told["evidence"]} == {f"session-{n}" for n in range(7)}
    assert [(need["has"], need["wanted"]) for need in told["needs"]][:2] == [(7, 5), (7, 2)]
    shown = life.hmx("explain", life.seen["recovered"]["artifact_id"])
    assert "archived by an operator: the wiki has it" in shown.stdout
    absent = life.hmx("explain", "--missing", "rotate the database credentials")
    assert "contradicted: it went well in 3 of the last 6 sessions only" in absent.stdout
    assert "3 of 5 successes" in absent.stdout
    assert life.hmx("explain", "--missing", "paint the fence").exit_code == 1


def test_the_independent_verifier_accounts_for_every_record(life: Life) -> None:
    made = life.settings
    report = check(made.kafka_bootstrap, made.topic_prefix, made.redis_url, made.control_key)
    assert not report.faults
    assert report.compared["patterns compiled again"] >= 2


@pytest.mark.slow
@pytest.mark.requirement("A-19")
def test_a_replay_from_the_start_archives_the_same_though_versions_come_otherwise(life: Life) -> None:
    answer = life.hmx("replay", "--from-start", "--compare")
    assert answer.exit_code == 0, answer.output


@pytest.mark.requirement("A-24", "A-25", "A-26", "A-27", "A-28")
def test_from_the_compacted_topic_alone_every_chain_is_rebuilt_and_every_hash_is_right(life: Life) -> None:
    before = life.log()
    last = {record["artifact_id"]: record for record in before}
    force_compaction(life)
    chains, records = rebuilt(life.settings)
    assert records < len(before)
    rows = [version for found in chains.values() for chain in found for version in chain]
    mine = {version["artifact_id"]: version for version in rows}
    archived = life.seen["recovered"]["metadata"]["pattern"]
    kept = {artifact_id: record for artifact_id, record in last.items() if record["metadata"]["pattern"] == archived}
    assert {artifact_id: mine.get(artifact_id) for artifact_id in kept} == kept
    assert sum(version["status"] == Status.ACTIVE for version in rows) <= 1


def force_compaction(life: Life) -> None:
    """Whatever is written from now on rolls the segment before, and the cleaner takes all that it may."""
    topic = life.settings.topic_prefix + ARTIFACTS
    given = {"segment.ms": "50", "min.cleanable.dirty.ratio": "0.0", "max.compaction.lag.ms": "1"}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in given.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = connect(life.settings.kafka_bootstrap)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    for _ in range(2):
        life.tell(ROTATE, good=6)

    def cleaned() -> bool:
        said = [record["artifact_id"] for record in life.log()]
        return all(said.count(life.seen[name]["artifact_id"]) == 1 for name in ("draft", "active", "successor"))

    until(cleaned, "the broker has compacted the topic")


def rebuilt(settings: Settings) -> tuple[dict[str, list[list[Json]]], int]:
    """By a fresh read_committed consumer: the chains of every pattern, and how many records it has read."""
    report, chains, records = Report(), {}, 0
    for number, messages in read(settings, ARTIFACTS).items():
        rows = [Row(m.offset() or 0, m.timestamp()[1], m.key(), m.value(), []) for m in messages]
        chains |= rebuild_chains(report, Part(0, len(rows), rows), number)
        records += len(rows)
    assert not report.faults
    return chains, records
