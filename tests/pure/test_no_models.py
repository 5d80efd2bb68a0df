"""Nothing but counting: with every connection refused, both stages learn and a pack is answered (the overview)."""

import re
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hmx_pipeline
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from hmx_pipeline.store.projection import commands_of
from hmx_pipeline.store.redis_keys import Keys
from tests.quality.remembered import both_stages, newest
from tests.support.learnt import history
from tests.support.records import START_MS
from tests.support.talk import said

LOCK = Path(__file__).parents[2] / "requirements.lock"
MODELS = {"openai", "anthropic", "torch", "transformers", "tensorflow", "litellm", "cohere", "mistralai", "ollama"}

WEIGHTS = {".bin", ".ckpt", ".gguf", ".h5", ".npz", ".onnx", ".pkl", ".pt", ".pth", ".safetensors", ".tflite"}


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("something was asked over the network")


@pytest.mark.requirement("O-01")
def test_without_a_network_all_is_learnt_and_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    for way in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, way, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    records = both_stages([*history(), *said("told", "We deploy on Fridays.", "My editor is vim.")])
    assert commands_of(Keys(""), records)
    artifacts = [Artifact.model_validate_json(value) for value in newest(records, "hmx.artifacts.v1")]
    known = [KnowledgeRecord.model_validate_json(value) for value in newest(records, "hmx.knowledge.v1")]
    request = PackRequest(query="deploy the search service to staging in my editor", tenant_id="acme")
    memory = MemorySnapshot(
        "v1",
        START_MS,
        artifacts=tuple(FoundSource(one, 1_000) for one in artifacts),
        knowledge=tuple(FoundSource(one, 1_000) for one in known),
    )
    pack = assemble(request, plan(request), memory)
    assert {"artifact", "memory"} <= {entry.source_type for entry in pack.entries}
    assert msgspec.json.decode(pack.to_json())["entries"]


@pytest.mark.requirement("O-01")
def test_no_model_lies_among_the_modules_and_their_data() -> None:
    files = [file for file in Path(hmx_pipeline.__file__).parent.rglob("*") if file.is_file()]
    assert len(files) > 200
    assert not [file for file in files if file.suffix in WEIGHTS or file.stat().st_size > 2_000_000]


@pytest.mark.requirement("O-01")
def test_what_is_installed_has_no_client_of_a_model_of_language() -> None:
    installed = set(re.findall(r"^([a-z0-9][a-z0-9_.-]*)==", LOCK.read_text(), re.MULTILINE))
    assert len(installed) > 20
    assert installed.isdisjoint(MODELS)
