"""Every setting, read once from the environment (`HMX_…`), else from the local stack that runs here, else a default."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from pipeline.contracts import limits


class SettingsError(Exception):
    """A setting is missing or has no valid value; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One field a setting; `HMX_` and the name in capitals is its environment variable."""

    state: Path = Path(".hmx")
    """Folder of the local stack."""
    kafka_bootstrap: str = ""
    """host:port[,host:port…]"""
    redis_url: str = ""
    """redis://host:port/database"""
    service_url: str = ""
    """Where the service answers, for whoever asks."""
    topic_prefix: str = ""
    """Put before every topic name, group and transactional id: several pipelines on one cluster."""
    control_key: str = ""
    """Authenticates ticks, barriers and operators' decisions; the same for every process of a deployment."""
    ordering: str = "eager"
    """eager: only what stands behind a gap waits; strict: everything waits the window, ties come out by timestamp."""
    window_ms: int = limits.WINDOW_MS
    """How long an event waits behind a gap (HMX-E §7)."""
    worker_id: str = ""
    """Static group membership: a slot's stable name. A restart within the session timeout then disturbs nobody."""
    session_timeout_ms: int = 10_000
    """So long a silent worker keeps its partitions."""
    transaction_timeout_ms: int = 60_000
    """So long an unfinished transaction may hold up readers."""
    host: str = "127.0.0.1"
    """Where the HTTP servers listen."""
    allowed_hosts: str = ""
    """Names that the service is called by, with commas between them, where no keys are set: beside localhost, HMX_HOST
    and the host of HMX_SERVICE_URL. Pages of these hosts may ask it too."""
    service_port: int = 8080
    """The service's; HTTP with OpenAPI at /docs."""
    api_keys: str = ""
    """File of the keys that open `/v1`, as `hmx keys` writes it; without one anybody is whoever they say."""
    rate_limit: int = 60_000
    """Requests a minute that a tenant has under `/v1` in one process; 0: any number."""
    worker_port: int = 8081
    """The worker's health and metrics."""
    materialiser_port: int = 8082
    """The materialiser's health and metrics."""
    processes: str = ""
    """Where workers and the materialiser answer, for whoever looks: worker=http://host:8081,materialiser=http://…"""
    ready_lag_s: int = 60
    """/readyz says no where something waits longer than so many seconds to be taken."""
    semantic: str = ""
    """File of the model that finds what was said in other words, as `hmx semantic` fetches it; none: by words alone."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    log: str = "auto"
    """json: a JSON object a line; text: for people; auto: text on a terminal, else json."""
    otlp_endpoint: str = ""
    """Where spans go by OTLP over HTTP, such as http://collector:4318; without it there are none."""

    def __post_init__(self) -> None:
        if self.ordering not in ("eager", "strict"):
            raise SettingsError(f"HMX_ORDERING={self.ordering!r}: eager or strict")
        if self.log not in ("auto", "json", "text"):
            raise SettingsError(f"HMX_LOG={self.log!r}: auto, json or text")

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Raises SettingsError for a value of the wrong form."""
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
                raise SettingsError(f"{name}={text!r} is no number") from None
        return cls(**values)

    def require_kafka(self) -> str:
        if not self.kafka_bootstrap:
            raise SettingsError("no Kafka known: run `hmx up` here, or set HMX_KAFKA_BOOTSTRAP=host:port")
        return self.kafka_bootstrap

    def require_redis(self) -> str:
        if not self.redis_url:
            raise SettingsError("no Redis known: run `hmx up` here, or set HMX_REDIS_URL=redis://host:port")
        return self.redis_url

    def addresses(self) -> dict[str, str]:
        """Of `processes`, by name. Raises SettingsError."""
        named = [part.strip().partition("=") for part in self.processes.split(",") if part.strip()]
        if any(not name or not address.startswith("http://") for name, _, address in named):
            raise SettingsError(f"HMX_PROCESSES={self.processes!r}: name=http://host:port, more of them behind commas")
        return {name: address.rstrip("/") for name, _, address in named}

    def require_control_key(self) -> str:
        if not self.control_key:
            raise SettingsError(
                "no control key: run `hmx up` here, or set HMX_CONTROL_KEY to one secret for all processes"
            )
        return self.control_key


def _running_stack(state: Path) -> dict[str, Any]:
    """What `hmx up` wrote about the stack it runs; nothing where none runs."""
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
