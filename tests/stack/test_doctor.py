"""`hmx doctor` names each wrong setting before a process starts, with the command that mends it."""

import json
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from typer.testing import CliRunner

from hmx_pipeline.audit.backup import Manifest
from hmx_pipeline.cli.app import application
from hmx_pipeline.contracts.evidence import TenantSettings
from hmx_pipeline.kafka.control_producer import append_settings
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError, connect
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import connect as connect_redis
from hmx_pipeline.topology import EVENTS, SESSION_STATE
from tests.support.issuer import AUDIENCE, certificate, serving_keys
from tests.support.pipeline import create_topics, environment, new_settings

Doctor = Callable[..., dict[str, Any]]


@pytest.fixture
def settings(kafka: str, redis_url: str, tmp_path: Path) -> Settings:
    return new_settings(kafka, redis_url, state=tmp_path / "state")


@pytest.fixture
def doctor(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """What it says under some more variables."""

    def run(**variables: str) -> dict[str, Any]:
        for name, value in {**environment(settings), **variables}.items():
            if name.startswith("HMX_"):
                monkeypatch.setenv(name, value)
        done = CliRunner().invoke(application(), ["doctor", "--json"])
        said = json.loads(done.stdout)
        assert said["ok"] == (done.exit_code == 0), done.stderr
        return dict(said)

    return run


def wrong(said: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["check"], each["said"], each["mend"]) for each in said["checks"] if each["ok"] is False]


def test_where_all_is_well_it_says_so_and_where_topics_lack_how_to_make_them(
    doctor: Doctor, settings: Settings
) -> None:
    ((check, told, mend),) = wrong(doctor())
    assert (check, told, mend) == ("topics", "10 of 10 are missing", "hmx topics apply")
    create_topics(settings)
    assert wrong(doctor()) == []


def test_a_topic_with_another_setting_is_named(doctor: Doctor, settings: Settings) -> None:
    create_topics(settings)
    name = settings.topic_prefix + EVENTS
    entry = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=AlterConfigOpType.SET)
    admin = connect(settings.require_kafka())
    for each in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])]
    ).values():
        each.result()
    said = wrong(doctor())
    assert any(f"{name} message.timestamp.type=CreateTime, not LogAppendTime" in told for _, told, _ in said)


def test_a_state_topic_of_an_earlier_release_is_named_and_mended_by_the_command_that_is_named(
    doctor: Doctor, settings: Settings
) -> None:
    """It had no bound, so receipts of erasures knew no day on which the last copy goes."""
    create_topics(settings)
    name = settings.topic_prefix + SESSION_STATE
    entry = ConfigEntry("max.compaction.lag.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    topic = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin = connect(settings.require_kafka())
    for each in admin.incremental_alter_configs([topic]).values():
        each.result()
    ((check, told, mend),) = wrong(doctor())
    assert (check, mend) == ("topics", "hmx topics apply")
    assert told == f"{name} max.compaction.lag.ms={2**63 - 1}, not 86400000"
    assert CliRunner().invoke(application(), ["topics", "apply", "--yes"]).exit_code == 0
    assert wrong(doctor()) == []


def test_a_redis_that_evicts_is_named(doctor: Doctor, settings: Settings) -> None:
    create_topics(settings)
    client = connect_redis(settings.redis_url)
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        ((check, _, mend),) = wrong(doctor())
    finally:
        client.config_set("maxmemory-policy", "noeviction")
    assert check == "redis"
    assert mend == "redis-cli CONFIG SET maxmemory-policy noeviction"


def test_servers_that_do_not_answer_are_named_with_their_addresses(doctor: Doctor) -> None:
    said = wrong(doctor(HMX_KAFKA_BOOTSTRAP="localhost:1", HMX_REDIS_URL="redis://:secret@localhost:2"))
    assert [check for check, _, _ in said] == ["kafka", "redis"]
    assert "localhost:1" in said[0][1]
    assert "localhost:2" in said[1][1]
    assert "secret" not in str(said)


def test_a_kafka_that_does_not_answer_is_told_alike_by_all(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.audit.restore.manifest_of", lambda *_: Manifest(1, "", "", {}))
    silent = {"HMX_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    ((_, said, mend),) = wrong(doctor(**silent))
    assert said.startswith(
        "Kafka does not answer at 127.0.0.1:1: start one with `hmx up`, or check HMX_KAFKA_BOOTSTRAP"
    )
    assert mend == "hmx up"
    for words in (["verify"], ["topics", "plan"], ["restore", "folder"]):
        failed = CliRunner().invoke(application(words[0]), words, env=silent)
        assert isinstance(failed.exception, KafkaUnreachableError)
        assert str(failed.exception).partition(" (")[0] == said.partition(" (")[0]


def test_beside_the_stack_of_the_folder_another_address_of_kafka_is_the_mistake(
    doctor: Doctor, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = {"worker": f"http://127.0.0.1:{settings.worker_port}"}
    monkeypatch.setattr("hmx_pipeline.cli.doctor.local.status", lambda _: {"health": health})
    ((_, _, mend),) = wrong(doctor(HMX_KAFKA_BOOTSTRAP="127.0.0.1:1"))
    assert mend == "unset HMX_KAFKA_BOOTSTRAP"


def test_beside_the_stack_of_the_folder_a_port_that_is_given_is_looked_at(
    doctor: Doctor, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(settings)
    health = {"worker": f"http://127.0.0.1:{settings.worker_port}"}
    monkeypatch.setattr("hmx_pipeline.cli.doctor.local.status", lambda _: {"health": health})
    ports = settings.worker_port, settings.service_port
    with closing(socket.create_server(("", ports[0]))), closing(socket.create_server(("", ports[1]))):
        ((check, said, _),) = wrong(doctor())
    assert (check, said) == ("ports", f"{ports[1]}, for the service, is in use by another program")


def test_the_control_key_is_tried_on_what_the_log_holds(doctor: Doctor, settings: Settings) -> None:
    def told(**variables: str) -> tuple[bool | None, str]:
        (key,) = (each for each in doctor(**variables)["checks"] if each["check"] == "control key")
        return key["ok"], key["said"]

    assert told()[0] is None
    create_topics(settings, partitions=1)
    assert told()[0] is None
    append_settings(settings, TenantSettings(tenant_id="acme", sharing="team"))
    assert told() == (True, "is the one that signed control records in the log")
    right, said = told(HMX_CONTROL_KEY="another")
    assert right is False
    assert "did not sign the control record at 0:0" in said
    append_settings(replace(settings, control_key="forger's"), TenantSettings(tenant_id="acme", sharing="team"))
    assert told(HMX_CONTROL_KEY=settings.control_key)[0]


def test_all_wrong_settings_are_named_at_once(doctor: Doctor, tmp_path: Path) -> None:
    properties = tmp_path / "kafka.properties"
    properties.write_text("sasl.usrname=bob\n")
    given = {"HMX_SERVICE_PORT": "80800", "HMX_WINDOW_MS": "soon", "HMX_KAFKA_CONFIG": str(properties)}
    said = [told for _, told, _ in wrong(doctor(**given, HMX_MODEL="gpt"))]
    assert said == [
        "HMX_MODEL is no setting and has no effect",
        "HMX_WINDOW_MS='soon' is not a whole number",
        f"{properties}: sasl.usrname: no property that is supported here: did you mean sasl.username?",
        "HMX_SERVICE_PORT=80800 is no port: set it to a number from 1 to 65535",
    ]
    found = wrong(doctor(HMX_SERVICE_PORT="8080", HMX_WINDOW_MS="1", HMX_KAFKA_CONFIG="", HMX_REDIS_CA="/no/ca",
                         HMX_TLS_CERTIFICATE="/no/pem", HMX_TLS_KEY="/no/key", HMX_PROCESSES="x"))  # fmt: skip
    assert [told.partition(":")[0].partition("=")[0] for _, told, _ in found[1:]] == [
        "HMX_REDIS_CA", "HMX_TLS_CERTIFICATE", "HMX_TLS_KEY", "HMX_PROCESSES",
    ]  # fmt: skip


def test_a_misspelt_variable_and_a_port_in_use_are_named(doctor: Doctor, settings: Settings) -> None:
    create_topics(settings)
    with closing(socket.create_server((settings.host, settings.worker_port))):
        said = wrong(doctor(HMX_REDSI_URL="redis://localhost", HMX_KAFKA_BOOSTRAP="localhost"))
    assert [mend for _, _, mend in said] == [
        "unset HMX_KAFKA_BOOSTRAP",
        "unset HMX_REDSI_URL",
        f"export HMX_WORKER_PORT={settings.worker_port + 1000}",
    ]
    assert "did you mean HMX_KAFKA_BOOTSTRAP?" in said[0][1]


def test_an_issuer_whose_keys_cannot_be_had_is_named(doctor: Doctor, settings: Settings) -> None:
    create_topics(settings)
    with serving_keys() as issuer:
        given = {"HMX_JWT_ISSUER": issuer.issuer, "HMX_JWT_AUDIENCE": AUDIENCE}
        assert wrong(doctor(**given)) == []
        issuer.pages["/jwks"] = 503
        ((check, said, _),) = wrong(doctor(**given))
    assert check == "tokens"
    assert said.startswith("HMX_JWT_ISSUER: http://127.0.0.1")
    ((check, said, _),) = wrong(doctor(HMX_JWT_AUDIENCE=""))
    assert (check, said.partition(" ")[0]) == ("settings", "HMX_JWT_AUDIENCE")


@pytest.mark.parametrize(("days", "says"), [(-1, "expired on"), (3, "replace the file before"), (90, "")])
def test_a_certificate_is_named_before_it_expires(
    doctor: Doctor, settings: Settings, tmp_path: Path, days: float, says: str
) -> None:
    create_topics(settings)
    file, key = certificate(tmp_path, days)
    said = wrong(doctor(HMX_TLS_CERTIFICATE=file, HMX_TLS_KEY=key))
    assert [says in told for _, told, _ in said] == ([True] if says else [])


@pytest.mark.parametrize("variable", ["HMX_TLS_CERTIFICATE", "HMX_REDIS_URL_FILE", "HMX_KAFKA_CONFIG"])
def test_a_file_that_cannot_be_read_is_named_with_its_variable(doctor: Doctor, variable: str) -> None:
    said = wrong(
        doctor(
            **{variable: "/nowhere"}, HMX_TLS_KEY="/nowhere", **({"HMX_REDIS_URL": ""} if "REDIS" in variable else {})
        )
    )
    assert said[0][0] == "settings"
    assert variable in said[0][1]
