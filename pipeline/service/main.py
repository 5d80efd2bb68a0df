"""The service process: listens at once, whether or not Kafka and Redis answer, until it is told to stop."""

import signal
import sys
from typing import Any

import uvicorn

from pipeline.observe.logs import configure_logs
from pipeline.service.app import create_app
from pipeline.settings import Settings

STOPPING_S = 10


def run_service(settings: Settings) -> None:
    """Until SIGTERM or SIGINT; requests under way are finished. Raises SettingsError, SystemExit for a taken port."""
    configure_logs(settings.log_level, settings.log)

    def stop(*_: Any) -> None:
        sys.exit(0)

    # The server takes the signals while it runs and hands them on when it has stopped.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.service_port,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOPPING_S,
    )
