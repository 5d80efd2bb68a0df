"""`docker-compose.yml` is what `hmx up` runs, in containers: nothing drifts from settings, topics and commands."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.local.jars import LOCK
from hmx_pipeline.local.kafka import _properties
from hmx_pipeline.local.process import Component
from hmx_pipeline.local.redis import redis
from hmx_pipeline.local.stack import pipeline_stages
from hmx_pipeline.settings import Settings

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((Path(__file__).parent / "compose-spec" / "schema.json").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DEFAULTS = {f"HMX_{name.upper()}": getattr(Settings(), name) for name in Settings.__slots__}
PORTS = {f"HMX_{name}_PORT": str(DEFAULTS[f"HMX_{name}_PORT"]) for name in ("SERVICE", "WORKER", "MATERIALISER")}
LOCAL: dict[str, Component] = {part.name: part for stage in pipeline_stages(PORTS) for part in stage}
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "hmx-pipeline")
WAITED_FOR = sorted(name for name in OURS if not LOCAL[name].once)

PUBLISHED = {"HMX_KAFKA_PORT": "9092", "HMX_REDIS_PORT": "6379"}
"""Not of the pipeline's own settings: where on the host the two servers are reached."""
MEANT = {
    "HMX_KAFKA_BOOTSTRAP": "kafka:9092",
    "HMX_REDIS_URL": "redis://redis:6379/0",
    "HMX_HOST": "0.0.0.0",
    "HMX_PROCESSES": "worker=http://worker:8081,materialiser=http://materialiser:8082",
}
"""Otherwise than the defaults: containers reach each other by name."""
OF_ONE_MACHINE = {"controller.quorum.voters", "listeners", "log.dirs"}
"""Kafka's addresses and folders are the container's own."""
NEEDED = {
    "auto.create.topics.enable", "message.max.bytes", "replica.fetch.max.bytes", "group.initial.rebalance.delay.ms",
    "group.min.session.timeout.ms", "offsets.topic.replication.factor", "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr", "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
}  # fmt: skip


def environment(name: str) -> dict[str, str]:
    """As Compose passes it on: text."""
    return {key: str(value) for key, value in SERVICES[name].get("environment", {}).items()}


def kafka_properties() -> dict[str, str]:
    prefix = "KAFKA_"
    found = environment("kafka").items()
    return {name.removeprefix(prefix).replace("_", ".").lower(): value for name, value in found if prefix in name}


def local_properties() -> dict[str, str]:
    lines = _properties(1, [9092], [9094], Path("data"), small=False).splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_it_keeps_the_schema_of_compose_files() -> None:
    jsonschema.validate(COMPOSE, SCHEMA)


def test_the_schema_refuses_what_compose_does_not_know() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**COMPOSE, "services": {"kafka": {"imge": "apache/kafka"}}}, SCHEMA)


def test_its_processes_are_those_of_the_local_stack_with_the_same_commands() -> None:
    assert sorted(LOCAL) == OURS
    for name, component in LOCAL.items():
        assert tuple(SERVICES[name]["command"]) == component.argv[3:]
        assert (SERVICES[name]["restart"] == "no") == component.once


@pytest.mark.parametrize("name", OURS)
def test_every_setting_exists_and_has_its_default_or_a_meant_value(name: str) -> None:
    for variable, value in environment(name).items():
        assert variable in DEFAULTS
        if variable in ("HMX_CONTROL_KEY", "HMX_WORKER_ID"):  # neither has a default
            continue
        default = re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", value)
        assert default == MEANT.get(variable, str(DEFAULTS[variable])), variable


def test_every_variable_for_the_operator_is_a_setting_or_a_published_port() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    told = (ROOT / "deploy" / "README.md").read_text()
    for variable, default in re.findall(r"\$\{(\w+):-([^}]*)\}", text):
        known = PUBLISHED | {name: str(value) for name, value in DEFAULTS.items()}
        assert default == known[variable], variable
        assert variable in told or variable == "HMX_LOG_LEVEL"
    assert set(re.findall(r"\$\{(\w+):\?", text)) == {"HMX_CONTROL_KEY"}


@pytest.mark.parametrize("name", WAITED_FOR)
def test_it_is_healthy_once_it_is_ready_on_its_own_port(name: str) -> None:
    *_, script = SERVICES[name]["healthcheck"]["test"]
    (port,) = (value for variable, value in environment(name).items() if variable.endswith("_PORT"))
    assert f"://127.0.0.1:{port}/startupz" in script
    compile(script, name, "exec")


@pytest.mark.parametrize("tls", ["", "/run/secrets/hmx/tls.key"])
def test_the_service_is_asked_by_the_scheme_that_it_speaks(tls: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setenv("HMX_TLS_KEY", tls)
    monkeypatch.setattr("urllib.request.urlopen", lambda address, **_: asked.append(address))
    exec(SERVICES["service"]["healthcheck"]["test"][-1], {})
    assert asked == [f"http{'s' if tls else ''}://127.0.0.1:8080/startupz"]


def test_the_service_may_be_given_keys_tokens_and_a_certificate_and_has_none_by_itself() -> None:
    given = environment("service")
    for name in ("HMX_API_KEYS", "HMX_JWT_ISSUER", "HMX_JWT_AUDIENCE", "HMX_TLS_CERTIFICATE", "HMX_TLS_KEY"):
        assert given[name] == f"${{{name}:-}}"
    (folder,) = SERVICES["service"]["volumes"]
    source, target, mode = folder.split(":")
    assert (ROOT / source / ".gitignore").read_text().splitlines()[0] == "*", "a secret is never committed"
    assert mode == "ro"
    assert f"HMX_API_KEYS={target}/" in (ROOT / "deploy" / "README.md").read_text()


def test_who_needs_another_waits_until_it_is_healthy_or_done() -> None:
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            if "healthcheck" in SERVICES[name]:
                assert how == {"condition": "service_healthy"}
            else:
                assert how == {"condition": "service_completed_successfully"}
                assert SERVICES[name]["restart"] == "no"


def test_kafka_has_the_settings_of_the_local_one() -> None:
    here, there = kafka_properties(), local_properties()
    assert here.keys() >= NEEDED
    shared = (here.keys() & there.keys()) - OF_ONE_MACHINE
    assert {name: here[name] for name in shared} == {name: there[name] for name in shared}


def test_kafka_takes_the_largest_record_of_every_topic() -> None:
    largest = max(spec.config.max_message_bytes for spec in load_topics())
    assert int(kafka_properties()["message.max.bytes"]) >= largest
    assert int(kafka_properties()["replica.fetch.max.bytes"]) >= largest


def test_kafka_is_of_the_same_version_as_the_local_one() -> None:
    locked = re.search(r"^org\.apache\.kafka:kafka_[\d.]+:(\S+) ", LOCK.read_text(), re.MULTILINE)
    assert locked is not None
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{locked[1]}"


def test_redis_keeps_what_it_holds_and_evicts_nothing(tmp_path: Path) -> None:
    words = SERVICES["redis"]["command"]
    settings = dict(zip(words[1::2], words[2::2], strict=True))
    local = redis(tmp_path).component.argv
    rewrite = "--auto-aof-rewrite-min-size"
    assert settings.pop(rewrite) == local[local.index(rewrite) + 1]
    assert settings == {"--save": "", "--appendonly": "yes", "--maxmemory-policy": "noeviction"}


def test_nothing_listens_beyond_this_machine_and_data_has_volumes() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    mounted = [volume.split(":") for service in SERVICES.values() for volume in service.get("volumes", ())]
    assert {name for name, *_ in mounted if not name.startswith("./")} == set(COMPOSE["volumes"])
    assert ["kafka", kafka_properties()["log.dirs"]] in mounted
