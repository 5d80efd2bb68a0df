"""The service as a process: up without Kafka and Redis, red until they answer, and gone cleanly when told to."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import orjson
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.service.read_your_writes import Appended, token
from tests.support.forward import forwarding
from tests.support.pipeline import Pipeline, create_topics, new_settings
from tests.support.records import event
from tests.support.service import is_problem
from tests.support.waiting import until

WAIT_S = 60.0
ACME = {"X-HMX-Tenant": "acme"}
SENT = {"content": orjson.dumps(event()), "headers": {**ACME, "Content-Type": "application/json"}}


def answers(client: httpx.Client, path: str) -> bool:
    try:
        return client.get(path).status_code == 200
    except httpx.TransportError:
        return False


def test_it_serves_before_during_and_after_an_outage_of_kafka_and_redis(
    kafka: str, redis_url: str, tmp_path: Path
) -> None:
    settings = new_settings(kafka, redis_url)
    create_topics(settings)
    kafka_port, redis_port = free_ports(2)
    pipeline = Pipeline(settings, tmp_path)
    away = {"kafka_bootstrap": f"127.0.0.1:{kafka_port}", "redis_url": f"redis://127.0.0.1:{redis_port}/0"}
    process = pipeline.start("service", ready=False, **away)
    try:
        with httpx.Client(base_url=settings.service_url, timeout=WAIT_S) as client:
            until(lambda: answers(client, "/livez"))

            def refuses() -> None:
                ready = client.get("/readyz")
                assert ready.status_code == 503
                assert "answers" not in (ready.json()["kafka"], ready.json()["redis"])
                is_problem(client.post("/v1/hmx/events", **SENT), 503, "kafka_unavailable")
                is_problem(client.get("/v1/hmx/artifacts", headers=ACME), 503, "redis_unavailable")

            refuses()
            assert not answers(client, "/startupz")
            with forwarding(redis_port, urlsplit(redis_url).netloc):
                until(lambda: answers(client, "/startupz"), "started without Kafka")
                assert client.get("/v1/hmx/artifacts", headers=ACME).status_code == 200
                assert not answers(client, "/readyz")
            with forwarding(redis_port, urlsplit(redis_url).netloc), forwarding(kafka_port, kafka):
                until(lambda: answers(client, "/readyz"))
                assert client.post("/v1/hmx/events", **SENT).status_code == 202
                assert client.get("/v1/hmx/artifacts", headers=ACME).status_code == 200
            until(lambda: not answers(client, "/readyz"))
            is_problem(client.get("/v1/hmx/artifacts", headers=ACME), 503, "redis_unavailable")
            assert answers(client, "/livez")
            assert answers(client, "/startupz"), "who has started stays started"
        assert process.poll() is None
        assert pipeline.stop("service") == 0
    finally:
        pipeline.stop_all()
    log = pipeline.log("service", 1_000)
    assert "Traceback" not in log, log
    assert "event 0" not in log


def test_told_to_stop_it_ends_its_streams_by_name(kafka: str, redis_url: str, tmp_path: Path) -> None:
    settings = new_settings(kafka, redis_url)
    create_topics(settings, partitions=1)
    pipeline = Pipeline(settings, tmp_path)
    process = pipeline.start("service", ready=False)
    try:
        with httpx.Client(base_url=settings.service_url, headers=ACME, timeout=WAIT_S) as client:
            until(lambda: answers(client, "/livez"))
            url = f"{settings.service_url.replace('http', 'ws', 1)}/v1/hmx/events"
            with client.stream("GET", "/v1/hmx/stream") as stream, connect(url, additional_headers=ACME) as socket:
                lines = stream.iter_lines()
                next(lines)
                process.terminate()
                assert '"reason":"stopping"' in "".join(lines)
                with pytest.raises(ConnectionClosed) as closed:
                    socket.recv(WAIT_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        assert process.wait(WAIT_S) == 0
    finally:
        pipeline.stop_all()
    assert "ERROR" not in pipeline.log("service", 1_000)


def test_told_to_stop_it_answers_who_waits_for_what_may_never_come(redis_url: str, tmp_path: Path) -> None:
    """An append that Kafka does not acknowledge, and a pack that waits for what is in no log."""
    settings = new_settings("127.0.0.1:1", redis_url)
    pipeline = Pipeline(settings, tmp_path)
    process = pipeline.start("service", ready=False)
    after = token([Appended("s", 0, 0, "never")])
    pack = {"json": {"query": "anything", "after": after}, "headers": ACME}
    try:
        with (
            httpx.Client(base_url=settings.service_url, timeout=WAIT_S) as client,
            ThreadPoolExecutor() as pool,
        ):
            until(lambda: answers(client, "/livez"))
            waiting = [
                pool.submit(client.post, path, **asked)
                for path, asked in (("/v1/hmx/events", SENT), ("/v1/hmx/context-packs", pack))
            ]
            time.sleep(0.5)  # both have been asked, neither can be answered yet
            process.terminate()
            told = [one.result(WAIT_S) for one in waiting]
        is_problem(told[0], 503, "kafka_unavailable")
        is_problem(told[1], 503, "stopping")
        assert process.wait(WAIT_S) == 0
    finally:
        pipeline.stop_all()
    assert "Traceback" not in pipeline.log("service", 1_000)


def test_where_its_port_is_taken_it_says_so_and_ends(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = new_settings("127.0.0.1:1", "redis://127.0.0.1:1", service_port=taken.getsockname()[1])
        pipeline = Pipeline(settings, tmp_path)
        try:
            assert pipeline.start("service", ready=False).wait(WAIT_S) != 0
        finally:
            pipeline.stop_all()
    assert "address already in use" in pipeline.log("service")
