"""`hmx worker`, `hmx materialise`, `hmx serve`: the long-running processes.

Enters: settings, and files of certificates and secrets. Leaves: nothing until SIGTERM; the worker writes to topics, the
materialiser to Redis, and the service answers over HTTP. A Kafka client reads certificates and secrets when it is made,
and never again. So when one of their files is replaced, the process ends in order and starts itself anew, in its place
and under its pid; all connections are new then.
"""

import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any, Final

import typer

from hmx_pipeline.observe.shutdown import SHUTDOWN, stop_event
from hmx_pipeline.settings import Settings, SettingsError

LOG: Final = logging.getLogger("hmx")
LOOK_S: Final = 10.0
"""How often the files are read. What is found must be the same twice: they may be replaced one after the other."""
SPREAD_S: Final = 10.0
"""Processes that share files do not start anew at the same moment."""


def worker() -> None:
    """Runs both stages: events → episodes and evidence → artifacts and knowledge.

    Several workers share the partitions. Example: HMX_KAFKA_BOOTSTRAP=kafka:9092 HMX_WORKER_ID=worker-1 hmx worker
    """
    from hmx_pipeline.worker.main import run_worker

    _renewed(run_worker, redis=False, https=False)


def materialise() -> None:
    """Writes episodes, evidence, artifacts and knowledge into Redis, with their topic positions.

    Example: HMX_KAFKA_BOOTSTRAP=kafka:9092 HMX_REDIS_URL=redis://redis:6379 hmx materialise
    """
    _renewed(_materialise, https=False)


def serve(
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="how many share the port; each also has one of its own, above it")
    ] = 1,
    listening: Annotated[int | None, typer.Option("--socket", hidden=True)] = None,
) -> None:
    """Serves context packs, artifacts and events over HTTP, with OpenAPI at /docs/api.

    Example: HMX_SERVICE_PORT=9000 hmx serve --processes 4
    """
    if processes > 1:
        from hmx_pipeline.service.processes import run_processes

        raise typer.Exit(run_processes(Settings.load(), processes))
    from hmx_pipeline.service.main import run_service

    _renewed(partial(run_service, listening=listening))


def _materialise(settings: Settings) -> None:
    from hmx_pipeline.observe.logs import configure_logs
    from hmx_pipeline.store.materialiser import Materialiser

    configure_logs(settings.log_level, settings.log)
    stop = stop_event()
    materialiser = Materialiser(settings)
    with ExitStack() as stack:
        if settings.archive:
            from hmx_pipeline.store.archiver import archiving

            stack.enter_context(archiving(settings, stop))
        materialiser.run(stop)


def _renewed(run: Callable[[Settings], None], **used: bool) -> None:
    """Runs until it ends; in the place of one that was told to stop by `_watch` only, the same command starts."""
    settings = Settings.load()
    known = settings.credentials(**used)
    signal.signal(signal.SIGTERM, _stop_at_once)  # until the process sets its own
    threading.Thread(target=_watch, args=(known, used), daemon=True).start()
    try:
        run(settings)
    except SystemExit:
        if not SHUTDOWN.replaced():
            raise
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # one that arrives from now on ends it, here or in its successor
    if SHUTDOWN.replaced():
        logging.shutdown()
        _start_anew()


def _stop_at_once(*_: Any) -> None:
    SHUTDOWN.told += 1
    sys.exit(0)


def _start_anew() -> None:
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  no shell is wanted


def _watch(known: str, used: dict[str, bool]) -> None:
    before, trouble = known, ""
    while True:
        time.sleep(LOOK_S)
        try:
            seen = Settings.load().credentials(**used)
        except (SettingsError, OSError, ValueError) as error:  # a file that is half written, or a mistake
            seen = known
            if str(error) != trouble:
                LOG.warning("goes on with the secrets and certificates it has: %s", error)
            trouble = str(error)
        if seen == before != known:
            break
        before = seen
    time.sleep(random.uniform(0, SPREAD_S))
    LOG.warning("a secret or certificate was replaced: ends, and starts anew with it")
    SHUTDOWN.anew = _start_anew
    os.kill(os.getpid(), signal.SIGTERM)
