"""`hmx doctor`: finds wrong settings before a process starts; the checks are those that the processes make at start."""

import difflib
import os
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar
from urllib.parse import urlsplit

import typer
from rich.table import Table

from hmx_pipeline.cli.console import OUT, AsJson, as_typed, plain, print_json
from hmx_pipeline.kafka_profile import ENVIRONMENT, FAMILIES
from hmx_pipeline.local import state as local
from hmx_pipeline.local.ports import is_free
from hmx_pipeline.observe.process_reader import NO_ANSWER, readiness
from hmx_pipeline.settings import PORTS, SECRET, Settings, SettingsError, without_password

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from hmx_pipeline.store.atomic_blocks import Client

T = TypeVar("T")
_OTHERS: Final = {"HMX_TENANT", "HMX_SUBJECT", "HMX_SPOOL", "HMX_KAFKA_PORT", "HMX_REDIS_PORT"}
"""Variables of the clients under integrations/ and of docker-compose.yml."""
_PROCESSES: Final = ("worker", "materialiser", "service")
_OURS: Final = "HMX_"
_NEAR: Final = 0.75
"""How alike two names are, of which one may be the other misspelt: less, and the hint misleads."""
SOON_DAYS: Final = 14
"""A certificate that expires sooner is named."""
_PARTITIONS_READ, _OFFSETS_READ = 16, 100
"""Of the events topic, for a control record."""
_APART_S: Final = 5.0
"""Clocks that differ by more are named."""
_NO_KEYS: Final = "HMX_API_KEYS is not set: whoever reaches the service reads and writes as any tenant"


@dataclass(frozen=True)
class SettingCheck:
    check: str
    ok: bool | None
    """None: it was not checked."""
    said: str
    mend: str = ""
    """The command that mends it."""


def doctor(
    process: Annotated[
        str | None, typer.Option(help="worker, materialiser or service: check only the rights that this one needs.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Checks the settings, files, certificates, Kafka, its topics and rights, Redis, clocks and ports.

    It changes nothing. Each line says what is right (✓) or wrong (✗), and the command that mends it. Set the
    variables of the process that is to start.

    Exit code: 0 nothing is wrong, 1 something is. Example: hmx doctor --process worker
    """
    if process not in (None, *_PROCESSES):
        raise typer.BadParameter(f"one of {', '.join(_PROCESSES)}", param_hint="--process")
    found = list(examined([process] if process else _PROCESSES))
    if as_json:
        print_json({"ok": all(each.ok is not False for each in found), "checks": list(map(asdict, found))})
    else:
        OUT.print(_table(found))
    if any(each.ok is False for each in found):
        raise typer.Exit(1)


def _table(found: Sequence[SettingCheck]) -> Table:
    """Folds to the terminal's width, the command that mends on a line of its own."""
    made = Table.grid(padding=(0, 1))
    for each in found:
        mark = {True: "[green]✓[/]", False: "[bold red]✗[/]", None: "[dim]–[/]"}[each.ok]
        mend = f"\n[bold]{plain(as_typed(each.mend))}[/]" if each.mend else ""
        made.add_row(mark, each.check, plain(each.said) + mend)
    return made


def examined(processes: Sequence[str]) -> Iterator[SettingCheck]:
    """Never raises: a check that can't be made is a finding."""
    yield from _unknown()
    settings, wrong = _settings()
    yield from (SettingCheck("settings", False, said) for said in wrong)
    if settings is None or wrong:
        return
    yield SettingCheck("settings", True, "every setting can be read")
    yield from _files(settings)
    yield from _kafka(settings, processes)
    yield from _redis(settings)
    yield from _ports(settings)


def _settings() -> tuple[Settings | None, list[str]]:
    """And all that is wrong with them: who mends one at a time starts as often."""
    try:
        settings = Settings.load()
    except SettingsError as error:
        return None, list(error.args)
    wrong = list[str]()
    for check in (partial(settings.credentials, redis=bool(settings.redis_url)), settings.addresses):
        try:
            check()
        except SettingsError as error:
            wrong.extend(error.args)
    return settings, wrong


def _unknown() -> Iterator[SettingCheck]:
    """Variables that nothing reads: a misspelt one has no effect and no error."""
    known = {f"HMX_{each.name.upper()}{behind}" for each in fields(Settings)
             for behind in ("", *(["_FILE"] if each.metadata == SECRET else []))} | _OTHERS  # fmt: skip
    for name in sorted(name for name in os.environ if name.startswith(_OURS)):
        if name in known or name.removeprefix(ENVIRONMENT).startswith(FAMILIES):
            continue
        ours = [each.removeprefix(_OURS) for each in known]  # their common beginning makes any two look alike
        near = difflib.get_close_matches(name.removeprefix(_OURS), ours, 1, _NEAR)
        said = f"{name} is no setting and has no effect" + (f": did you mean {_OURS}{near[0]}?" if near else "")
        yield SettingCheck("settings", False, said, f"unset {name}")


def _files(settings: Settings) -> Iterator[SettingCheck]:
    """Files that a process reads when it needs them, and certificates before they expire."""
    for name, path in (("HMX_API_KEYS", settings.api_keys), ("HMX_SEMANTIC", settings.semantic)):
        if path and not os.access(path, os.R_OK):
            mend = "hmx keys new TENANT" if name == "HMX_API_KEYS" else "hmx semantic"
            yield SettingCheck("files", False, f"{name}: {path} can't be read", mend)
    if not settings.api_keys and not settings.jwt_issuer and settings.host not in ("127.0.0.1", "::1", "localhost"):
        yield SettingCheck("keys", False, _NO_KEYS, "HMX_API_KEYS=keys.txt hmx keys new TENANT")
    if settings.jwt_issuer:
        yield _issuer(settings)
    profile = dict(settings.require_kafka().properties)
    named = {name: path for name, path in profile.items() if name in ("ssl.ca.location", "ssl.certificate.location")}
    named |= {"HMX_REDIS_CA": settings.redis_ca, "HMX_TLS_CERTIFICATE": settings.tls_certificate}
    named["HMX_SCHEMA_REGISTRY_CA"] = settings.schema_registry_ca
    for name, path in named.items():
        if path:
            yield _certificate(name, path)
    if settings.tls_certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_certificate, settings.tls_key)
        except OSError as error:
            yield SettingCheck("certificate", False, f"HMX_TLS_CERTIFICATE and HMX_TLS_KEY do not fit: {error}")


def _issuer(settings: Settings) -> SettingCheck:
    from hmx_pipeline.service.bearer_tokens import KeysUnavailableError, fetch_keys

    try:
        return SettingCheck("tokens", True, f"HMX_JWT_ISSUER has {len(fetch_keys(settings))} keys for its JWTs")
    except KeysUnavailableError as error:
        return SettingCheck("tokens", False, str(error))


def _certificate(name: str, path: str) -> SettingCheck:
    from datetime import UTC, datetime

    from cryptography.x509 import load_pem_x509_certificates

    try:
        end = min(each.not_valid_after_utc for each in load_pem_x509_certificates(Path(path).read_bytes()))
    except ValueError:
        return SettingCheck("certificate", False, f"{name}: {path} holds no certificate as PEM")
    left, day = end - datetime.now(UTC), f"{end:%Y-%m-%d}"
    if left.days < 0:
        return SettingCheck("certificate", False, f"{name}: a certificate in {path} expired on {day}: replace the file")
    soon = ": replace the file before" if left.days < SOON_DAYS else ""
    return SettingCheck("certificate", not soon, f"{name}: {path} is valid until {day}{soon}")


def _kafka(settings: Settings, processes: Sequence[str]) -> Iterator[SettingCheck]:
    from hmx_pipeline.kafka.acl_rights import check_rights
    from hmx_pipeline.kafka.preflight import reaching
    from hmx_pipeline.kafka.topic_files import connect, load_topics, metadata, read_cluster
    from hmx_pipeline.kafka.topic_plan import PlanVerdict, TopicPlan, plan, sized

    profile = settings.require_kafka()
    admin = connect(profile)

    def brokers_there() -> int:
        with reaching(profile):
            return len(metadata(admin).brokers)

    brokers = _asked(brokers_there)
    yield _control_key(settings, compared=not isinstance(brokers, str))
    if isinstance(brokers, str):
        yield SettingCheck("kafka", False, brokers, _start(settings))
        return
    yield SettingCheck("kafka", True, f"{profile} answers, brokers: {brokers}")
    specs = load_topics(prefix=settings.topic_prefix)

    def compared() -> TopicPlan:
        cluster = read_cluster(admin, [spec.topic for spec in specs])
        return plan(sized(specs, cluster), cluster)

    wanted = _asked(compared)
    if isinstance(wanted, str):
        yield SettingCheck("topics", None, f"their settings can't be compared with this login: {wanted}")
    elif wanted.verdict is PlanVerdict.CLEAN:
        yield SettingCheck("topics", True, f"all {len(specs)} exist, with the settings of topics/*.yaml")
    else:
        lack = [f"{len(wanted.creations)} of {len(specs)} are missing"] if wanted.creations else []
        lack += sorted({f"{each.topic} {each.setting}={each.old}, not {each.new}" for each in wanted.changes})
        lack += [f"{each.change.topic} {each.change.setting}: {each.reason}" for each in wanted.refusals]
        yield SettingCheck(
            "topics", False, "; ".join(lack), "hmx topics plan" if wanted.refusals else "hmx topics apply"
        )
    for process in processes if profile.protocol != "PLAINTEXT" else ():
        lacking = _asked(partial(check_rights, profile, process, settings.topic_prefix))
        mend = f"hmx acls --process {process}" if lacking else ""
        yield SettingCheck("rights", lacking is None, lacking or f"Kafka grants what the {process} needs", mend)
    yield from _newest(admin, settings)


def _start(settings: Settings) -> str:
    """What brings a Kafka that does not answer."""
    if local.status(settings.state) is not None:
        named = os.environ.get("HMX_KAFKA_BOOTSTRAP")
        return "unset HMX_KAFKA_BOOTSTRAP" if named else "hmx status"
    return "hmx up" if settings.require_kafka().protocol == "PLAINTEXT" else ""


def _control_key(settings: Settings, *, compared: bool) -> SettingCheck:
    try:
        settings.require_control_key()
    except SettingsError as error:
        return SettingCheck("control key", False, str(error), "export HMX_CONTROL_KEY=$(openssl rand -hex 32)")
    signed = _asked(lambda: _signed(settings)) if compared else "Kafka does not answer"
    if isinstance(signed, str) or not signed:
        why = signed or "no control record is near the end of the log"
        return SettingCheck("control key", None, f"is set, but not compared: {why}")
    if any(signed.values()):
        return SettingCheck("control key", True, "is the one that signed control records in the log")
    told = f"did not sign the control record at {next(iter(signed))}: set HMX_CONTROL_KEY to the key of the workers"
    return SettingCheck("control key", False, f"{told} that wrote this log")


def _signed(settings: Settings) -> dict[str, bool]:
    """Where the newest control records are, and whether the key signed them, up to the first that it did: anybody can
    append others. Few offsets of few partitions are read."""
    from contextlib import closing

    from hmx_pipeline.contracts.headers import AUTHENTICATION, header
    from hmx_pipeline.intake.control_records import authentic
    from hmx_pipeline.kafka.clients import Cluster, Watermarks, headers_of, read_partition
    from hmx_pipeline.kafka.preflight import existing_topics
    from hmx_pipeline.kafka.range_reader import BOUNDED
    from hmx_pipeline.topology import EVENTS

    found, name = dict[str, bool](), settings.topic_prefix + EVENTS
    with closing(Cluster(settings.require_kafka())) as cluster:
        for partition in range(min(existing_topics(settings, EVENTS)[EVENTS], _PARTITIONS_READ)):
            low, high = cluster.watermarks(name, partition)
            near = Watermarks(max(low, high - _OFFSETS_READ), high)
            for message in read_partition(cluster.kafka, name, partition, near, "read_uncommitted", **BOUNDED):
                headers, value = headers_of(message), message.value() or b""
                if header(headers, AUTHENTICATION) is not None:
                    place = f"{partition}:{message.offset()}"
                    found[place] = authentic(settings.control_key, value, headers)
                    if found[place]:
                        return found
    return found


def _newest(admin: "AdminClient", settings: Settings) -> Iterator[SettingCheck]:
    """The append time of the newest event: brokers stamp records, and one can't be of the future."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    from hmx_pipeline.kafka.preflight import existing_topics
    from hmx_pipeline.kafka.topic_files import ANSWER_S
    from hmx_pipeline.topology import EVENTS

    def newest() -> float:
        name, count = settings.topic_prefix + EVENTS, existing_topics(settings, EVENTS)[EVENTS]
        asked = {TopicPartition(name, n): OffsetSpec.max_timestamp() for n in range(count)}
        found = admin.list_offsets(asked, request_timeout=ANSWER_S).values()
        return max(float(each.result().timestamp) for each in found) / 1000

    at = _asked(newest)
    if not isinstance(at, str) and at > 0:  # there is one
        yield _clock("Kafka's newest event", max(0.0, at - time.time()))


def _clock(whose: str, apart: float) -> SettingCheck:
    if apart > _APART_S:
        said = f"{whose} and this machine's clock are {apart:,.0f} s apart: set both by NTP"
        return SettingCheck("clock", False, said, "timedatectl set-ntp true")
    return SettingCheck("clock", True, f"{whose} agrees with this machine's clock")


def _redis(settings: Settings) -> Iterator[SettingCheck]:
    from hmx_pipeline.store.servers import connected

    try:
        clients = connected(settings)
    except SettingsError as error:
        yield SettingCheck("redis", False, str(error), "hmx up" if not settings.redis_url else "")
        return
    for url, client in zip(settings.redis_url.split(), clients, strict=True):
        yield from _redis_server(without_password(url), client)


def _redis_server(where: str, client: "Client") -> Iterator[SettingCheck]:
    from hmx_pipeline.store.atomic_blocks import EvictingError, reachable, refuse_eviction

    def now() -> float:
        with reachable():
            seconds, micros = client.time()
        return float(seconds + micros / 1e6)

    there = _asked(now)
    if isinstance(there, str):
        yield SettingCheck("redis", False, f"{where}: {there}")
        return
    yield SettingCheck("redis", True, f"{where} answers")
    try:
        refuse_eviction(client)
        yield SettingCheck("redis", True, "it evicts nothing")
    except EvictingError as error:
        said, _, mend = str(error).partition(". Run: ")
        yield SettingCheck("redis", False, said, mend.partition(" (")[0])
    yield _clock("Redis", abs(there - time.time()))


def _ports(settings: Settings) -> Iterator[SettingCheck]:
    """Beside a stack only those that the environment names: the stack has others."""
    stack, processes = local.status(settings.state), list(_PROCESSES)
    if stack is not None:
        yield SettingCheck("ports", None, "the stack of this folder runs, on ports of its own")
        processes = [name for name in processes if f"{_OURS}{name.upper()}_PORT" in os.environ]
    taken = {urlsplit(address).port for address in (stack or {}).get("health", {}).values()}
    for process in processes:
        port = getattr(settings, f"{process}_port")
        if is_free(port, settings.host):
            yield SettingCheck("ports", True, f"{port} is free for the {process}")
        elif port not in taken and readiness(f"http://127.0.0.1:{port}")[1] == NO_ANSWER:
            said, other = f"{port}, for the {process}, is in use by another program", port + 1000
            other = other if other in PORTS else port - 1000
            yield SettingCheck("ports", False, said, f"export {_OURS}{process.upper()}_PORT={other}")
        else:
            yield SettingCheck("ports", None, f"{port} is in use: a {process} may run there already")


def _asked(ask: Callable[[], T]) -> T | str:
    """The answer, or why there is none."""
    from hmx_pipeline.queries.pipeline_status import explained

    return explained(ask)
