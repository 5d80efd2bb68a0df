"""`hmx tenant set` refuses what is no setting before it looks for Kafka, and appends what is one to the log."""

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
    assert CliRunner().invoke(APP, ["tenant", "set", "acme", asked]).exit_code == 0
    ((kind, ((partition, value),)),) = appended
    assert kind == "tenant"
    assert partition in range(6)
    assert orjson.loads(value)["content"] == {"tenant_id": "acme", **content}
