"""Every setting, read once from the environment (`HMX_…`), else from the local stack that runs here, else a default.

Enters: environment variables, the files that they name, and the `stack.json` of a running local stack. Leaves: an
immutable `Settings`. Raises SettingsError, which names every wrong value. A secret may stand in a file: `HMX_…_FILE`
names it. No secret is part of a setting's repr.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

from hmx_pipeline.contracts import limits
from hmx_pipeline.kafka_profile import KafkaProfile, ProfileError, load_properties, read, read_secret
from hmx_pipeline.topology import GROUP

SECRET: Final[Any] = {"secret": True}
"""Never shown, and `_FILE` may be put behind the variable's name."""

REDIS_FILES: Final = ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs")

PORTS: Final = range(1, 65_536)


class SettingsError(Exception):
    """Settings are missing or invalid; each argument says of one what to set."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; the environment variable of a field is `HMX_` and its name in capitals."""

    state: Path = Path(".hmx")
    """Folder of the local stack."""
    kafka_bootstrap: str = ""
    """host:port[,host:port…]"""
    kafka_config: str = ""
    """File of the properties that Kafka clients need on a secured cluster, in Java's form: docs/how-to/secure.md"""
    kafka_properties: tuple[tuple[str, str], ...] = field(default=(), repr=False, metadata={"variable": "HMX_KAFKA_…"})
    """A single one of these properties, on top of the file: HMX_KAFKA_SASL_PASSWORD is sasl.password."""
    redis_url: str = field(default="", repr=False, metadata=SECRET)
    """redis://host:port/database; rediss:// with TLS; redis+sentinel://host:port,host:port/name/database. Several of
    them, with spaces between, share the tenants."""
    redis_server: int = -1
    """Of several servers in HMX_REDIS_URL the one that this materialiser fills: 0 is the first, and beyond the last one
    it begins again."""
    redis_password: str = field(default="", repr=False, metadata=SECRET)
    """Redis' password, where the URL has none."""
    redis_ca: str = ""
    """File of the certificates, as PEM, that sign the one of a Redis with TLS; else those that the system trusts."""
    source_url: str = field(default="", repr=False, metadata=SECRET)
    """The queue that `hmx source` reads; default: memory's Redis, or nats://127.0.0.1:4222."""
    source_key: str = field(default="", repr=False, metadata=SECRET)
    """The key of the service with which `hmx source otel` sends."""
    schema_registry_url: str = ""
    """Schema registry with Confluent's API, for `hmx schemas`, such as https://registry:8081."""
    schema_registry_login: str = field(default="", repr=False, metadata=SECRET)
    """The registry's user:password, if it asks for one; with a login the URL must be https."""
    schema_registry_ca: str = ""
    """File of the certificates, as PEM, that sign the registry's; else those that the system trusts."""
    service_url: str = ""
    """Address of the service, as clients reach it. Commands ask it; unset: they read Redis themselves."""
    api_key: str = field(default="", repr=False, metadata=SECRET)
    """The key with which commands ask a service that wants one."""
    topic_prefix: str = ""
    """Prefix of every topic, group and transactional id, to run several pipelines on one cluster."""
    control_key: str = field(default="", repr=False, metadata=SECRET)
    """Secret that authenticates ticks, barriers and operators' decisions; the same for all processes. It can't be
    replaced while the log holds such records: with another key they are rejected."""
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
    tls_certificate: str = ""
    """File of the service's certificate and its chain, as PEM: with one the service speaks HTTPS."""
    tls_key: str = ""
    """File of the certificate's key, as PEM without a passphrase."""
    api_keys: str = ""
    """File of the API keys of `/v1`, written by `hmx keys`; if unset, requests are not authenticated."""
    jwt_issuer: str = ""
    """Issuer of the JWTs that open `/v1` beside API keys, just as their claim `iss` says it; unset: none do."""
    jwt_audience: str = ""
    """The service's name in the claim `aud` of its JWTs."""
    jwt_jwks: str = ""
    """https URL or file of the issuer's public keys (JWKS); unset: the issuer's OpenID configuration says the URL."""
    jwt_tenant_claim: str = "tenant"
    """Claim that names a JWT's tenant."""
    jwt_subject_claim: str = "sub"
    """Claim that names the subject that a JWT is bound to; empty: JWTs are the tenant's, bound to no subject."""
    jwt_scope_claim: str = "scope"
    """Claim that lists a JWT's scopes: read, write, admin, `hmx:` may stand before; empty: JWTs read and write."""
    mem0: int = 0
    """1: the service has mem0's routes, /v1/memories/ and /v3/memories/."""
    openai_upstream: str = ""
    """Address of a server with OpenAI's API, such as https://api.openai.com/v1, to which the service's
    /v1/chat/completions passes requests on with memory in them; unset: the service has no such route."""
    openai_key: str = field(default="", repr=False, metadata=SECRET)
    """The service's key at this server."""
    rate_limit: int = 60_000
    """Requests per minute and tenant under `/v1`, per process; 0: unlimited."""
    worker_port: int = 8081
    """Port of the worker's health checks and metrics."""
    materialiser_port: int = 8082
    """Port of the materialiser's health checks and metrics."""
    source_port: int = 0
    """Port of the health checks and metrics of `hmx source`; 0: none."""
    processes: str = ""
    """Addresses of workers and materialisers for status views: worker=http://host:8081,materialiser=http://…"""
    ready_lag_s: int = 60
    """/readyz fails if the oldest unread record is older than this, in seconds."""
    semantic: str = ""
    """File of the embedding model for semantic search, from `hmx semantic`; unset: search by words only."""
    archive: str = ""
    """Folder or s3://bucket/path where the materialiser keeps what Kafka will delete, so that a refill brings it back;
    unset: a refill brings back what Kafka still has."""
    archive_s: int = 21_600
    """How often it is archived, and erasures are taken out of it, in seconds."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    log: str = "auto"
    """json: one JSON object per line; text: for people; auto: text on a terminal, otherwise json."""
    otlp_endpoint: str = ""
    """OTLP over HTTP endpoint for trace spans, such as http://collector:4318; unset: no spans."""

    def __post_init__(self) -> None:
        if wrong := [*self._wrong(), *self._wrong_tokens()]:
            raise SettingsError(*wrong)

    def _wrong(self) -> Iterator[str]:
        if self.ordering not in ("eager", "strict"):
            yield f"HMX_ORDERING={self.ordering!r} is invalid: set it to eager or strict"
        if self.log not in ("auto", "json", "text"):
            yield f"HMX_LOG={self.log!r} is invalid: set it to auto, json or text"
        for name in ("service_port", "worker_port", "materialiser_port", "source_port"):
            port = getattr(self, name)
            if port not in PORTS and (port or name != "source_port"):
                yield f"HMX_{name.upper()}={port} is no port: set it to a number from {PORTS[0]} to {PORTS[-1]}"
        if bool(self.tls_certificate) != bool(self.tls_key):
            lacking = "HMX_TLS_KEY" if self.tls_certificate else "HMX_TLS_CERTIFICATE"
            yield f"{lacking} is not set: HTTPS needs both, the certificate and its key"
        url = self.openai_upstream
        secured = url if self.openai_key else url.replace("http:", "https:", 1)
        if "@" in url:
            yield "HMX_OPENAI_UPSTREAM has a login: put the key into HMX_OPENAI_KEY"
        elif (url or self.openai_key) and not is_trusted_url(secured):
            yield f"HMX_OPENAI_UPSTREAM={url!r} is no https URL: set it to one, such as https://HOST/v1"

    def _wrong_tokens(self) -> Iterator[str]:
        needed = {name: getattr(self, name) for name in ("jwt_issuer", "jwt_audience", "jwt_tenant_claim")}
        lacking = [f"HMX_{name.upper()}" for name, value in needed.items() if not value]
        if lacking and (self.jwt_issuer or self.jwt_audience or self.jwt_jwks):
            yield f"{lacking[0]} is not set: JWTs need an issuer, an audience and a tenant's claim"
        name, where = ("HMX_JWT_JWKS", self.jwt_jwks) if self.jwt_jwks else ("HMX_JWT_ISSUER", self.jwt_issuer)
        if where and (not self.jwt_jwks or "://" in where) and not is_trusted_url(where):
            other = "name the file of its keys in HMX_JWT_JWKS" if name == "HMX_JWT_ISSUER" else "name a file"
            yield f"{name}={where!r} is no https URL: set it to one, or {other}"

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, *, running: bool = True) -> Self:
        """Reads the environment, and what runs here unless told not to. Raises SettingsError, which tells all malformed
        values."""
        environ = os.environ if environ is None else environ
        state = Path(environ.get("HMX_STATE", ".hmx"))
        running_stack = _running_stack(state) if running else {}
        values: dict[str, Any] = {**running_stack, "state": state}
        wrong: list[str] = []
        for each in fields(cls):
            try:
                text = _text_of(f"HMX_{each.name.upper()}", environ, secret=each.metadata == SECRET)
                if text is not None and each.name not in ("state", "kafka_properties"):
                    values[each.name] = int(text) if each.type is int else text
            except SettingsError as error:
                wrong.extend(error.args)
            except ValueError:
                wrong.append(f"HMX_{each.name.upper()}={text!r} is not a whole number")
        if values.get("redis_url") != running_stack.get("redis_url") and "HMX_SERVICE_URL" not in environ:
            values.pop("service_url", None)  # it serves another memory
        try:
            properties = load_properties(values.get("kafka_config", ""), environ)
        except ProfileError as error:
            wrong.append(str(error))
            properties = {}
        if "HMX_KAFKA_BOOTSTRAP" not in environ and "bootstrap.servers" in properties:
            values["kafka_bootstrap"] = properties["bootstrap.servers"]
        try:
            found = cls(**values, kafka_properties=tuple(properties.items()))
        except SettingsError as error:
            wrong.extend(error.args)
        if wrong:
            raise SettingsError(*wrong)
        return found

    def require_kafka(self, bootstrap: str = "") -> KafkaProfile:
        """At this address, where one is given. Certificates are read anew each time."""
        address = bootstrap or self.kafka_bootstrap
        if not address:
            raise SettingsError("no Kafka address: run `hmx up` here, or set HMX_KAFKA_BOOTSTRAP=host:port")
        try:
            return KafkaProfile.of(address, dict(self.kafka_properties), self.topic_prefix + GROUP)
        except ProfileError as error:
            where = f" (HMX_KAFKA_CONFIG: {self.kafka_config})" if self.kafka_config else ""
            raise SettingsError(f"{error}{where}") from None

    def credentials(self, *, redis: bool = True, https: bool = True) -> str:
        """A digest of whatever logs in to Kafka and Redis: another one when a secret or certificate was replaced.

        Without the control key: what it signed is still in the log, and only that key reads it. Files of what a process
        does not use are not read. Raises SettingsError for a file that can't be read.
        """
        files = [("HMX_REDIS_CA", self.redis_ca), *_files_of(self.redis_url)] if redis else []
        if https:
            files += [("HMX_TLS_CERTIFICATE", self.tls_certificate), ("HMX_TLS_KEY", self.tls_key)]
        held, wrong = list[str](), list[str]()
        for name, path in files:
            try:
                held.append(read(name, path) if path else "")
            except ProfileError as error:
                wrong.append(str(error))
        if wrong:
            raise SettingsError(*wrong)
        said = (self.require_kafka().digest(), (self.redis_url, self.redis_password) if redis else (), held)
        return hashlib.sha256(repr(said).encode()).hexdigest()

    def require_redis(self) -> list[tuple[str, str, str]]:
        """Of each server: URL, password where it has none, file of authorities."""
        if not self.redis_url:
            raise SettingsError("no Redis address: run `hmx up` here, or set HMX_REDIS_URL=redis://host:port")
        return [(url, self.redis_password, self.redis_ca) for url in self.redis_url.split()]

    def require_schema_registry(self) -> tuple[str, str, str]:
        """URL, user:password, file of authorities."""
        url = self.schema_registry_url
        if not url.startswith(("http://", "https://")):
            raise SettingsError("no schema registry: set HMX_SCHEMA_REGISTRY_URL=https://host:port")
        if "@" in url:
            raise SettingsError("HMX_SCHEMA_REGISTRY_URL has a login: put it into HMX_SCHEMA_REGISTRY_LOGIN")
        if self.schema_registry_login and not is_trusted_url(url):
            raise SettingsError(f"HMX_SCHEMA_REGISTRY_URL={url} is no https URL, and HMX_SCHEMA_REGISTRY_LOGIN would be"
                                " read on the way: set it to an https URL")  # fmt: skip
        return url, self.schema_registry_login, self.schema_registry_ca

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


def _files_of(urls: str) -> list[tuple[str, str]]:
    """That redis-py is told by options behind a URL."""
    options = [option for url in urls.split() for option in parse_qsl(url.partition("?")[2])]
    return [(f"HMX_REDIS_URL: {name}", path) for name, path in options if name in REDIS_FILES]


def is_trusted_url(url: str) -> bool:
    """Returns whether nobody between can change what is read from there: https, or http on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    return bool(parts.hostname) and (parts.scheme == "https" or local)


def without_password(url: str) -> str:
    """Fit to be shown."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    login = f"{parts.username or ''}:***@" if parts.password else f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{login}{place}{parts.path}"


def _text_of(name: str, environ: Mapping[str, str], *, secret: bool) -> str | None:
    """Of a setting, or of the file that holds it."""
    text, file = environ.get(name), environ.get(f"{name}_FILE") if secret else None
    if not file:
        return text
    if text:
        raise SettingsError(f"{name} and {name}_FILE are both set: keep one of them")
    try:
        return read_secret(f"{name}_FILE", file)
    except ProfileError as error:
        raise SettingsError(str(error)) from None


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
