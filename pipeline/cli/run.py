"""`hmx worker`, `hmx materialise`, `hmx serve`: the long-running processes."""

import signal
import threading
from typing import Any

import typer

from pipeline.settings import Settings


def register(app: typer.Typer) -> None:
    app.command()(worker)
    app.command()(materialise)
    app.command()(serve)


def worker() -> None:
    """Runs both stages: events → episodes and evidence → artifacts and knowledge.

    Several workers share the partitions. Example: HMX_KAFKA_BOOTSTRAP=kafka:9092 HMX_WORKER_ID=worker-1 hmx worker
    """
    from pipeline.worker.main import run_worker

    run_worker(Settings.load())


def materialise() -> None:
    """Writes episodes, evidence, artifacts and knowledge into Redis, together with their topic positions.

    Example: HMX_KAFKA_BOOTSTRAP=kafka:9092 HMX_REDIS_URL=redis://redis:6379 hmx materialise
    """
    from pipeline.observe.ending import end_in_time
    from pipeline.observe.logs import configure_logs
    from pipeline.store.materialiser import Materialiser

    settings = Settings.load()
    configure_logs(settings.log_level, settings.log)
    stop = threading.Event()

    def ask_to_stop(*_: Any) -> None:
        end_in_time()
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    Materialiser(settings).run(stop)


def serve() -> None:
    """Serves context packs, artifacts and events over HTTP, with OpenAPI at /docs.

    Example: HMX_SERVICE_PORT=8080 hmx serve
    """
    from pipeline.service.main import run_service

    run_service(Settings.load())
