"""Events over HTTP on a real Kafka: what is accepted stands in the log as it came, and only then is it said to."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest
from confluent_kafka import Message

from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.kafka.clients import Cluster, read_partition
from hmx_pipeline.service.events import BODY_BYTES, REQUEST_EVENTS
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.support.bad_input import AT_LIMIT, BAD, Bad, with_
from tests.support.pipeline import create_topics, new_settings
from tests.support.records import event
from tests.support.service import is_problem, serving
from tests.support.waiting import until

ACME = {"X-HMX-Tenant": "acme"}
JSON = {**ACME, "Content-Type": "application/json"}
NDJSON = {**ACME, "Content-Type": "application/x-ndjson"}
URL = "/v1/hmx/events"


class Log:
    """What stands in the events topic."""

    def __init__(self, settings: Settings) -> None:
        self.topic = settings.topic_prefix + EVENTS
        self._bootstrap = settings.kafka_bootstrap
        self._cluster = Cluster(settings.kafka_bootstrap)

    def messages(self) -> dict[tuple[int, int], Message]:
        found = {}
        for partition in range(self.partitions):
            marks = self._cluster.watermarks(self.topic, partition)
            for message in read_partition(self._bootstrap, self.topic, partition, marks):
                found[partition, message.offset() or 0] = message
        return found

    def records(self) -> dict[tuple[int, int], tuple[str, bytes]]:
        return {where: (message.key().decode(), message.value()) for where, message in self.messages().items()}

    def ends(self) -> list[int]:
        return [self._cluster.watermarks(self.topic, partition)[1] for partition in range(self.partitions)]

    @property
    def partitions(self) -> int:
        return self._cluster.topic(self.topic).partitions

    def close(self) -> None:
        self._cluster.close()


@pytest.fixture(scope="module")
def settings(kafka: str) -> Settings:
    """No Redis is needed to take events."""
    made = new_settings(kafka, "redis://127.0.0.1:1")
    create_topics(made)
    return made


@pytest.fixture(scope="module")
def log(settings: Settings) -> Iterator[Log]:
    made = Log(settings)
    yield made
    made.close()


def accepted_at(answer: httpx.Response) -> list[tuple[int, int]]:
    return [(r["partition"], r["offset"]) for r in answer.json()["results"] if r["status"] == "accepted"]


@pytest.mark.requirement("Y17")
def test_one_event_stands_in_the_log_byte_for_byte_where_the_answer_says(service: httpx.Client, log: Log) -> None:
    sent = b"\n { " + orjson.dumps(event("a/b"))[1:].replace(b"event 0", b"\\u00fc \xc3\xbc")
    answer = service.post(URL, content=sent, headers=JSON)
    assert answer.status_code == 202, answer.text
    (where,) = accepted_at(answer)
    key = session_key("acme", "a/b")
    assert log.records()[where] == (key, sent)
    assert where[0] == partition_of(key, log.partitions)
    assert answer.json()["results"][0]["event_id"] == "a/b-0"


def test_an_event_is_a_cloud_event_of_the_trace_that_the_request_belongs_to(service: httpx.Client, log: Log) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = [service.post(URL, json=event("traced"), headers={**ACME, "traceparent": text}) for text in (trace, "none")]
    with_trace, without = (log.messages()[accepted_at(answer)[0]].headers() for answer in sent)
    assert without == [
        ("content-type", b"application/json"),
        ("ce_specversion", b"1.0"),
        ("ce_type", b"hmx.event"),
        ("ce_source", b"/acme/traced"),
        ("ce_id", b"traced-0"),
    ]
    assert with_trace == [*without, ("traceparent", trace.encode())]


@pytest.mark.requirement("E-29")
def test_one_bad_line_of_a_hundred_leaves_ninety_nine(service: httpx.Client, log: Log) -> None:
    lines = [orjson.dumps(event("hundred", n)) for n in range(100)]
    lines[41] = b'{"hmx_version": "HMX-2.0"}'
    answer = service.post(URL, content=b"\r\n".join(lines) + b"\n\n", headers=NDJSON)
    body = answer.json()
    assert (answer.status_code, body["summary"]) == (202, {"total": 100, "accepted": 99, "rejected": 1})
    assert {k: v for k, v in body["results"][41].items() if k != "detail"} == {
        "index": 41, "status": "rejected", "reason": "unsupported_version", "path": "$.hmx_version",
    }  # fmt: skip
    records = log.records()
    standing = [records[where][1].rstrip(b"\r") for where in accepted_at(answer)]
    assert standing == [line for n, line in enumerate(lines) if n != 41]
    offsets = [offset for _, offset in accepted_at(answer)]
    assert offsets == sorted(offsets), "a session's events keep their order"


def test_the_events_of_an_array_keep_their_bytes(service: httpx.Client, log: Log) -> None:
    values = [b"{ " + orjson.dumps(event("array", n))[1:] for n in range(3)]
    answer = service.post(URL, content=b"[" + b" ,\n".join(values) + b"]", headers=JSON)
    records = log.records()
    assert [records[where][1] for where in accepted_at(answer)] == values


REFUSED = {
    **{name: bad for name, bad in BAD.items() if bad.value is not None},
    "another tenant than the header's": Bad("tenant_mismatch", "$.tenant_id", with_(tenant_id="globex")),
}


@pytest.mark.requirement("E-01", "E-02", "E-06", "E-07", "E-09", "E-10", "E-11", "E-23", "E-33", "V-02")
@pytest.mark.parametrize("name", REFUSED)
def test_a_single_bad_event_is_a_problem_and_not_in_the_log(service: httpx.Client, log: Log, name: str) -> None:
    before, bad = log.ends(), REFUSED[name]
    body = is_problem(service.post(URL, content=bad.value, headers=JSON), 422, bad.reason)
    assert body["path"] == bad.path
    assert body["detail"]
    assert log.ends() == before


@pytest.mark.requirement("E-33")
@pytest.mark.parametrize("name", AT_LIMIT)
def test_exactly_at_each_limit_an_event_is_accepted(service: httpx.Client, log: Log, name: str) -> None:
    (where,) = accepted_at(service.post(URL, content=AT_LIMIT[name], headers=JSON))
    assert log.records()[where] == (session_key("acme", name), AT_LIMIT[name])


def test_where_none_of_several_is_accepted_each_has_its_reason(service: httpx.Client) -> None:
    values = [orjson.dumps({**event(), "sequence": -1}), orjson.dumps({**event(), "tenant_id": "globex"})]
    body = is_problem(service.post(URL, content=b"\n".join(values), headers=NDJSON), 422, "bad_sequence")
    assert [result["reason"] for result in body["results"]] == ["bad_sequence", "tenant_mismatch"]
    assert body["summary"] == {"total": 2, "accepted": 0, "rejected": 2}


def test_an_array_that_is_no_json_is_a_problem(service: httpx.Client) -> None:
    for content in (b"[{}", b"[{}}]", b"[" * 100_000):
        is_problem(service.post(URL, content=content, headers=JSON), 422, "invalid_request")


def test_nothing_to_append_is_nothing_appended(service: httpx.Client) -> None:
    for content, headers in ((b"[]", JSON), (b"\n", NDJSON)):
        answer = service.post(URL, content=content, headers=headers)
        assert (answer.status_code, answer.json()["results"]) == (202, [])


def test_a_request_is_bounded_in_bytes_and_in_events(service: httpx.Client, log: Log) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(BODY_BYTES // 2**20 + 1):
            yield b" " * 2**20

    before = log.records()
    is_problem(service.post(URL, content=b" " * (BODY_BYTES + 1), headers=JSON), 413, "too_large")
    is_problem(service.post(URL, content=chunks(), headers=JSON), 413, "too_large")
    many = b"{}\n" * (REQUEST_EVENTS + 1)
    is_problem(service.post(URL, content=many, headers=NDJSON), 413, "too_large")
    assert log.records() == before


@pytest.mark.parametrize(
    "headers", [{}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json", "Content-Encoding": "gzip"}]
)
def test_a_body_of_another_type_is_a_problem(service: httpx.Client, headers: dict[str, Any]) -> None:
    answer = service.post(URL, content=b"{}", headers={**ACME, **headers})
    is_problem(answer, 415, "unsupported_media_type")


def test_who_leaves_before_the_body_is_there_is_no_defect(service: httpx.Client, log: Log) -> None:
    before = log.records()
    head = "POST /v1/hmx/events HTTP/1.1\r\nHost: localhost\r\nX-HMX-Tenant: acme\r\n"
    head += "Content-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection((service.base_url.host, service.base_url.port or 0)) as leaving:
        leaving.sendall(head.encode() + orjson.dumps(event("gone")) + b"\n")
    counted = 'hmx_http_requests_total{route="/v1/hmx/events",status="499"}'
    until(lambda: counted in service.get("/metrics").text, "it is counted")
    assert log.records() == before


@pytest.mark.slow
def test_without_a_topic_nothing_counts_as_accepted_and_readiness_says_why(kafka: str, redis_url: str) -> None:
    with serving(new_settings(kafka, redis_url)) as client:
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["redis"]) == (503, "answers")
        assert EVENTS in ready.json()["kafka"]
        answer = client.post(URL, content=orjson.dumps(event()), headers=JSON)
        assert "results" not in is_problem(answer, 503, "kafka_unavailable")
        assert int(answer.headers["Retry-After"]) > 0
