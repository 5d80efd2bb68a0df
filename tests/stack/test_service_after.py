"""Read your writes: a pack asked for after an append waits until memory holds it."""

import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from hmx_pipeline.service import read_your_writes
from tests.support.memory import Memory, episode, episode_as_read
from tests.support.pipeline import new_settings
from tests.support.service import serving

TENANT = {"X-HMX-Tenant": "acme"}


@pytest.fixture
def service(memory: Memory, redis_url: str) -> Iterator[httpx.Client]:
    with serving(new_settings("127.0.0.1:1", redis_url, topic_prefix=memory.keys.prefix)) as client:
        yield client


def asked(service: httpx.Client, token: object) -> httpx.Response:
    return service.post("/v1/hmx/context-packs", json={"query": "deploy", "after": token}, headers=TENANT)


def test_a_pack_waits_for_the_last_event_of_every_session(memory: Memory, service: httpx.Client) -> None:
    records = [
        episode_as_read(
            episode(f"e{n}", f"deploy {['staging', 'vault', 'pods', 'ingress'][n]}", session=f"s{n % 2}", index=n), n
        )
        for n in range(4)
    ]
    token = read_your_writes.token([read_your_writes.Appended(f"s{n % 2}", n, 0, f"e{n}") for n in range(4)])

    def written() -> None:
        for record in records:
            time.sleep(0.1)
            memory.write(record)

    writing = threading.Thread(target=written)
    writing.start()
    answer = asked(service, token)
    writing.join()
    assert answer.status_code == 200, answer.text
    assert {entry["source_id"] for entry in answer.json()["entries"]} >= {"e2", "e3"}
    assert asked(service, token).json()["pack_id"] == answer.json()["pack_id"]


def test_what_does_not_come_is_a_problem_that_names_it(
    memory: Memory, service: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_your_writes, "WAIT_S", 0.1)
    memory.write(episode_as_read(episode("e1", "deploy", session="other"), 0))
    answer = asked(service, read_your_writes.token([read_your_writes.Appended("s1", 1, 0, "e1")]))
    assert (answer.status_code, answer.json()["reason"]) == (504, "not_yet")
    assert "e1 of s1" in answer.json()["detail"]
    assert "Retry-After" in answer.headers


@pytest.mark.parametrize("token", ["", "é", "e30", 7, "W10x"])
def test_what_is_no_token_is_refused(service: httpx.Client, token: object) -> None:
    answer = asked(service, token)
    assert (answer.status_code, answer.json()["path"]) == (422, "$.after")
