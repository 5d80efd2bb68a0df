"""What others make of the OpenAPI document: it is valid, and a client generated from it works against the service.

Both tools are programs of their own under HMX_CLIENT_TOOLS, since they need other versions of what the pipeline needs.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hmx_pipeline.service.api_description import EXAMPLES
from hmx_pipeline.service.app import create_app
from hmx_pipeline.settings import Settings
from tests.support.pipeline import new_settings, running
from tests.support.records import event

pytestmark = pytest.mark.clients


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    folder = os.environ["HMX_CLIENT_TOOLS"]
    environment = os.environ | {"PYTHONPATH": folder, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    return subprocess.run([sys.executable, "-m", *arguments], env=environment, text=True, capture_output=True)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("openapi") / "openapi.json"
    app = create_app(Settings(kafka_bootstrap="127.0.0.1:1", redis_url="redis://127.0.0.1:1"))
    file.write_text(json.dumps(app.openapi()), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def generated(document: Path) -> Iterator[str]:
    """The name of the generated package, which can be imported."""
    made = tool("openapi_python_client", "generate", "--path", str(document), "--output-path",
                str(document.parent / "made"), "--meta", "none")  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    assert "will not be generated" not in made.stdout
    sys.path.insert(0, str(document.parent))
    yield "made"
    sys.path.remove(str(document.parent))


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service", partitions=1):
        yield made


def test_the_document_is_valid(document: Path) -> None:
    told = tool("openapi_spec_validator", str(document))
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_generated_client_appends_and_reads(generated: str, settings: Settings) -> None:
    client = importlib.import_module(f"{generated}.client").Client(base_url=settings.service_url)

    def called(operation: str, tag: str = "default", body: Any = None, **given: Any) -> Any:
        ask = importlib.import_module(f"{generated}.api.{tag}.{operation}").sync_detailed
        if body is not None:
            model = ask.__annotations__["body"]
            given["body"] = body if model is Any else model.from_dict(body)
        answer = ask(client=client, x_hmx_tenant="acme", **given)
        assert answer.status_code < 300, answer.content
        return answer.parsed

    said = event("s1", 0)
    appended = called("post_events", body=said)
    assert appended.summary.accepted == 1
    pack = called("post_context_pack", body={"query": "Where is the registry?", "after": appended.after})
    assert pack.query_context == "Where is the registry?"
    assert called("list_artifacts").total == 0
    assert called("get_event", event_id=said["event_id"]).session_id == "s1"
    captured = called("hippocortex_capture", "hippocortex", body=EXAMPLES["hippocortex_capture"])
    assert captured.to_dict()["ok"]
    client.get_httpx_client().close()
