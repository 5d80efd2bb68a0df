"""`hmx tenant set` refuses what is no setting before it looks for Kafka, and appends what is one to the log."""

import socket
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from hmx_pipeline.cli.app import application
from hmx_pipeline.kafka import control_producer

APP = application("tenant")


@pytest.mark.parametrize(
    "asked",
    [("acme", "sharing=all"), ("acme", "sharing"), ("acme", "team"), ("acme", "tenant_id=x"), ("", "sharing=team"),
     ("acme", "retention"), ("acme", "retention=all"), ("acme", "retention=all:0d"),
     ("acme", "retention=nothing_like_it:3d"),
     ("acme", "trusted_agents"), ("acme", f"trusted_agents={'x' * 513}"),
     ("_hmx", "sharing=team"), ("x" * 513, "sharing=team")],
)  # fmt: skip
def test_what_is_no_setting_is_refused(asked: tuple[str, str]) -> None:
    assert CliRunner().invoke(APP, ["tenant", "set", *asked]).exit_code == 2


@pytest.mark.parametrize(
    ("asked", "content"),
    [
        ("sharing=team", {"sharing": "team"}),
        ("trusted_agents=deployer,ci", {"trusted_agents": ["deployer", "ci"]}),
        ("trusted_agents=", {"trusted_agents": []}),
    ],
)
def test_a_setting_is_appended_to_the_tenants_partition(
    monkeypatch: pytest.MonkeyPatch, asked: str, content: dict[str, Any]
) -> None:
    appended: list[tuple[str, list[tuple[int, bytes]]]] = []

    monkeypatch.setattr(control_producer, "existing_topics", lambda _, topic: {topic: 6})
    monkeypatch.setattr(control_producer, "append_control", lambda _, kind, values: appended.append((kind, values)))
    monkeypatch.setenv("LOGNAME", "ann")
    assert CliRunner().invoke(APP, ["tenant", "set", "acme", asked]).exit_code == 0
    ((kind, ((partition, value),)),) = appended
    assert kind == "tenant"
    assert partition in range(6)
    event = orjson.loads(value)
    assert event["content"] == {"tenant_id": "acme", **content}
    assert event["metadata"] == {"by": f"ann@{socket.gethostname()}"}


def test_a_retention_is_appended_to_every_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    appended: list[tuple[int, bytes]] = []
    monkeypatch.setattr(control_producer, "existing_topics", lambda _, topic: {topic: 3})
    monkeypatch.setattr(control_producer, "append_control", lambda _, __, values: appended.extend(values))
    asked = "retention=all:365d,goal.created:7d,x-acme-note:2d,sessions:9"
    assert CliRunner().invoke(APP, ["tenant", "set", "acme", asked]).exit_code == 0
    assert [partition for partition, _ in appended] == [0, 1, 2]
    days = {"all": 365, "goal.created": 7, "x-acme-note": 2}
    told = {"tenant_id": "acme", "days": days, "sessions": 9, "cuts": {}}
    assert all(orjson.loads(value)["content"] == {"tenant_id": "acme", "retention": told} for _, value in appended)
