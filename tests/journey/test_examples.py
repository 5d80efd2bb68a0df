"""The pages' examples, run as they are written against a running pipeline."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.fingerprint import Fingerprint
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.local.samples import TENANT, sample_events
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store
from tests.support.documents import DOCS
from tests.support.pipeline import new_settings, running
from tests.support.stack import Servers

PAGES = "\n".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md")))
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGES, re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
CURL = [code for language, code in BLOCKS if "curl" in code]


@pytest.fixture(scope="module")
def pipeline(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Under the topics' own names, as a reader of the pages has them."""
    settings = new_settings(servers.kafka_bootstrap, servers.redis_url, topic_prefix="")
    with running(settings, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service"):
        publish(sample_events(), settings)
        wait_for_all(settings)
        yield settings


def run(arguments: list[str], settings: Settings, folder: Path) -> str:
    environment = {**os.environ, "KAFKA": settings.kafka_bootstrap, "SERVICE": settings.service_url}
    done = subprocess.run(arguments, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def one_of(blocks: list[str], what: str) -> str:
    (found,) = [code for code in blocks if what in code]
    return found


def test_the_python_producers_event_is_remembered(pipeline: Settings, tmp_path: Path) -> None:
    run([sys.executable, "-c", one_of(PYTHON, "import Producer")], pipeline, tmp_path)
    wait_for_all(pipeline)
    (event_id,) = re.findall(r'"event_id": "(.*)"', one_of(PYTHON, "import Producer"))
    assert Store.open(pipeline).get_event("acme", event_id)


def test_the_python_consumer_prints_the_whole_memory(pipeline: Settings, tmp_path: Path) -> None:
    # It waits for the first record, and not for one after the last.
    patient = one_of(PYTHON, "import Consumer").replace("poll(10)", "poll(next(waits))")
    code = f"import itertools\nwaits = itertools.chain([50], itertools.repeat(3))\n{patient}"
    printed = run([sys.executable, "-c", code], pipeline, tmp_path).splitlines()
    active = [line for line in printed if line.startswith("active failure_playbook ")]
    assert any("pulling image" in line for line in active)


def test_the_hippocortex_client_is_told_what_memory_holds(pipeline: Settings, tmp_path: Path) -> None:
    status, *entries = run([sys.executable, "-c", one_of(PYTHON, "SyncHippocortex")], pipeline, tmp_path).splitlines()
    assert status in ("completed", "partial")
    assert any("pulling image" in entry for entry in entries)


def test_a_program_of_ones_own_is_told_what_it_has_just_said(pipeline: Settings, tmp_path: Path) -> None:
    printed = run([sys.executable, "-c", one_of(PYTHON, "urlopen")], pipeline, tmp_path)
    assert "registry.internal:5000" in printed


def test_the_websocket_example_is_told_that_each_event_is_accepted(pipeline: Settings, tmp_path: Path) -> None:
    ours = (value for value in sample_events() if b'"tenant_id":"acme"' in value)
    (tmp_path / "sessions.ndjson").write_bytes(next(ours) + b"\n" + next(ours) + b"\n")
    printed = run([sys.executable, "-c", one_of(PYTHON, "websockets")], pipeline, tmp_path).splitlines()
    assert [(json.loads(line)["index"], json.loads(line)["status"]) for line in printed] == [
        (0, "accepted"),
        (1, "accepted"),
    ]


def test_the_curl_examples_publish_and_export_events_get_packs_and_fingerprints(
    pipeline: Settings, tmp_path: Path
) -> None:
    ours = (value for value in sample_events() if b'"tenant_id":"acme"' in value)
    (tmp_path / "sessions.ndjson").write_bytes(next(ours) + b"\n" + next(ours) + b"\n")
    posted, asked, made, followed, exported = (
        run(["sh", "-c", one_of(CURL, what)], pipeline, tmp_path)
        for what in ("--data-binary", '"token_budget": 600', '/fingerprints"', "/stream", "/events?session")
    )
    assert json.loads(posted)["summary"] == {"total": 2, "accepted": 2, "rejected": 0}
    pack = ContextPack.model_validate_json(asked)
    assert pack.tenant_id == TENANT
    assert pack.token_budget.used <= pack.token_budget.total_budget == 600
    assert any("pulling image" in entry.content for entry in pack.entries)
    before = ContextPack.model_validate_json(
        run(["sh", "-c", one_of(CURL, '"sections": ["facts"]')], pipeline, tmp_path)
    )
    assert before.token_budget.total_budget == 300
    assert {entry.section for entry in before.entries} <= {Section.FACTS}
    assert Fingerprint.model_validate_json(made).compression_tier == "full"
    (tmp_path / "acme.json").write_text(made)
    given = json.loads(run(["sh", "-c", one_of(CURL, "/fingerprints/import")], pipeline, tmp_path))
    assert (given["agent_id"], len(given["imported"]) > 1) == ("rookie", True)
    assert followed.count("event: hmx.event") > 100 > followed.count("event: hmx.artifact") > 5
    assert {json.loads(line)["tenant_id"] for line in exported.splitlines()} <= {"acme"}
