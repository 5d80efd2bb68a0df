"""Settings for secured servers do not reach what `hmx up` starts: its Kafka and Redis speak plain text."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hmx_pipeline.cli.demo import demo
from hmx_pipeline.local.process import Component, Process, StackError, State
from hmx_pipeline.local.stack import Stack
from hmx_pipeline.settings import Settings

SECURED = {
    "HMX_KAFKA_CONFIG": "/absent/kafka.properties",
    "HMX_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "HMX_KAFKA_SASL_PASSWORD_FILE": "/absent/password",
    "HMX_KAFKA_SSL_CA_LOCATION": "/absent/ca.pem",
    "HMX_REDIS_CA": "/absent/ca.pem",
    "HMX_REDIS_PASSWORD": "a password",
    "HMX_TLS_CERTIFICATE": "/absent/service.pem",
    "HMX_TLS_KEY": "/absent/service.key",
}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without the settings of who runs the tests."""
    for name in [name for name in os.environ if name.startswith("HMX_")]:
        monkeypatch.delenv(name)
    return tmp_path


def child(stack: Stack, name: str) -> dict[str, str]:
    """The environment that a process of the stack has."""
    (part,) = (part for stage in stack._prepare() for part in stage if part.name == name)
    log = stack.state / f"{name}.log"
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    process = Process(replace(part, argv=(sys.executable, "-c", code), once=True), log)
    while process.state is not State.DONE:
        process.step(time.monotonic())
        assert process.restarts == 0, process.tail()
    found: dict[str, str] = json.loads(log.read_text())
    return found


def test_a_local_stack_is_reached_without_tls_and_passwords(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECURED.items():
        monkeypatch.setenv(name, value)
    servers = SimpleNamespace(bootstrap="127.0.0.1:9092", components=[])
    monkeypatch.setattr("hmx_pipeline.local.stack.kafka", lambda *_, **__: servers)
    memory = SimpleNamespace(url="redis://127.0.0.1:6379/0", component=Component("redis", ("true",)))
    monkeypatch.setattr("hmx_pipeline.local.stack.redis", lambda *_: memory)
    settings = Settings.load(child(Stack(state, pipeline=True), "worker"))
    assert settings.require_kafka().protocol == "PLAINTEXT"
    assert (settings.redis_password, settings.redis_ca, settings.tls_certificate) == ("", "", "")


def test_what_stands_in_files_reaches_the_processes_once(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("REDIS_URL", "redis://elsewhere:6379/0"), ("CONTROL_KEY", "the key")):
        (state / name).write_text(value)
        monkeypatch.setenv(f"HMX_{name}_FILE", str(state / name))
    monkeypatch.setenv("HMX_KAFKA_BOOTSTRAP", "elsewhere:9093")
    monkeypatch.setenv("HMX_KAFKA_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setenv("HMX_REDIS_PASSWORD", "kept")
    settings = Settings.load(child(Stack(state, pipeline=True), "worker"))
    assert (settings.redis_url, settings.redis_password) == ("redis://elsewhere:6379/0", "kept")
    assert settings.control_key == "the key"
    assert str(settings.require_kafka()) == "elsewhere:9093 (SSL)"


def test_the_demo_takes_no_setting_of_another_cluster(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"HMX_{name}_FILE": "/absent" for name in ("REDIS_URL", "REDIS_PASSWORD", "CONTROL_KEY")}
    for name, value in {**SECURED, **files, "HMX_KAFKA_BOOTSTRAP": "elsewhere:9093"}.items():
        monkeypatch.setenv(name, value)
    left: list[str] = []

    @contextmanager
    def stack() -> Iterator[Settings]:
        left.extend(name for name in os.environ if name.startswith("HMX_"))
        raise StackError("seen")
        yield

    monkeypatch.setattr("hmx_pipeline.cli.own_stack._temporary", stack)
    monkeypatch.setattr("hmx_pipeline.cli.own_stack.end_as_by_interrupt", lambda: None)
    with pytest.raises(SystemExit):
        demo()
    assert left == []
