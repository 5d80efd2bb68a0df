"""`make soak` (MINUTES=n, default 20): traffic that grows in every dimension, against a fixed limit of memory.

Starts a stack and the pipeline's processes, with bounds that minutes reach (tests.soak.bounded), and stops them. Shows
what worker, materialiser, service and Redis take meanwhile, and writes build/soak.json. Exit code: 0 nothing grows any
more; 1 something does, took more than its limit, or ended.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx
import orjson
import redis
from rich.console import Console
from rich.table import Table
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError
from hmx_pipeline.local.process import StackError
from hmx_pipeline.runtime.barriers import LackingError, wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.soak.judge import LIMITS, MB, Sample, Verdict, judged
from tests.soak.readers import READERS, Readers
from tests.soak.traffic import Traffic
from tests.support.pipeline import Pipeline, create_topics, new_settings
from tests.support.resident import resident, used_memory
from tests.support.stack import servers

PARTITIONS: Final = 2
SESSIONS_A_SECOND: Final = 12
SAMPLE_S: Final = 5.0
BARRIER_S: Final = 20.0
OUT: Final = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
PROCESSES: Final = ("worker", "materialiser", "service")


class Soak:
    def __init__(self, settings: Settings, pipeline: Pipeline, seconds: float) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._seconds = seconds
        self._traffic = Traffic(seed=1)
        self._redis = redis.Redis.from_url(settings.redis_url, socket_timeout=60)  # it shares the processors
        self._over = threading.Event()
        self._readers = Readers(settings.service_url, self._over)
        self.samples: list[Sample] = []
        self.answered = self.refused = 0

    @property
    def streamed(self) -> int:
        """Bytes."""
        return self._readers.read

    def run(self) -> list[Verdict]:
        """Raises AssertionError where a process has ended."""
        side = [threading.Thread(target=work) for work in (self._ask, self._speak, self._barriers)]
        side += [threading.Thread(target=self._readers.follow, args=(number,)) for number in range(READERS)]
        began = time.monotonic()
        for thread in side:
            thread.start()
        try:
            self._produce(began)
        finally:
            self._over.set()
            for thread in side:
                thread.join()
        return judged(self.samples)

    def _produce(self, began: float) -> None:
        producer = plain_producer(self._settings.kafka_bootstrap)
        topic, due = self._settings.topic_prefix + EVENTS, 0.0
        for second in range(int(self._seconds)):
            for _ in range(SESSIONS_A_SECOND):
                for key, value in self._traffic.session(int(time.time() * 1000)):
                    producer.produce(topic, value, key.encode())
                    producer.poll(0)
            producer.flush()
            if time.monotonic() - began >= due:
                self._sample(time.monotonic() - began)
                due += SAMPLE_S
            time.sleep(max(0.0, began + second + 1 - time.monotonic()))

    def _sample(self, at: float) -> None:
        taken = {}
        for name in PROCESSES:
            process = self._pipeline.processes[name]
            assert process.poll() is None, f"{name} has ended:\n{self._pipeline.log(name)}"
            taken[name] = resident(process.pid)
        taken["redis"] = used_memory(self._redis)
        self.samples.append(Sample(at, self._traffic.sent, taken))

    def _ask(self) -> None:
        """Ever new words, tenants that nobody knows, ids that nothing has, keys of captures, types."""
        traffic = Traffic(seed=2)
        with httpx.Client(base_url=self._settings.service_url, timeout=30) as client:
            while not self._over.wait(0.2):
                query = f"deploy {traffic.word()} {traffic.word()} " + "y" * 2_000
                capture = {
                    "type": f"x-soak-{traffic.word()}", "sessionId": traffic.id(), "payload": {"text": query},
                    "idempotencyKey": traffic.word(),
                }  # fmt: skip
                for tenant in (traffic.tenant(), traffic.word()):
                    headers = {"X-HMX-Tenant": tenant}
                    pack = {"query": query, "session_id": traffic.id(), "agent_id": traffic.id()}
                    for path, body in (
                        ("/v1/hmx/context-packs", pack), ("/v1/capture", capture), ("/v1/synthesize", {"query": query}),
                    ):  # fmt: skip
                        if path != "/v1/capture" or tenant.startswith("tenant-"):
                            self._count(client, "POST", path, headers, orjson.dumps(body))
                    self._count(client, "GET", f"/v1/hmx/events/{traffic.word()}", headers)
                self._count(client, "GET", "/v1/hmx/tables/sessions", {"X-HMX-Tenant": traffic.tenant()})

    def _count(self, client: httpx.Client, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> None:
        sent = {**headers, "Content-Type": "application/json"} if body else headers
        try:
            answer = client.request(method, path, content=body, headers=sent)
        except httpx.TransportError:
            self.refused += 1
            return
        self.answered += answer.status_code < 500
        self.refused += answer.status_code >= 500

    def _speak(self) -> None:
        """Clients that send a few events over a WebSocket and go, one after the other."""
        traffic = Traffic(seed=3)
        url = self._settings.service_url.replace("http", "ws", 1) + "/v1/hmx/events"
        protocols: list[object] = ["hmx-1.0"]
        while not self._over.wait(1.0):
            records = list(traffic.session(int(time.time() * 1000)))
            tenant = orjson.loads(records[0][1])["tenant_id"]
            with (
                suppress(OSError, WebSocketException, TimeoutError),
                connect(
                    url,
                    additional_headers={"X-HMX-Tenant": tenant},
                    subprotocols=protocols,
                    proxy=None,  # type: ignore[arg-type]
                ) as socket,
            ):
                for _, value in records[:-1]:
                    socket.send(value.decode())
                    socket.recv(timeout=10)

    def _barriers(self) -> None:
        """Open segments speak, so that patterns have something to learn."""
        while not self._over.wait(BARRIER_S):
            with suppress(LackingError, KafkaUnreachableError):  # the next one follows
                wait_for_stages(self._settings, BARRIER_S)


def main() -> int:
    minutes = float(os.environ.get("MINUTES") or 20)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path("build") / "soak"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as state:
            os.environ["HMX_STATE"] = state
            with servers(Path(state) / "stack") as running:
                return _soak(new_settings(running.kafka_bootstrap, running.redis_url), folder, 60 * minutes)
    except (AssertionError, StackError, ValueError) as error:
        OUT.print(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        OUT.print("interrupted; everything is stopped")
        return 130


def _soak(settings: Settings, folder: Path, seconds: float) -> int:
    create_topics(settings, PARTITIONS)
    pipeline = Pipeline(settings, folder)
    try:
        for name in PROCESSES:
            pipeline.start(name, program=("-m", "tests.soak.bounded"))
        soak = Soak(settings, pipeline, seconds)
        verdicts = soak.run()
    finally:
        pipeline.stop_all()
    shown(soak, verdicts)
    report = {
        "samples": [sample._asdict() for sample in soak.samples],
        "verdicts": [verdict._asdict() for verdict in verdicts],
        "answered": soak.answered,
        "streamed": soak.streamed,
        "refused": soak.refused,
    }
    (folder.parent / "soak.json").write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2))
    return int(any(verdict.failure for verdict in verdicts))


def shown(soak: Soak, verdicts: list[Verdict]) -> None:
    curve = Table("seconds", "events", *soak.samples[0].taken, title="MB over time")
    every = max(1, len(soak.samples) // 24)
    for sample in soak.samples[::every]:
        curve.add_row(f"{sample.at:.0f}", f"{sample.events:,}", *(f"{n / MB:.0f}" for n in sample.taken.values()))
    OUT.print(curve)
    OUT.print(f"{soak.answered:,} requests answered, {soak.refused:,} refused or broken off")
    OUT.print(f"{soak.streamed // MB:,} MB were streamed to {READERS} readers")
    table = Table("process", "most, MB", "limit, MB", "last third", "verdict")
    for verdict in verdicts:
        grown = f"× {verdict.grown:.2f} an event" if verdict.name == "redis" else f"{verdict.grown / MB:+.1f} MB"
        most, limit = f"{verdict.most / MB:.0f}", f"{LIMITS[verdict.name] / MB:.0f}"
        table.add_row(verdict.name, most, limit, grown, verdict.failure or "bounded")
    OUT.print(table)


if __name__ == "__main__":
    sys.exit(main())
