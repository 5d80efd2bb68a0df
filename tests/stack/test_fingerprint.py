"""What a tenant has learnt on the whole pipeline, exported over HTTP, by the command and by the client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import msgspec
import orjson
import pytest
from typer.testing import CliRunner

from pipeline.cli.app import app
from pipeline.cli.wait import wait_for_all
from pipeline.client import Hippocortex
from pipeline.contracts.schemas import documents
from pipeline.kafka.publisher import publish
from pipeline.local.samples import SECRETS, TENANT, sample_events
from pipeline.settings import Settings
from tests.support.learnt import history
from tests.support.pipeline import environment, new_settings, running
from tests.support.service import is_problem


@dataclass
class Seen:
    settings: Settings
    client: httpx.Client
    monkeypatch: pytest.MonkeyPatch

    def export(self, tenant: str, **asked: Any) -> bytes:
        answer = self.client.post("/v1/hmx/fingerprints", json=asked, headers={"X-HMX-Tenant": tenant})
        assert answer.status_code == 200, answer.text
        return answer.content

    def hmx(self, *words: str) -> Any:
        for name, value in environment(self.settings).items():
            if name.startswith("HMX_"):
                self.monkeypatch.setenv(name, value)
        return CliRunner().invoke(app, list(words))


@pytest.fixture(scope="module")
def seen(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    settings = new_settings(kafka, redis_url)
    logs = tmp_path_factory.mktemp("logs")
    with (
        pytest.MonkeyPatch.context() as patch,
        running(settings, logs, "worker", "materialiser", "service", partitions=2),
        httpx.Client(base_url=settings.service_url, timeout=60.0) as client,
    ):
        told = [orjson.dumps({**each, "tenant_id": "shop"}) for each in history()]
        assert publish([*told, *(line.replace(b"\n", b" ") for line in sample_events())], settings).complete
        wait_for_all(settings)
        yield Seen(settings, client, patch)


@pytest.mark.requirement("F-01", "F-04", "X22")
def test_a_fingerprint_keeps_its_schema_and_is_the_same_each_time(seen: Seen) -> None:
    sizes = []
    for tier in ("full", "compact", "minimal"):
        made = seen.export(TENANT, tier=tier)
        jsonschema.validate(orjson.loads(made), documents()["fingerprint.json"])
        assert seen.export(TENANT, tier=tier) == made
        sizes.append(len(made))
    assert sizes == sorted(sizes, reverse=True)
    assert seen.export(TENANT) == seen.export(TENANT, tier="compact")


@pytest.mark.requirement("F-02")
def test_what_was_done_is_counted_as_the_log_says_and_tenants_differ(seen: Seen) -> None:
    calls = Counter(one["content"]["tool_name"] for one in history() if one["event_type"] == "tool_call")
    told = orjson.loads(seen.export("shop", tier="full"))
    assert {name: use["calls"] for name, use in told["behavioral_patterns"]["tools"].items()} == calls
    other = orjson.loads(seen.export(TENANT, tier="full"))
    assert other["semantic_summary"]["text"] != told["semantic_summary"]["text"]
    ours, theirs = ({one["pattern"] for one in made["artifact_summaries"]["artifacts"]} for made in (told, other))
    assert ours
    assert ours != theirs


@pytest.mark.requirement("F-05", "R-12")
def test_no_secret_and_no_event_is_in_it(seen: Seen) -> None:
    made = seen.export(TENANT, tier="full").decode()
    assert not [secret for secret in SECRETS if secret in made]
    texts = {str(said) for line in sample_events() for said in _texts(line) if len(str(said)) > 40}
    assert len(texts) > 100
    assert not [text for text in texts if text in made]
    assert len(seen.export(TENANT, tier="compact")) < 100_000


def _texts(line: bytes) -> list[Any]:
    try:
        said = orjson.loads(line)
        content = said["content"]
        return [content.get(name) for name in ("text", "comment", "output", "message")]
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


@pytest.mark.requirement("F-02")
def test_an_agents_fingerprint_holds_what_it_has_taken_part_in(seen: Seen) -> None:
    decider = orjson.loads(seen.export("shop", tier="full", agent_id="agent-0"))
    assert decider["agent_id"] == "agent-0"
    assert decider["behavioral_patterns"]["sessions"] == 5
    assert not decider["behavioral_patterns"]["tools"]
    nobody = orjson.loads(seen.export("shop", agent_id="nobody"))
    assert nobody["behavioral_patterns"]["sessions"] == len(nobody["artifact_summaries"]["artifacts"]) == 0


def test_a_request_that_is_none_is_refused_with_its_path(seen: Seen) -> None:
    answer = seen.client.post("/v1/hmx/fingerprints", json={"tier": "huge"}, headers={"X-HMX-Tenant": TENANT})
    assert is_problem(answer, 422, "invalid_request")["path"] == "$.tier"


@pytest.mark.requirement("F-04", "O-08", "X24")
def test_the_route_the_command_and_the_client_say_the_same(seen: Seen, tmp_path: Path) -> None:
    made = seen.export(TENANT)
    printed = seen.hmx("fingerprint", "export", "--tenant", TENANT)
    assert (printed.exit_code, printed.stdout_bytes) == (0, made + b"\n")
    client = Hippocortex(f"hx_test_{TENANT}", f"{seen.settings.service_url}/v1")
    assert orjson.loads(msgspec.json.encode(asyncio.run(client.export_fingerprint()))) == orjson.loads(made)


def test_diff_says_what_differs_and_that_nothing_does(seen: Seen, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("acme.json", "shop.json")]
    for file, tenant in zip(files, (TENANT, "shop"), strict=True):
        assert seen.hmx("fingerprint", "export", "--tenant", tenant, "--out", file).exit_code == 0
    same = seen.hmx("fingerprint", "diff", files[0], files[0])
    assert (same.exit_code, same.stdout) == (0, "they say the same\n")
    told = seen.hmx("fingerprint", "diff", *files, "--json")
    assert told.exit_code == 1
    paths = {(each["part"], *each["path"][:2]) for each in orjson.loads(told.stdout)}
    assert ("behavioral_patterns", "tools", "build_image") in paths
    Path(files[1]).write_text("{}")
    broken = seen.hmx("fingerprint", "diff", *files)
    assert broken.exit_code == 1
    assert "shop.json is no fingerprint: $.fingerprint_id" in broken.stderr
