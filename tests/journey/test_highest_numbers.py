"""The highest numbers that an event may carry, through the whole pipeline: every door that shows them answers."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest
from typer.testing import CliRunner

from hmx_pipeline.cli.app import application
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.limits import INTEGER_MAX
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.settings import Settings
from tests.support.pipeline import environment, new_settings, running
from tests.support.records import START_MS, event

HIGHEST = {"high-53": 2**53, "high-63": 2**63 - 1, "high-64": 2**63, "highest": INTEGER_MAX}
NUMBERS = [INTEGER_MAX, -(2**63), 2**53 + 1, 1.7976931348623157e308, 5e-324]


def events() -> Iterator[dict[str, Any]]:
    """Each session ends with such a sequence."""
    for name, highest in HIGHEST.items():
        for place, sequence in enumerate((highest - 1, highest)):
            yield event(
                name,
                sequence,
                at=START_MS + place,
                event_id=f"{name}-{place}",
                ttl_seconds=INTEGER_MAX,
                content={"role": "user", "text": f"The harbour of {name} has a lighthouse.", "n": NUMBERS},
                metadata={"n": NUMBERS},
            )


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url, window_ms=500)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service", partitions=2):
        assert publish(map(orjson.dumps, events()), made).complete
        wait_for_all(made, 120)
        yield made


@pytest.fixture
def client(settings: Settings) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=settings.service_url, headers={"X-HMX-Tenant": "acme"}, timeout=60) as made:
        yield made


@pytest.fixture
def hmx(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in environment(settings).items():
        if name.startswith("HMX_"):
            monkeypatch.setenv(name, value)

    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(application(), [*arguments, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


def expected() -> dict[str, int | None]:
    return {name: highest + 1 if highest < INTEGER_MAX else None for name, highest in HIGHEST.items()}


@pytest.mark.requirement("E-07", "Y02")
def test_the_table_of_sessions_answers_and_says_what_is_expected_next(client: httpx.Client, hmx: Any) -> None:
    answer = client.get("/v1/hmx/tables/sessions")
    assert answer.status_code == 200, answer.text
    assert {row["session"]: row["next"] for row in orjson.loads(answer.content)["rows"]} == expected()
    assert {row["session"]: row["next"] for row in hmx("table", "sessions")["rows"]} == expected()
    shown = CliRunner().invoke(application(), ["table", "sessions"])
    assert shown.exit_code == 0, shown.output


@pytest.mark.requirement("E-07", "Y02")
def test_an_event_is_given_back_with_its_numbers(client: httpx.Client) -> None:
    for sent in events():
        answer = client.get(f"/v1/hmx/events/{sent['event_id']}")
        assert answer.status_code == 200, answer.text
        found = orjson.loads(answer.content)
        assert {name: found[name] for name in ("sequence", "ttl_seconds", "content", "metadata")} == {
            name: sent[name] for name in ("sequence", "ttl_seconds", "content", "metadata")
        }


def test_a_pack_holds_them(client: httpx.Client) -> None:
    asked = {"query": "Which harbour has a lighthouse?", "token_budget": 2_000}
    answer = client.post("/v1/hmx/context-packs", json=asked)
    assert answer.status_code == 200, answer.text
    assert {entry["source_id"] for entry in answer.json()["entries"]} & {sent["event_id"] for sent in events()}


def test_the_audits_recount_and_explain_them(hmx: Any) -> None:
    report = hmx("verify")
    assert (report["conserved"], report["outcomes"]["released"]) == (True, 2 * len(HIGHEST))
    places = [(part["partition"], offset) for part in report["partitions"] for offset in range(part["position"])]
    found = [hmx("verify", "--offset", f"{partition}:{offset}") for partition, offset in places]
    assert {one["event"]["sequence"] for one in found if one["outcome"] == "released"} == {
        sent["sequence"] for sent in events()
    }
