"""The real client of mem0 against the service: what it adds is learnt, found, listed, read and deleted."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.settings import Settings
from tests.support.pipeline import new_settings, running

pytestmark = pytest.mark.clients
SCRIPT = """
import json, sys
from mem0 import MemoryClient
name, arguments = json.loads(sys.argv[2])
client = MemoryClient(api_key="hx_test_acme", host=sys.argv[1])
print(json.dumps(getattr(client, name)(**arguments)))
"""
ANN = {"user_id": "ann"}


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url, mem0=1)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service", partitions=1):
        yield made


def test_mem0s_client_works_against_the_service(settings: Settings, tmp_path: Path) -> None:
    environment = os.environ | {
        "PYTHONPATH": os.environ["HMX_CLIENT_TOOLS"], "MEM0_TELEMETRY": "false", "MEM0_DIR": str(tmp_path),
    }  # fmt: skip

    def client(name: str, **arguments: Any) -> Any:
        asked = [sys.executable, "-c", SCRIPT, settings.service_url, json.dumps([name, arguments])]
        told = subprocess.run(asked, env=environment, text=True, capture_output=True)
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout.splitlines()[-1])

    rule = "Always run make lint before committing."
    assert client("add", messages=rule, **ANN)["results"][0]["event"] == "ADD"
    client("add", messages=[{"role": "user", "content": "Never deploy on Fridays."}], user_id="bob")
    wait_for_all(settings, 120.0)
    (known,) = client("get_all", filters=ANN)["results"]
    assert ("make lint" in known["memory"], known["user_id"]) == (True, "ann")
    found = client("search", query="What before I commit?", filters=ANN)["results"]
    assert known["id"] in [one["id"] for one in found]
    assert "Fridays" not in json.dumps(found)
    assert client("get", memory_id=known["id"])["memory"] == known["memory"]
    client("delete", memory_id=known["id"])
    wait_for_all(settings, 120.0)
    assert client("get_all", filters=ANN)["results"] == []
    client("delete_all", user_id="bob")
    assert client("get_all", filters={"user_id": "bob"})["results"] == []
