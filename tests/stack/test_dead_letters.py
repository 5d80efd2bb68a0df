"""Dead letters over HTTP on a real broker: each tenant sees its own, without secrets, and sends one back once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from hmx_pipeline.audit.dead_letter_replay import send_back
from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.erasure import ErasedScope, ErasureMark, mark_of
from hmx_pipeline.contracts.headers import Headers, header
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.queries import rejected_records
from hmx_pipeline.queries.dead_letter_policy import LetterFilter
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.service.api_keys import USUAL, Grant, Scope, add
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.topology import ERASURES, EVENTS
from tests.support.events import encoded, event
from tests.support.letters import rejected
from tests.support.pipeline import new_settings, running
from tests.support.service import is_problem, serving
from tests.support.topics import headers_of, read

SECRET = "AKIAIOSFODNN7EXAMPLE"
NONSENSE = b"nonsense with password=hunter2-Zq7Xw2"


def bad(tenant: str, session: str, **changes: Any) -> bytes:
    said = {"role": "user", "text": f"{tenant} uses {SECRET}"}
    return encoded(event(tenant_id=tenant, session_id=session, timestamp="yesterday", content=said, **changes))


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path_factory.mktemp("logs"), "worker"):
        publish([bad("acme", "a-1"), bad("acme", "a-2"), bad("globex", "g-1"), NONSENSE, encoded(event())], made)
        wait_for_stages(made, 120.0)
        yield made


def asked(service: httpx.Client, headers: dict[str, str], **parameters: Any) -> dict[str, Any]:
    answer = service.get("/v1/hmx/dead-letters", headers=headers, params=parameters)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.requirement("K-07")
def test_a_tenant_sees_its_own_letters_without_secrets_and_nobody_elses(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    admin, reader = (add(file, Grant("acme", scopes)) for scopes in (frozenset(Scope), USUAL))
    with serving(replace(settings, api_keys=str(file))) as service:
        told = asked(service, {"Authorization": f"Bearer {admin}"})
        refused = service.get("/v1/hmx/dead-letters", headers={"Authorization": f"Bearer {reader}"})
    is_problem(refused, 403, "forbidden")
    assert {letter["session_id"] for letter in told["letters"]} == {"a-1", "a-2"}
    assert (told["total"], told["complete"], told["reasons"]) == (2, True, {"bad_timestamp": 2})
    letter = told["letters"][0]
    assert (letter["reason"], letter["path"]) == ("bad_timestamp", "$.timestamp")
    assert "RFC 3339" in letter["advice"]
    assert orjson.loads(letter["value"])["timestamp"] == "yesterday"
    said = str(told)
    assert SECRET not in said
    assert "globex" not in said
    assert "nonsense" not in said


def test_without_keys_what_names_no_tenant_is_shown_too_without_its_secret(settings: Settings) -> None:
    with serving(settings) as service:
        told = asked(service, {"X-HMX-Tenant": "globex"}, reason="not_json")
        both = asked(service, {"X-HMX-Tenant": "globex"}, limit=1)
    ((value, path),) = [(letter["value"], letter["session_id"]) for letter in told["letters"]]
    assert value.startswith("nonsense with password=")
    assert "hunter2" not in value
    assert path == ""
    assert (both["total"], len(both["letters"])) == (2, 1)


def test_what_is_long_is_not_shown_and_older_letters_are_said_to_be_left_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish([bad("acme", f"long-{n}", metadata={"note": "x" * 10_000}) for n in range(3)], settings)
    wait_for_stages(settings, 120.0)
    monkeypatch.setattr(rejected_records, "NEWEST", 1)
    monkeypatch.setattr(rejected_records, "STRETCH", 1)
    found, complete = rejected_records.newest(settings)
    assert not complete
    monkeypatch.setattr(rejected_records, "NEWEST", 400)
    found, complete = rejected_records.newest(settings)
    long = [letter for letter in found if letter.session.startswith("long-")]
    assert complete
    assert [letter.as_json()["value"] for letter in long] == [None] * 3
    assert all(letter.size > 10_000 for letter in long)


def test_what_was_erased_is_hidden_and_what_names_nobody_with_it(settings: Settings) -> None:
    found, _ = rejected_records.newest(settings)
    theirs = next(letter for letter in found if letter.session == "a-1")
    nobodys = next(letter for letter in found if not letter.tenant)

    def hidden(letter: rejected_records.DeadLetter, *, partition: int, before: int) -> bool:
        marks = [mark_of("acme", ErasedScope.SESSION, "a-1")]
        mark = ErasureMark(erasure_id="e", tenant_id="acme", at=0, marks=marks, partition=partition, before=before)
        erased = Erasures([mark])
        return erased.hides_event(letter.tenant, letter.session, "", letter.origin)

    at, offset = theirs.origin
    assert hidden(theirs, partition=at, before=offset + 1)
    assert not hidden(theirs, partition=at, before=offset)
    assert hidden(nobodys, partition=nobodys.origin[0], before=nobodys.origin[1] + 1)


def in_log(settings: Settings, value: bytes) -> list[Headers]:
    """The headers of each record of the events topic with these bytes."""
    found = [message for messages in read(settings, EVENTS).values() for message in messages]
    return [headers_of(message) for message in found if message.value() == value]


@pytest.mark.requirement("K-07")
def test_a_letter_whose_cause_is_gone_goes_back_once_with_its_bytes_and_headers(settings: Settings) -> None:
    value = encoded(event(tenant_id="acme", session_id="sent-back", metadata={"n": 1.0}))
    theirs = [("traceparent", b"00-1"), (names.AGENT_UNPROVEN, b"true")]
    place = rejected(settings, value, Reason.TOO_DEEP, theirs)
    with serving(settings) as service:
        answer = service.post(f"/v1/hmx/dead-letters/{place}/replay", headers={"X-HMX-Tenant": "acme"})
        again = service.post(f"/v1/hmx/dead-letters/{place}/replay", headers={"X-HMX-Tenant": "acme"})
    assert answer.status_code == 202, answer.text
    is_problem(again, 422, "before")
    (headers,) = in_log(settings, value)
    assert list(headers[:2]) == theirs
    assert f"{0}/{header(headers, names.ORIGIN_OFFSET).decode()}" == place
    wait_for_stages(settings, 120.0)
    found, _ = rejected_records.newest(settings)
    assert [letter.session for letter in found].count("sent-back") == 1, "it was not rejected once more"
    assert send_back(settings, LetterFilter(reasons=("too_deep",)), apply=True).going == 0


def test_a_letter_stays_where_it_would_be_rejected_again_or_is_another_tenants(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    admin, reader = (add(file, Grant("acme", frozenset(scopes))) for scopes in (Scope, {Scope.ADMIN, Scope.READ}))
    wrong, deadly = bad("acme", "a-3"), encoded(event(tenant_id="acme", session_id="deadly"))
    theirs = encoded(event(tenant_id="globex", session_id="g-2"))
    places = [
        rejected(settings, value, reason)
        for value, reason in ((wrong, Reason.BAD_TIMESTAMP), (deadly, Reason.DEADLY), (theirs, Reason.TOO_DEEP))
    ]
    with serving(replace(settings, api_keys=str(file))) as service:

        def replayed(place: str, key: str) -> httpx.Response:
            return service.post(f"/v1/hmx/dead-letters/{place}/replay", headers={"Authorization": f"Bearer {key}"})

        is_problem(replayed(places[0], admin), 422, "bad_timestamp")
        is_problem(replayed(places[1], admin), 422, "named")
        is_problem(replayed(places[2], admin), 404, "not_found")
        is_problem(replayed("0/999999", admin), 404, "not_found")
        is_problem(replayed("4096/0", admin), 404, "not_found")
        is_problem(replayed(places[0], reader), 403, "forbidden")
    assert not any(in_log(settings, value) for value in (wrong, deadly, theirs))


def test_what_was_erased_does_not_come_back(settings: Settings) -> None:
    value = encoded(event(tenant_id="acme", session_id="erased"))
    place = rejected(settings, value, Reason.TOO_COSTLY)
    mark = ErasureMark(
        erasure_id="e", tenant_id="acme", at=0, marks=[mark_of("acme", ErasedScope.SESSION, "erased")],
        partition=0, before=10**6 + 1,
    )  # fmt: skip
    producer = plain_producer(settings.require_kafka())
    producer.produce(settings.topic_prefix + ERASURES, mark.model_dump_json().encode(), mark.key.encode())
    producer.flush()
    with serving(settings) as service:
        answer = service.post(f"/v1/hmx/dead-letters/{place}/replay", headers={"X-HMX-Tenant": "acme"})
    is_problem(answer, 404, "not_found")
    found = send_back(settings, LetterFilter(reasons=(Reason.TOO_COSTLY,), force=True), apply=True)
    assert found.as_json()["reasons"] == {Reason.TOO_COSTLY: {"erased": 1}}
    assert not in_log(settings, value)
