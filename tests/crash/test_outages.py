"""Servers that go away: a clear message, not ready meanwhile, and no crash loop."""

import os
import re
import signal
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path

from hmx_pipeline.local.stack import Stack
from hmx_pipeline.local.state import read_stack
from hmx_pipeline.settings import Settings
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.waiting import until


def answer(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def pid(stack: Stack, name: str) -> int | None:
    described = read_stack(stack.state)
    assert described is not None
    running_as: int | None = described["components"][name]["pid"]
    return running_as


def ports(settings: Settings) -> list[int]:
    return [settings.worker_port, settings.materialiser_port, settings.service_port]


def test_without_kafka_and_redis_processes_wait_and_say_so(tmp_path: Path) -> None:
    settings = new_settings("127.0.0.1:9", "redis://127.0.0.1:9/0")
    pipeline = Pipeline(settings, tmp_path)
    try:
        for name in ("worker", "materialiser", "service"):
            pipeline.start(name, ready=False)
        for port in ports(settings):
            until(lambda port=port: answer(f"http://127.0.0.1:{port}/livez")[0] == 200)
            assert answer(f"http://127.0.0.1:{port}/readyz")[0] == 503
            until(lambda port=port: re.search("Kafka|Redis", answer(f"http://127.0.0.1:{port}/readyz")[1]))
        time.sleep(12)  # longer than a client asks before it gives up
        assert all(process.poll() is None for process in pipeline.processes.values())
        assert "Kafka does not answer at 127.0.0.1:9" in pipeline.log("worker")
    finally:
        pipeline.stop_all()


def test_a_worker_refuses_an_events_topic_without_append_times(kafka: str, tmp_path: Path) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    from hmx_pipeline.kafka.topic_files import connect

    settings = new_settings(kafka)
    with running(settings, tmp_path) as pipeline:
        admin = connect(kafka)
        change = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(
            ResourceType.TOPIC, f"{settings.topic_prefix}hmx.events.v1", incremental_configs=[change]
        )
        for done in admin.incremental_alter_configs([topic]).values():
            done.result()
        process = pipeline.start("worker", ready=False)
        assert process.wait(120) == 1
        assert "needs LogAppendTime" in pipeline.log("worker")


def test_a_broker_that_goes_away_is_told_by_every_process_and_by_a_metric_until_it_is_back(tmp_path: Path) -> None:
    """No lag tells: what is at the end of a topic is as it was last known. While it is away, who is told to stop ends
    sooner than a client gives a request up, which takes 40 s, and without being killed."""
    with Stack(tmp_path / "state", keep=False) as stack:
        settings = new_settings(stack.kafka_bootstrap, stack.redis_url)
        with running(settings, tmp_path, "worker", "materialiser", "service", partitions=2) as pipeline:
            addresses = [f"http://127.0.0.1:{port}" for port in ports(settings)]

            def told(ready: int, said: str = "") -> bool:
                answers = [answer(f"{address}/readyz") for address in addresses]
                gauges = [re.search(r"hmx_kafka_answers\{.*\} (.*)", answer(f"{a}/metrics")[1]) for a in addresses]
                return (
                    all(status == ready and said in text for status, text in answers)
                    and [gauge and float(gauge[1]) for gauge in gauges] == [ready == HTTPStatus.OK] * 3
                )

            until(lambda: told(200), "all are ready")
            broker = pid(stack, "kafka-1") or 0
            os.kill(broker, signal.SIGSTOP)
            try:
                until(lambda: told(503, "Kafka does not answer"), "all say so")
                assert all(answer(f"{address}/livez")[0] == 200 for address in addresses)
                os.kill(broker, signal.SIGCONT)
                until(lambda: told(200), "all are ready again")
                os.kill(broker, signal.SIGSTOP)
                processes = list(pipeline.processes.values())
                for process in processes:
                    process.terminate()
                assert [process.wait(30) for process in processes] == [0, 0, 0]
            finally:
                os.kill(broker, signal.SIGCONT)
