"""`hmx up`, `status`, `down` with the pipeline's real processes on the shared servers."""

import json
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from hmx_pipeline.cli.app import application
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.runtime.stored_positions import stored_positions
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.topology import SESSIONS
from tests.support.events import encoded, event
from tests.support.pipeline import environment, new_settings
from tests.support.waiting import until


@pytest.fixture
def settings(kafka: str, redis_url: str, tmp_path: Path) -> Settings:
    return new_settings(kafka, redis_url, state=tmp_path / "state")


@pytest.fixture
def hmx(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in environment(settings).items():
        if name.startswith("HMX_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("hmx_pipeline.cli.stack.end_as_by_interrupt", lambda: None)  # this process is no command

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(application(), arguments)

    return run


@pytest.mark.parametrize("command", ["status", "down"])
def test_without_a_stack_the_message_says_how_to_start_one(hmx: Any, command: str) -> None:
    failed = hmx(command)
    assert failed.exit_code == 1
    assert "hmx up" in failed.stderr
    assert not failed.stdout


def test_a_number_of_nodes_that_kafka_cannot_have_is_refused(hmx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HMX_KAFKA_BOOTSTRAP")
    failed = hmx("up", "--nodes", "2")
    assert failed.exit_code == 1
    assert "must be 1 or 3" in failed.stderr


@pytest.mark.parametrize("variable", ["HMX_STATE", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("how", ["--json", "--foreground"])
def test_a_folder_that_cannot_be_made_is_named_with_its_setting(
    hmx: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, how: str
) -> None:
    monkeypatch.delenv("HMX_KAFKA_BOOTSTRAP")
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable, str(tmp_path / "file" / "folder"))
    failed = hmx("up", how)
    assert failed.exit_code == 1
    assert f"{tmp_path / 'file' / 'folder'}" in failed.stderr
    assert variable in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("url", ["localhost:6379", "redis://localhost:port"])
def test_a_redis_url_of_the_wrong_form_is_named_with_its_setting(settings: Settings, url: str) -> None:
    with pytest.raises(SettingsError, match="HMX_REDIS_URL"):
        Store.open(replace(settings, redis_url=url))


def test_servers_alone_leave_topics_and_workers_to_whoever_restores(hmx: Any) -> None:
    started = hmx("up", "--servers", "--json")
    try:
        assert started.exit_code == 0, started.stderr
        running = json.loads(started.stdout)
        assert (running["ready"], running["service_url"], running["components"]) == (True, None, {})
    finally:
        hmx("down")


def stored_counts(settings: Settings) -> Counter[str]:
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        positions = stored_positions(cluster, SESSIONS, settings.topic_prefix)
    return sum((Counter(at.counts) for at in positions if at is not None), Counter())


def test_status_shows_what_runs_what_was_counted_and_how_far_redis_is(hmx: Any, settings: Settings) -> None:
    started = hmx("up", "--json")
    try:
        assert started.exit_code == 0, started.stderr
        assert json.loads(started.stdout)["ready"] is True
        assert "already runs" in (again := hmx("up").stderr)
        assert "hmx status" in again
        service = json.loads(started.stdout)["service_url"]
        assert hmx("env").stdout == f"export KAFKA={settings.kafka_bootstrap}\nexport SERVICE={service}\n"
        publish([encoded(event(sequence=n, event_id=f"e-{n}")) for n in range(3)] + [b"no JSON"], settings)
        wait_for_all(settings, 60)
        found: dict[str, Any] = {}

        def shows_what_is_stored() -> bool:
            """A tick may come between what is stored and what is shown."""
            stored = stored_counts(settings)
            found.update(json.loads(hmx("status", "--json").stdout))
            return bool(found["stages"]["sessions"]["counts"] == stored)

        until(shows_what_is_stored, "the counts shown are those that are stored")
        shown = hmx("status")
    finally:
        stopped = hmx("down")
    assert (shown.exit_code, stopped.exit_code) == (0, 0)
    counts = found["stages"]["sessions"]["counts"]
    assert (counts[Outcome.RELEASED], counts[Outcome.REJECTED]) == (3, 1)
    assert {found["components"][name]["state"] for name in ("worker", "materialiser", "service")} == {"ready"}
    assert set(found["redis_lag"].values()) == {0}
    assert {name: said["ready"] for name, said in found["health"].items()} == dict.fromkeys(found["health"], True)
    partitions = found["stages"]["sessions"]["partitions"]
    assert sum(row["position"] for row in partitions) >= 4
    assert {row["waiting"] for row in partitions} == {0}
    assert sum(row["state"] for row in partitions) > 0
    assert len({row["owner"] for row in partitions}) == 1
    assert max(map(len, shown.stdout.splitlines())) <= 80
    for word in ("worker", "materialiser", settings.service_url, "released", "Redis", partitions[0]["owner"][-18:]):
        assert word in shown.stdout
    assert "no stack runs in " in hmx("status").stderr
