"""Two service processes take captures of the same sessions: sequences rise in the log, and a key is taken once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import httpx
import pytest

from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.settings import Settings
from tests.support.memory import empty
from tests.support.pipeline import new_settings, running
from tests.support.topics import logged

CAPTURES = 400
AT_ONCE = 8
WAIT_S = 60.0
KEY = {"Authorization": "Bearer hx_test_acme"}


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str) -> Settings:
    return new_settings(kafka, redis_url)


@pytest.fixture(scope="module")
def services(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[httpx.Client]]:
    (port,) = free_ports(1)
    with running(settings, tmp_path_factory.mktemp("services"), "service", partitions=2) as pipeline:
        pipeline.start("service-2", ready=False, service_port=port)
        pipeline.await_ready("service-2", port)
        urls = (settings.service_url, f"http://127.0.0.1:{port}")
        clients = [httpx.Client(base_url=url, headers=KEY, timeout=WAIT_S) for url in urls]
        yield clients
        for client in clients:
            client.close()


def captured(client: httpx.Client, session: str, text: str, key: str | None = None) -> dict[str, Any]:
    body = {"type": "message", "sessionId": session, "payload": {"role": "user", "content": text}}
    answer = client.post("/v1/capture", json=body if key is None else {**body, "idempotencyKey": key})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["data"])


@pytest.mark.requirement("Y25")
@pytest.mark.parametrize("emptied", [False, True], ids=["Redis stays", "Redis is emptied in between"])
def test_sequences_rise_in_the_log_whichever_process_takes_a_capture(
    settings: Settings, services: list[httpx.Client], emptied: bool
) -> None:
    session = f"shared {emptied}"
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sent = [pool.submit(captured, services[n % 2], session, f"n {n}") for n in range(CAPTURES)]
        sent[CAPTURES // 3].result()
        if emptied:
            empty(settings)
        ids = {one.result()["eventId"] for one in sent}
    events = logged(settings, session)
    assert {event.event.event_id for event in events} == ids
    assert len(ids) == CAPTURES
    assert [(a, b) for a, b in pairwise(event.event.sequence for event in events) if a >= b] == []


@pytest.mark.requirement("Y25")
def test_a_batch_of_several_sessions_and_single_captures_of_them_rise_too(
    settings: Settings, services: list[httpx.Client]
) -> None:
    sessions = [f"of many {n}" for n in range(4)]
    event = {"type": "message", "payload": {"role": "user", "content": "x"}}

    def batch(n: int) -> None:
        order = sessions[n % 4 :] + sessions[: n % 4]
        events = [{**event, "sessionId": session} for session in order]
        answer = services[n % 2].post("/v1/capture/batch", json={"events": events})
        assert answer.json()["data"]["summary"]["ingested"] == len(order)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = [pool.submit(batch, n) for n in range(100)]
        done += [pool.submit(captured, services[n % 2], sessions[n % 4], "y") for n in range(100)]  # type: ignore[misc]
        for one in done:
            one.result()
    for session in sessions:
        sequences = [one.event.sequence for one in logged(settings, session)]
        assert len(sequences) == 125
        assert all(a < b for a, b in pairwise(sequences))


@pytest.mark.requirement("O-05")
def test_a_key_that_was_used_is_a_duplicate_in_every_process(settings: Settings, services: list[httpx.Client]) -> None:
    """At once, so that nothing of it is in memory; and later, in either."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sent = [pool.submit(captured, services[n % 2], "keyed", "x", f"key {n // 4}") for n in range(80)]
        answers = [one.result() for one in sent]
    answers += [captured(service, "keyed", "x", f"key {n}") for n in range(20) for service in services]
    assert [answer["status"] for answer in answers].count("ingested") == 20
    assert len(logged(settings, "keyed")) == 20
