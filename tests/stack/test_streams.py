"""Streams out of the topics on a real Kafka: Server-Sent Events and NDJSON, resumed without a gap or a repeat."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import pytest

from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.service import streams, subscriber_queue, subscriptions
from hmx_pipeline.service.api_keys import USUAL, Grant, add, revoke
from hmx_pipeline.settings import Settings
from tests.support.pipeline import create_topics, new_settings
from tests.support.service import is_problem, serving
from tests.support.waiting import PATIENCE_S, until
from tests.support.writing import Topics

PARTITIONS = 3
ACME = {"X-HMX-Tenant": "acme"}
SSE, NDJSON = "/v1/hmx/stream", "/v1/hmx/events"


class Said(NamedTuple):
    """One event as a client of Server-Sent Events has it."""

    id: str
    name: str
    data: Any


@pytest.fixture
def settings(kafka: str) -> Settings:
    """No Redis is needed."""
    made = new_settings(kafka, "redis://127.0.0.1:1")
    create_topics(made, partitions=PARTITIONS)
    return made


@pytest.fixture
def topics(settings: Settings) -> Topics:
    return Topics(settings, PARTITIONS)


@contextmanager
def listening(service: httpx.Client, after: str = "", headers: dict[str, str] = ACME, **params: Any) -> Iterator[Any]:
    """An iterator over what a stream says."""
    asked = {**headers, **({"Last-Event-ID": after} if after else {})}
    with service.stream("GET", SSE, headers=asked, params=params, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield said(answer)


def said(answer: httpx.Response) -> Iterator[Said]:
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            data = orjson.loads(fields["data"]) if "data" in fields else None
            yield Said(fields.get("id", ""), fields.get("event", ""), data)
            fields = {}


def taken(stream: Iterator[Said], count: int) -> list[Said]:
    """The next so many that say something."""
    found: list[Said] = []
    while len(found) < count:
        one = next(stream)
        if one.data is not None:
            found.append(one)
    return found


def ids(said: Sequence[Said]) -> list[str]:
    return [one.data.get("event_id") or one.data["artifact_id"] for one in said]


@pytest.mark.requirement("E-29")
def test_events_and_artifacts_come_as_they_happen_each_in_a_data_field(settings: Settings, topics: Topics) -> None:
    topics.events(3)
    with serving(settings) as service, listening(service) as stream:
        next(stream)  # it is listening
        topics.events(2, tenant="globex")
        topics.events(1, commit=False)
        sent = topics.events(4)
        topics.artifact("a1")
        topics.artifact("g1", tenant="globex")
        topics.artifact("a1", erased=True)
        found = taken(stream, 6)
    events = [one for one in found if one.name == "hmx.event"]
    artifacts = [(one.name, one.data["artifact_id"]) for one in found if one not in events]
    assert sorted(ids(events)) == sorted(sent)
    assert artifacts == [("hmx.artifact", "a1"), ("hmx.erased", "a1")]
    assert events[0].data["tenant_id"] == "acme"
    assert "hmx" not in events[0].data["metadata"]


@pytest.mark.requirement("E-29")
def test_a_stream_resumed_anywhere_has_no_gap_and_no_repeat(settings: Settings, topics: Topics) -> None:
    """Cut after a random number of events each time, while more are written all the time."""
    rng, sent, found, after = random.Random(7), [], [], ""
    stop = threading.Event()

    def writing() -> None:
        while not stop.is_set():
            topics.events(2, tenant="globex")
            sent.extend(topics.events(rng.randrange(1, 20), commit=True))
            topics.events(3, commit=False)
            time.sleep(0.02)

    with serving(settings) as one, serving(settings) as other:
        with listening(one) as stream:
            after = next(stream).id
        thread = threading.Thread(target=writing)
        thread.start()
        try:
            for turn in range(12):
                with listening((one, other)[turn % 2], after) as stream:
                    found += taken(stream, rng.randrange(1, 40))
                    after = found[-1].id
        finally:
            stop.set()
            thread.join()
        with listening(one, after) as stream:
            found += taken(stream, len(sent) - len(found))
    assert sorted(ids(found)) == sorted(sent)
    for session in range(3):
        own = [one.data["sequence"] for one in found if one.data["session_id"] == f"s{session}"]
        assert own == sorted(own), "a session's events keep their order"


def test_one_kind_alone_and_from_the_start(settings: Settings, topics: Topics) -> None:
    first = topics.events(5)
    topics.artifact("a1")
    with serving(settings) as service:
        with listening(service, **{"from": "start", "kind": "event"}) as stream:
            found = taken(stream, 5)
            topics.artifact("a2")
            later = topics.events(1)
            found += taken(stream, 1)
        assert sorted(ids(found)) == sorted(first + later)
        with listening(service, found[-1].id) as stream:
            assert ids(taken(stream, 2)) == ["a1", "a2"], "what was not asked for is passed on when it is"
        with listening(service, **{"from": "start", "kind": "artifact"}) as stream:
            assert ids(taken(stream, 2)) == ["a1", "a2"]


@pytest.mark.requirement("E-29")
def test_ndjson_out_is_one_event_a_line_and_goes_on_where_it_ended(settings: Settings, topics: Topics) -> None:
    first = topics.events(30)
    topics.events(5, tenant="globex")
    with serving(settings) as service:
        answer = service.get(NDJSON, headers=ACME)
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [orjson.loads(line) for line in answer.content.splitlines()]
        assert sorted(line["event_id"] for line in lines) == sorted(first)
        after = answer.headers["x-hmx-position"]
        assert service.get(NDJSON, headers=ACME, params={"after": after}).content == b""
        later = topics.events(4)
        again = service.get(NDJSON, headers=ACME, params={"after": after})
        assert sorted(orjson.loads(line)["event_id"] for line in again.content.splitlines()) == sorted(later)
        one = service.get(NDJSON, headers=ACME, params={"session": "s1"})
        sequences = [orjson.loads(line)["sequence"] for line in one.content.splitlines()]
        assert sequences == [n for n in (*range(30), *range(35, 39)) if n % 3 == 1], "one session's, in its order"
        with listening(service, after) as stream:
            assert sorted(ids(taken(stream, 4))) == sorted(later), "both have the same positions"


def test_a_position_that_is_kept_no_more_or_was_never_given_is_told_so(
    settings: Settings, topics: Topics, kafka: str
) -> None:
    topics.events(9)
    with serving(settings) as service:
        after = service.get(NDJSON, headers=ACME).headers["x-hmx-position"]
        name, _, offsets = after.partition(".")
        beyond = f"{name}.{'-'.join(str(int(one) + 1_000) for one in offsets.split('-'))}"
        for bad in ("x", f"{name}.1", f"00000000.{offsets}", beyond):
            is_problem(service.get(NDJSON, headers=ACME, params={"after": bad}), 410, "position_lost")
            is_problem(service.get(SSE, headers={**ACME, "Last-Event-ID": bad}), 410, "position_lost")


def test_who_reads_too_slowly_is_told_so_and_goes_on_without_a_gap(
    settings: Settings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber_queue, "RECORDS", 5)
    monkeypatch.setattr(subscriptions, "LOOK_S", 0.05)
    found: list[Said] = []
    with serving(settings) as service:
        with listening(service) as stream:
            after = next(stream).id
            sent = [one for _ in range(8) for one in topics.events(20, text="x" * 50_000)]
            while True:
                one = taken(stream, 1)[0]
                if one.name == "end":
                    break
                found.append(one)
                time.sleep(0.01)
            assert one.data["reason"] == "slow"
        monkeypatch.undo()
        after = found[-1].id if found else after
        assert one.id == after
        with listening(service, after) as stream:
            found += taken(stream, len(sent) - len(found))
        assert 'hmx_http_streams_ended_total{reason="slow"}' in service.get("/metrics").text
    assert sorted(ids(found)) == sorted(sent)


def test_who_reads_nothing_at_all_is_cut_off(
    settings: Settings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "STALLED_S", 0.5)
    topics.events(200, text="x" * 100_000)
    with serving(settings) as service, listening(service, **{"from": "start"}) as stream:
        next(stream)
        counted = 'hmx_http_streams_ended_total{reason="stalled"}'
        until(lambda: counted in service.get("/metrics").text, "it is cut off")
        until(lambda: 'hmx_http_streams{kind="sse"} 0.0' in service.get("/metrics").text, "nothing of it is left")


def test_a_stream_whose_key_is_revoked_ends_and_says_so(settings: Settings, topics: Topics, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    keys = [add(file, Grant("acme", USUAL)) for _ in range(2)]
    shown = [{"Authorization": f"Bearer {key}"} for key in keys]
    with serving(replace(settings, api_keys=str(file))) as service:
        with listening(service, headers=shown[0]) as stream:
            next(stream)
            topics.events(1)
            assert taken(stream, 1)[0].name == "hmx.event"
            revoke(file, keys[0])
            topics.events(5)
            (end,) = taken(stream, 1)
            assert (end.name, end.data["reason"]) == ("end", "revoked")
        is_problem(service.get(SSE, headers=shown[0]), 401, "unauthorized")


def test_a_tenants_streams_are_bounded(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "OPEN_EACH", 1)
    with serving(settings) as service, listening(service) as stream:
        next(stream)
        assert is_problem(service.get(SSE, headers=ACME), 429, "rate_limited")
        with listening(service, headers={"X-HMX-Tenant": "globex"}) as other:
            next(other)


def test_streams_without_kafka_are_a_problem(redis_url: str) -> None:
    with serving(new_settings("127.0.0.1:1", redis_url)) as service:
        for path in (SSE, NDJSON):
            answer = service.get(path, headers=ACME, timeout=PATIENCE_S)
            is_problem(answer, 503, "kafka_unavailable")


def test_idle_streams_move_their_position_past_what_is_others(
    settings: Settings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "ALIVE_S", 0.2)
    monkeypatch.setattr(subscriptions, "LOOK_S", 0.1)
    producer = plain_producer(settings.kafka_bootstrap)
    producer.flush()
    with serving(settings) as service, listening(service) as stream:
        before = next(stream).id
        topics.events(50, tenant="globex")
        moved = next(one for one in stream if one.id != before)
        assert moved.data is None
