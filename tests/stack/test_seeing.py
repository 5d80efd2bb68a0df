"""What operators see of a running pipeline: metrics, health, tables, letters sent back; of payloads never a word."""

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Message
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.app import application
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.headers import header
from hmx_pipeline.contracts.keys import session_key, split_key
from hmx_pipeline.contracts.timestamps import milliseconds
from hmx_pipeline.kafka.clients import Cluster, headers_of, plain_producer, read_partition, sendable
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ, EVIDENCE
from tests.support.events import encoded, event
from tests.support.pipeline import Pipeline, environment, new_settings, running
from tests.support.sessions import session
from tests.support.waiting import until

CANARY = "canary-0815"
PROCESSES = ("worker", "materialiser", "service")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, logs: Path) -> Iterator[Pipeline]:
    """Everything the tests look at has passed through it, canaries included."""
    settings = new_settings(kafka, redis_url, log_level="DEBUG", window_ms=60_000)
    with running(settings, logs, *PROCESSES) as started:
        _append(settings, _sent())
        wait_for_all(settings, 120)
        yield started


def _sent() -> Iterator[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]:
    """Value, key, headers: sessions that are learnt from, what is rejected for many reasons, one that is sent back."""
    for tenant in ("acme", "globex"):
        for n in range(4):
            for item in session(n, tenant):
                yield _keyed(item | {"metadata": {"note": CANARY}, "tags": [CANARY]})
    bad = {
        "salience": CANARY,
        "sequence": CANARY,
        "timestamp": CANARY,
        "tags": CANARY,
        CANARY: 1,
        "hmx_version": CANARY,
    }
    for name, value in bad.items():
        yield encoded(event(**{name: value})), CANARY.encode(), [(CANARY, CANARY.encode())]
    yield f"{CANARY} is no JSON".encode(), None, []
    yield f'{{"{CANARY}": "{CANARY}'.encode(), None, []
    yield encoded(event(tenant_id="_hmx", event_type="x-hmx-tick", content={"text": CANARY})), None, []
    yield _keyed(event(tenant_id="forger", content={"role": "user", "text": CANARY}), (names.REROUTED_FROM, b"0:1:x"))


def _keyed(item: dict[str, Any], *headers: tuple[str, bytes]) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
    return orjson.dumps(item), session_key(item["tenant_id"], item["session_id"]).encode(), list(headers)


def _append(settings: Settings, records: Iterable[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]) -> None:
    producer = plain_producer(settings.kafka_bootstrap)
    for value, key, headers in records:
        producer.produce(settings.topic_prefix + EVENTS, value, key, headers=sendable(headers))
    assert producer.flush(20) == 0
    producer.close()


@pytest.fixture
def hmx(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in environment(pipeline.settings).items():
        if name.startswith("HMX_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(application(), arguments)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    return run


def read(settings: Settings, topic: str) -> list[Message]:
    name = settings.topic_prefix + topic
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        return [
            message
            for partition in range(cluster.topic(name).partitions)
            for message in read_partition(cluster.kafka, name, partition, cluster.watermarks(name, partition))
        ]


def ask(settings: Settings, process: str, path: str) -> str:
    port = getattr(settings, f"{process}_port")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return str(answer.read().decode())


def metrics(settings: Settings, process: str) -> Counter[tuple[str, ...]]:
    """(sample, values of its labels but the partition's) → value, summed."""
    found: Counter[tuple[str, ...]] = Counter()
    for family in text_string_to_metric_families(ask(settings, process, "/metrics")):
        for sample in family.samples:
            labels = [value for name, value in sorted(sample.labels.items()) if name not in ("partition", "le")]
            found[sample.name, *labels] += sample.value
    return found


def test_metrics_count_what_the_topics_hold(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    worker, materialiser = metrics(settings, "worker"), metrics(settings, "materialiser")
    episodes, letters = len(read(settings, EPISODES)), read(settings, EVENTS_DLQ)
    assert worker["hmx_stage_outcomes_total", "released", "", "sessions"] == episodes
    reasons = Counter((header(headers_of(letter), names.REASON) or b"").decode() for letter in letters)
    for reason, count in reasons.items():
        assert worker["hmx_stage_outcomes_total", "rejected", reason, "sessions"] == count
    assert materialiser["hmx_materialised_records_total", EPISODES] == episodes
    assert worker["hmx_partition_state_records", "sessions"] > 0
    assert worker["hmx_partition_ready", "sessions"] == worker["hmx_stage_restore_seconds_count", "sessions"] > 0
    for name in ("transaction", "freshness"):
        assert (
            0
            < worker[f"hmx_stage_{name}_seconds_count", "sessions"]
            == worker["hmx_stage_transactions_total", "committed", "sessions"]
        )
    assert (
        0
        < materialiser["hmx_materialiser_freshness_seconds_count",]
        <= materialiser["hmx_materialiser_block_seconds_count",]
    )


@pytest.mark.parametrize("process", PROCESSES)
def test_who_has_nothing_left_to_do_is_live_started_and_ready(pipeline: Pipeline, process: str) -> None:
    for path in ("/livez", "/startupz", "/readyz"):
        assert ask(pipeline.settings, process, path)


@pytest.mark.requirement("K-04")
def test_the_table_of_sessions_is_what_the_episodes_say(pipeline: Pipeline, hmx: Any) -> None:
    found = hmx("table", "sessions", "--json")
    released = Counter(tuple(split_key((m.key() or b"").decode())) for m in read(pipeline.settings, EPISODES))
    assert {(row["tenant"], row["session"]): row["released"] for row in found["rows"]} == released
    assert found["totals"]["released"] == released.total()
    assert found["totals"]["sessions"] == len(released)
    assert [row["tenant"] for row in hmx("table", "sessions", "--tenant", "acme", "--json")["rows"]] == ["acme"] * 4
    shown = hmx("table", "sessions", "--limit", "2", "--sort", "released")
    assert f"all  {len(released)} sessions, {released.total()} released" in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.requirement("K-04")
def test_the_table_of_patterns_is_what_the_evidence_says(pipeline: Pipeline, hmx: Any) -> None:
    found = hmx("table", "patterns", "--json")
    last: dict[bytes, Any] = {}
    for message in read(pipeline.settings, EVIDENCE):
        value = orjson.loads(message.value() or b"")
        if "contribution_id" in value:
            last[message.key() or b""] = value
    stand = [c for c in last.values() if not c.get("withdrawn")]
    name = ("tenant_id", "pattern_type", "pattern_key")
    contributions = Counter(tuple(c[part] for part in name) for c in stand)
    sessions = Counter(key[:3] for key in {(*(c[part] for part in name), c["session_id"]) for c in stand})
    rows = {(row["tenant"], row["type"], row["key"]): row for row in found["rows"]}
    assert {key: row["contributions"] for key, row in rows.items() if row["contributions"]} == contributions
    assert {key: row["sessions"] for key, row in rows.items() if row["sessions"]} == sessions
    assert found["totals"]["contributions"] == contributions.total() > 0
    assert max(map(len, hmx("table", "patterns").splitlines())) <= 100


def _of_producers(pipeline: Pipeline) -> list[Any]:
    """The events, without ticks and barriers."""
    return [m for m in read(pipeline.settings, EVENTS) if header(headers_of(m), names.AUTHENTICATION) is None]


def test_a_letter_that_would_be_accepted_now_is_sent_back_once_and_released(pipeline: Pipeline, hmx: Any) -> None:
    assert [hmx("dlq", "--tenant", whose, "--json")["dead_letters"] for whose in ("forger", "nobody")] == [1, 0]
    dry = hmx("dlq", "replay", "--json")
    assert (dry["would_be_sent"], dry["reasons"]["forged_origin"]) == (1, {"send": 1})
    assert sum(dry["reasons"]["not_json"].values()) == dry["reasons"]["not_json"]["again"] == 2
    events = len(_of_producers(pipeline))
    assert "nothing was sent" in hmx("dlq", "replay")
    assert hmx("dlq", "replay", "--yes", "--json")["sent"] == 1
    assert hmx("dlq", "replay", "--yes", "--json")["reasons"]["forged_origin"] == {"before": 1}
    sent = _of_producers(pipeline)
    assert len(sent) == events + 1
    (back,) = [m for m in sent if header(headers_of(m), names.ORIGIN_TOPIC) == EVENTS_DLQ.encode()]
    assert header(headers_of(back), names.FIRST_ORIGIN) == dry["sample"]["send"][0]["origin"].encode()
    wait_for_all(pipeline.settings, 120)
    released = [m for m in read(pipeline.settings, EPISODES) if (m.key() or b"").startswith(b"forger/")]
    assert len(released) == 1
    assert verify(pipeline.settings).conserved


def test_no_log_line_and_no_metric_holds_a_payload(pipeline: Pipeline, logs: Path) -> None:
    lines = 0
    for process in PROCESSES:
        ask(pipeline.settings, process, "/readyz")
        assert CANARY not in ask(pipeline.settings, process, "/metrics")
        text = next(logs.glob(f"*{process}.log")).read_text()
        assert CANARY not in text
        for line in text.splitlines():
            assert {"time", "level", "logger", "message"} <= json.loads(line).keys(), line
            lines += 1
    assert lines
    assert any(CANARY in (m.value() or b"").decode(errors="replace") for m in read(pipeline.settings, EPISODES))


def told(settings: Settings, path: str, tenant: str | None = None) -> Any:
    asked = urllib.request.Request(f"{settings.service_url}/v1/hmx/{path}", headers={"X-HMX-Tenant": tenant or "acme"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.loads(answer.read())


@pytest.mark.requirement("K-06")
def test_the_tables_over_http_are_those_of_the_command_for_the_tenant_that_asks(pipeline: Pipeline, hmx: Any) -> None:
    for name in ("sessions", "patterns"):
        of_all = hmx("table", name, "--json")["rows"]
        for tenant in ("acme", "globex"):
            rows = told(pipeline.settings, f"tables/{name}?limit=500", tenant)["rows"]
            assert rows == [row for row in of_all if row["tenant"] == tenant]
            assert rows


def test_a_table_is_searched_by_what_stands_in_its_names_and_titles(pipeline: Pipeline) -> None:
    for name, field, text in (("sessions", "session", "ESSION-3"), ("patterns", "key", "build_image")):
        rows = told(pipeline.settings, f"tables/{name}?limit=500")["rows"]
        found = told(pipeline.settings, f"tables/{name}?limit=500&text={text}")
        assert found["rows"] == [row for row in rows if text.lower() in f"{row.get('title')} {row[field]}".lower()]
        assert found["totals"][name] == len(found["rows"]) > 0


@pytest.mark.requirement("K-06")
def test_a_session_is_told_in_order_with_what_was_late_or_came_twice_and_what_was_learnt(pipeline: Pipeline) -> None:
    settings, tenant = pipeline.settings, "looker"
    sent = [session(n, tenant) for n in range(16)]
    late = {**sent[0][1], "event_id": "came-late", "content": {"role": "user", "text": "and one more"}}
    late["event_type"] = "message"
    _append(
        settings, (_keyed(item) for item in [*(each for one in sent for each in one), sent[0][2], sent[0][2], late])
    )
    wait_for_all(settings, 120)

    answer = told(settings, f"sessions/{sent[0][0]['session_id']}", tenant)
    events = answer["events"]
    assert [event["event_id"] for event in events] == [*(item["event_id"] for item in sent[0]), "came-late"]
    assert [event["index"] for event in events] == list(range(len(events)))
    assert [milliseconds(event["timestamp"]) for event in events] == [event["at"] for event in events]
    assert [event["event_id"] for event in events if event["late"]] == ["came-late"]
    assert {event["event_id"]: event["again"] for event in events if event["again"]} == {sent[0][2]["event_id"]: 2}
    (segment,) = answer["segments"]
    assert segment["segment_id"] == sent[0][0]["event_id"]
    assert segment["outcome"] in ("success", "failure")
    assert segment["contributions"]["run"] == 1
    for one in segment["learnt"]:
        path = "artifacts" if one["kind"] == "artifact" else "knowledge"
        record = told(settings, f"{path}/{one['id']}", tenant)
        rests = [told(settings, f"contributions/{name}", tenant)["session_id"] for name in record["source_memory_ids"]]
        assert answer["session_id"] in rests
    assert segment["learnt"]
    assert answer["complete"]
    rest = told(settings, f"sessions/{answer['session_id']}?begin=3", tenant)
    assert rest["events"] == events[3:]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        told(settings, f"sessions/{answer['session_id']}", "globex-2")


@pytest.mark.requirement("K-06")
def test_what_the_overview_counts_is_what_verify_recounts_also_after_a_restart_of_the_worker(
    pipeline: Pipeline,
) -> None:
    recounted = verify(pipeline.settings).as_json()
    before = told(pipeline.settings, "overview")
    assert {one["name"]: one["count"] for one in before["outcomes"] if one["count"]} == recounted["outcomes"]
    assert {one["name"]: one["count"] for one in before["rejections"]} == recounted["rejections"]
    assert [process["ready"] for process in before["processes"].values()] == [True, True]
    assert before["problems"] == []
    assert before["freshness"].keys() == {"sessions", "patterns", "memory"}
    assert CANARY not in json.dumps(before)

    pipeline.kill("worker")
    pipeline.start("worker")

    def as_before() -> bool:
        now = told(pipeline.settings, "overview")
        return now["at"] != before["at"] and all(
            row["owner"] and row["waiting"] is not None for row in now["stages"]["sessions"]["partitions"]
        )

    until(as_before, "the overview is of the new worker")
    after = told(pipeline.settings, "overview")
    counts = [{one["name"]: one["count"] for one in said["outcomes"]} for said in (before, after)]
    for said in counts:
        said.pop("control")  # a worker that starts may tick
    assert counts[0] == counts[1]
    assert after["rejections"] == before["rejections"]
    assert after["freshness"].get("sessions", [[0, 0]])[-1][1] < before["freshness"]["sessions"][-1][1]
