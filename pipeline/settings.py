"""Settings: read once from HMX_… environment variables, then from a local stack, then defaults."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from pipeline.contracts import limits


class SettingsError(Exception):
    """A setting is missing or invalid; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; the environment variable of a field is `HMX_` and its name in capitals."""

    state: Path = Path(".hmx")
    """Folder of the local stack."""
    kafka_bootstrap: str = ""
    """host:port[,host:port…]"""
    redis_url: str = ""
    """redis://host:port/database"""
    service_url: str = ""
    """Address of the service, as clients reach it."""
    topic_prefix: str = ""
    """Prefix of every topic, group and transactional id, to run several pipelines on one cluster."""
    control_key: str = ""
    """Secret that authenticates ticks, barriers and operators' decisions; the same for all processes."""
    ordering: str = "eager"
    """eager: only events behind a gap wait; strict: all events wait the window, ties are ordered by timestamp."""
    window_ms: int = limits.WINDOW_MS
    """How long an event waits behind a gap, in ms (HMX-E §7)."""
    worker_id: str = ""
    """Static group member id, unique per worker. A restart within the session timeout causes no rebalance."""
    session_timeout_ms: int = 10_000
    """A silent worker loses its partitions after this time."""
    transaction_timeout_ms: int = 60_000
    """Longest time that an open transaction may block read_committed consumers."""
    host: str = "127.0.0.1"
    """Address that the HTTP servers listen on."""
    allowed_hosts: str = ""
    """Comma-separated host names accepted if no API keys are set, besides localhost, HMX_HOST and HMX_SERVICE_URL's
    host. Web pages from these hosts may call the service."""
    service_port: int = 8080
    """Port of the service; OpenAPI at /docs."""
    api_keys: str = ""
    """File of the API keys of `/v1`, written by `hmx keys`; if unset, requests are not authenticated."""
    rate_limit: int = 60_000
    """Requests per minute and tenant under `/v1`, per process; 0: unlimited."""
    worker_port: int = 8081
    """Port of the worker's health checks and metrics."""
    materialiser_port: int = 8082
    """Port of the materialiser's health checks and metrics."""
    processes: str = ""
    """Addresses of workers and materialisers for status views: worker=http://host:8081,materialiser=http://…"""
    ready_lag_s: int = 60
    """/readyz fails if the oldest unread record is older than this, in seconds."""
    semantic: str = ""
    """File of the embedding model for semantic search, from `hmx semantic`; unset: search by words only."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    log: str = "auto"
    """json: one JSON object per line; text: for people; auto: text on a terminal, otherwise json."""
    otlp_endpoint: str = ""
    """OTLP over HTTP endpoint for trace spans, such as http://collector:4318; unset: no spans."""

    def __post_init__(self) -> None:
        if self.ordering not in ("eager", "strict"):
            raise SettingsError(f"HMX_ORDERING={self.ordering!r} is invalid: set it to eager or strict")
        if self.log not in ("auto", "json", "text"):
            raise SettingsError(f"HMX_LOG={self.log!r} is invalid: set it to auto, json or text")

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Reads the environment. Raises SettingsError for a malformed value."""
        environ = os.environ if environ is None else environ
        state = Path(environ.get("HMX_STATE", ".hmx"))
        values: dict[str, Any] = {**_running_stack(state), "state": state}
        for field in fields(cls):
            name = f"HMX_{field.name.upper()}"
            text = environ.get(name)
            if text is None or field.name == "state":
                continue
            try:
                values[field.name] = int(text) if field.type is int else text
            except ValueError:
                raise SettingsError(f"{name}={text!r} is not a whole number") from None
        return cls(**values)

    def require_kafka(self) -> str:
        if not self.kafka_bootstrap:
            raise SettingsError("no Kafka address: run `hmx up` here, or set HMX_KAFKA_BOOTSTRAP=host:port")
        return self.kafka_bootstrap

    def require_redis(self) -> str:
        if not self.redis_url:
            raise SettingsError("no Redis address: run `hmx up` here, or set HMX_REDIS_URL=redis://host:port")
        return self.redis_url

    def addresses(self) -> dict[str, str]:
        """Parses `processes` into name → address. Raises SettingsError."""
        named = [part.strip().partition("=") for part in self.processes.split(",") if part.strip()]
        if any(not name or not address.startswith("http://") for name, _, address in named):
            raise SettingsError(f"HMX_PROCESSES={self.processes!r} is invalid: use name=http://host:port,…")
        return {name: address.rstrip("/") for name, _, address in named}

    def require_control_key(self) -> str:
        if not self.control_key:
            raise SettingsError(
                "no control key: run `hmx up` here, or set HMX_CONTROL_KEY to one secret for all processes"
            )
        return self.control_key


def _running_stack(state: Path) -> dict[str, Any]:
    """Returns what `hmx up` wrote about its running stack; empty if none runs."""
    try:
        stack = json.loads((state / "stack.json").read_text())
        key = (state / "control.key").read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(f"HMX_STATE={str(state)!r}: {error.strerror}") from error
    return {
        "control_key": key,
        **{k: stack[k] for k in ("kafka_bootstrap", "redis_url", "service_url", "semantic") if stack.get(k)},
    }
