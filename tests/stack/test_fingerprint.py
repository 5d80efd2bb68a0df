"""What a tenant has learnt on the whole pipeline: exported over HTTP, by the command and by the client, and imported by
another tenant, for good."""

import asyncio
import hashlib
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
import rfc8785

from examples.client import Hippocortex
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.canonical import content_hash
from hmx_pipeline.contracts.fingerprint import PARTS, Fingerprint
from hmx_pipeline.contracts.schemas import documents
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.local.samples import SECRETS, TENANT, sample_events
from hmx_pipeline.settings import Settings
from tests.support.learnt import history
from tests.support.memory import empty
from tests.support.own_command import hmx
from tests.support.pipeline import new_settings, running
from tests.support.service import is_problem
from tests.support.waiting import until
from tests.verifier import check

JSON = {"Content-Type": "application/json"}
LISTED = "/v1/hmx/artifacts?limit=100"


@dataclass
class Seen:
    settings: Settings
    client: httpx.Client

    def export(self, tenant: str, **asked: Any) -> bytes:
        answer = self.client.post("/v1/hmx/fingerprints", json=asked, headers={"X-HMX-Tenant": tenant})
        assert answer.status_code == 200, answer.text
        return answer.content

    def hmx(self, *words: str) -> Any:
        return hmx(self.settings, *words)


@pytest.fixture(scope="module")
def seen(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    settings = new_settings(kafka, redis_url)
    logs = tmp_path_factory.mktemp("logs")
    with (
        running(settings, logs, "worker", "materialiser", "service", partitions=2),
        httpx.Client(base_url=settings.service_url, timeout=60.0) as client,
    ):
        told = [orjson.dumps({**each, "tenant_id": "shop"}) for each in history()]
        assert publish([*told, *(line.replace(b"\n", b" ") for line in sample_events())], settings).complete
        wait_for_all(settings)
        yield Seen(settings, client)


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


def test_a_file_that_is_no_fingerprint_is_not_imported(seen: Seen, tmp_path: Path) -> None:
    file = tmp_path / "shop.json"
    file.write_text("{}")
    broken = seen.hmx("fingerprint", "import", str(file), "--tenant", "newcomer")
    assert broken.exit_code == 1
    assert "shop.json is not a fingerprint: $.fingerprint_id" in broken.stderr


def imported(seen: Seen, folder: Path, tenant: str, *more: str, tier: str = "full") -> Path:
    """The shop's fingerprint, given to a tenant."""
    file = folder / f"{tier}.json"
    file.write_bytes(seen.export("shop", tier=tier))
    done = seen.hmx("fingerprint", "import", str(file), "--tenant", tenant, *more)
    assert done.exit_code == 0, done.stderr
    return file


def pack(seen: Seen, tenant: str, **asked: Any) -> Any:
    """A fingerprint holds no goals in the tenant's words, so it is asked for by what is done."""
    request = {"query": "apply manifest: namespace not found", **asked}
    answer = seen.client.post("/v1/hmx/context-packs", json=request, headers={"X-HMX-Tenant": tenant})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.requirement("F-03", "C-17")
def test_an_empty_tenant_that_is_given_it_has_the_procedures_marked(seen: Seen, tmp_path: Path) -> None:
    given = Fingerprint.model_validate_json(imported(seen, tmp_path, "newcomer").read_bytes())
    active = {one.pattern: one for one in given.artifact_summaries.artifacts if one.status == "active"}
    listed = seen.client.get("/v1/hmx/artifacts?limit=100", headers={"X-HMX-Tenant": "newcomer"}).json()["artifacts"]
    held = {one["metadata"]["pattern"]: one for one in listed}
    assert held.keys() == {*active, "x-hmx-priors/"}
    for pattern, one in active.items():
        assert held[pattern]["content"] == one.content
        assert held[pattern]["confidence"] < one.confidence
        assert held[pattern]["metadata"]["imported"]["fingerprint_hash"] == given.fingerprint_hash
    entries = pack(seen, "newcomer")["entries"]
    told = [entry for entry in entries if "Apply manifest" in entry["content"]]
    assert told
    assert {entry["provenance"]["origin"] for entry in entries} == {"fingerprint"}
    guided = pack(seen, "newcomer", strategy="fingerprint_guided")
    assert guided["fingerprint_priors"]["sections"] == given.context_priors.sections
    shown = seen.hmx("explain", told[0]["source_id"], "--tenant", "newcomer")
    assert (shown.exit_code, "imported with a fingerprint" in shown.stdout) == (0, True)
    again = orjson.loads(seen.export("newcomer", tier="compact"))
    assert {one["pattern"] for one in again["artifact_summaries"]["artifacts"]} == active.keys()


@pytest.mark.requirement("F-03")
def test_what_is_imported_over_http_is_what_the_command_imports(seen: Seen, tmp_path: Path) -> None:
    file = imported(seen, tmp_path, "by-command", "--agent", "rookie")
    asked: dict[str, Any] = {"content": file.read_bytes(), "headers": {"X-HMX-Tenant": "over-http", **JSON}}
    answer = seen.client.post("/v1/hmx/fingerprints/import", params={"agent": "rookie"}, **asked)
    assert answer.status_code == 202, answer.text
    wait_for_all(seen.settings)
    held = [
        {one["metadata"]["pattern"]: (one["content"], one["confidence"], one["validity_scope"]) for one in listed}
        for tenant in ("by-command", "over-http")
        for listed in [seen.client.get(LISTED, headers={"X-HMX-Tenant": tenant}).json()["artifacts"]]
    ]
    assert held[0] == held[1]
    assert sorted(answer.json()["imported"]) == sorted(held[1])
    told = orjson.loads(file.read_bytes())
    for broken, path in ((told | {"fingerprint_hash": "0" * 64}, "$"), (told | {"hmx_version": "HMX-2.0"}, "$")):
        refused = seen.client.post(
            "/v1/hmx/fingerprints/import", content=orjson.dumps(broken), headers=asked["headers"]
        )
        assert is_problem(refused, 422, "invalid_request")["path"].startswith(path)


@pytest.mark.requirement("C-17")
def test_opposite_priors_reverse_two_artifacts(seen: Seen, tmp_path: Path) -> None:
    told = orjson.loads(imported(seen, tmp_path, "guided").read_bytes())
    query = {"query": "the namespace is not found", "strategy": "fingerprint_guided"}
    answer = seen.client.get("/v1/hmx/artifacts?limit=100", headers={"X-HMX-Tenant": "guided"})
    held = {one["artifact_id"]: one["metadata"]["pattern"] for one in answer.json()["artifacts"]}
    pair = sorted(pattern for pattern in held.values() if "not%20found" in pattern)[:2]
    orders = {}
    for agent, first, second in (("a", *pair), ("b", *reversed(pair))):
        told["context_priors"] = {"sections": {}, "patterns": {first: 1.0, second: 0.0}, "terms": {}}
        file = sealed(told, tmp_path)
        assert seen.hmx("fingerprint", "import", str(file), "--tenant", "guided", "--agent", agent).exit_code == 0
        made = pack(seen, "guided", agent_id=agent, **query)
        scores = {
            held.get(one["source_id"]): one["relevance_score"] for one in (*made["entries"], *made["dropped_entries"])
        }
        orders[agent] = sorted(pair, key=lambda pattern: -scores[pattern])
    assert orders == {"a": pair, "b": pair[::-1]}


def sealed(told: Any, folder: Path) -> Path:
    """A fingerprint that was changed by hand, with the hash that goes with it."""
    told["fingerprint_hash"] = hashlib.sha256(rfc8785.dumps({part: told[part] for part in PARTS})).hexdigest()
    file = folder / "sealed.json"
    file.write_bytes(orjson.dumps(told))
    return file


@pytest.mark.requirement("F-03")
def test_what_is_given_to_one_agent_is_for_no_other(seen: Seen, tmp_path: Path) -> None:
    imported(seen, tmp_path, "crowded", "--agent", "rookie", tier="compact")
    assert pack(seen, "crowded", agent_id="rookie")["entries"]
    assert not pack(seen, "crowded", agent_id="veteran")["entries"]


@pytest.mark.requirement("A-10", "X10")
def test_a_custom_type_survives_import_and_export(seen: Seen, tmp_path: Path) -> None:
    told = orjson.loads(seen.export("shop", tier="compact"))
    content = {"pages": [{"title": "Failover", "weight": 1.5}]}
    runbook = {
        **told["artifact_summaries"]["artifacts"][0],
        "pattern": "x-acme-runbook/failover", "artifact_type": "x-acme-runbook", "title": "Failover by hand",
        "content": content, "content_hash": content_hash(content),
    }  # fmt: skip

    def give(artifact: Any) -> Any:
        told["artifact_summaries"]["artifacts"] = [artifact]
        return seen.hmx("fingerprint", "import", str(sealed(told, tmp_path)), "--tenant", "vendor")

    assert give(runbook).exit_code == 0
    again = orjson.loads(seen.export("vendor"))["artifact_summaries"]["artifacts"]
    assert [(one["pattern"], one["content"]) for one in again] == [("x-acme-runbook/failover", content)]
    (shown,) = pack(seen, "vendor", query="how to do the failover by hand")["entries"]
    assert (shown["section"], shown["provenance"]["origin"]) == ("procedures", "fingerprint")
    assert "Failover by hand" in shown["content"]
    for field, value, why in (
        ("artifact_type", "runbook", "x-{vendor}-{type}"),
        ("pattern", "x-hmx-tick/1", "the pipeline's own"),
    ):
        refused = give(runbook | {field: value})
        assert (refused.exit_code, why in refused.stderr) == (1, True)
    broken = {**runbook, "pattern": "task_schema/1", "artifact_type": "task_schema"}
    refused = give(broken)
    assert (refused.exit_code, "missing required field `steps`" in refused.stderr) == (1, True)


@pytest.mark.requirement("F-03", "F-04")
def test_imports_outlive_an_emptied_redis_are_recounted_and_replayed(seen: Seen, tmp_path: Path) -> None:
    imported(seen, tmp_path, "lasting")
    before = {tenant: seen.export(tenant, tier="full") for tenant in (TENANT, "shop", "lasting")}
    empty(seen.settings)
    wait_for_all(seen.settings)
    until(lambda: seen.export("lasting", tier="full") == before["lasting"], "Redis is filled again")
    assert {tenant: seen.export(tenant, tier="full") for tenant in before} == before
    verified = seen.hmx("verify")
    assert verified.exit_code == 0, verified.stdout
    replayed = seen.hmx("replay", "--from-start", "--compare")
    assert replayed.exit_code == 0, replayed.stdout
    made = seen.settings
    assert not check(made.kafka_bootstrap, made.topic_prefix, made.redis_url, made.control_key).faults
