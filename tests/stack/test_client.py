"""Our own client: what the overview of the protocol prints runs with it, and errors come by their code."""

import ast
import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from examples.client import ClientError, Hippocortex
from hmx_pipeline.service.api_keys import digest
from hmx_pipeline.settings import Settings
from tests.support.pipeline import create_topics, new_settings
from tests.support.service import serving

KEY = "hx_live_..."
PRINTED = """
from hippocortex import Hippocortex

hx = Hippocortex(api_key="hx_live_...")

# Capture an HMX event
await hx.capture(
    type="message",
    session_id="sess_001",
    payload={"role": "user", "content": "Deploy payments to staging"},
)

# Compile events into artifacts
result = await hx.learn(scope="incremental")
print(result.artifacts)  # {"created": 2, "updated": 1}

# Synthesize a context pack
context = await hx.synthesize(
    query="deploy payments",
    max_tokens=4000,
    sections=["procedures", "failures"],
)

# Export an HMX fingerprint
fingerprint = await hx.export_fingerprint(
    tier="compact",
    agent_id="agent-ops-1",
)
"""


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{digest(KEY)} acme\n")
    made = new_settings(kafka, redis_url, api_keys=str(keys))
    create_topics(made, partitions=1)
    return made


@pytest.fixture(scope="module")
def url(settings: Settings) -> Iterator[str]:
    with serving(settings) as service:
        yield f"{service.base_url}/v1"


@pytest.mark.requirement("O-08", "O-09", "X24")
def test_what_the_overview_prints_runs_but_for_its_import(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIPPOCORTEX_BASE_URL", url)
    monkeypatch.setattr("hmx_pipeline.service.hippocortex.learn.ANSWER_S", 0.2)  # no stage runs here
    code = compile(
        PRINTED.replace("from hippocortex import", "from examples.client import"),
        "overview",
        "exec",
        ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
    )
    names: dict[str, Any] = {}
    running = eval(code, names)
    assert inspect.iscoroutine(running)
    asyncio.run(running)
    assert (names["result"].status, names["result"].artifacts["created"]) == ("partial", 0)
    assert capsys.readouterr().out.startswith("{'created': 0, 'updated': 0")
    assert names["context"].budget.limit == 4000
    assert (names["fingerprint"].compression_tier, names["fingerprint"].agent_id) == ("compact", "agent-ops-1")


def test_a_key_is_taken_once_and_a_batch_says_what_became_of_each(url: str) -> None:
    async def some() -> Any:
        hx = Hippocortex(KEY, url)
        sent = {"type": "message", "session_id": "s", "payload": {}, "idempotency_key": "k"}
        first, again = await hx.capture(**sent), await hx.capture(**sent)
        batch = await hx.capture_batch([{"type": "message", "sessionId": "s", "payload": {}}, {}])
        return first, again, batch, await hx.list_artifacts(limit=5)

    first, again, batch, listed = asyncio.run(some())
    assert (first.status, again.status, first.event_id == again.event_id) == ("ingested", "duplicate", True)
    assert (len(batch.results), batch.summary["errors"]) == (1, 1)
    assert (listed.artifacts, listed.pagination.total) == ((), 0)


@pytest.mark.parametrize(
    ("key", "where", "code", "status"),
    [
        (KEY, "", "not_found", 404),
        ("hx_test_acme", "", "unauthorized", 401),
        (KEY, "http://127.0.0.1:1", "network_error", 0),
    ],
)
def test_errors_come_by_their_code(url: str, key: str, where: str, code: str, status: int) -> None:
    with pytest.raises(ClientError) as raised:
        asyncio.run(Hippocortex(key, where or url).get_artifact("no/body"))
    assert (raised.value.code, raised.value.status) == (code, status)
