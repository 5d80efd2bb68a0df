"""An artifact type is one of the five or x-{vendor}-{type}, and comes out of the topic as it went in (HMX-A §3)."""

import hashlib
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hmx_pipeline.contracts.artifact import STANDARD_TYPES, Artifact

CONTENT = st.dictionaries(
    st.text(max_size=4), st.text(max_size=4) | st.integers(1 - 2**53, 2**53 - 1) | st.none() | st.booleans(), max_size=4
)


def artifact(artifact_type: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "hmx_version": "HMX-1.0",
        "artifact_id": "a-1",
        "artifact_type": artifact_type,
        "title": "Restart the queue",
        "summary": "What the team does.",
        "content": content,
        "confidence": 0.5,
        "status": "draft",
        "source_events": ["e-1"],
        "source_memory_ids": [],
        "version": 1,
        "created_at": "2026-03-14T03:00:00Z",
        "content_hash": hashlib.sha256(rfc8785.dumps(content)).hexdigest(),
        "metadata": {"x-acme": 1},
    }


@pytest.mark.requirement("A-10", "X10")
@pytest.mark.parametrize("name", [*STANDARD_TYPES, "x-acme-runbook", "x-acme_2-a.b-c"])
@given(content=CONTENT)
def test_an_artifact_of_a_standard_or_a_custom_type_is_read_and_written_alike(
    name: str, content: dict[str, Any]
) -> None:
    sent = artifact(name, content)
    assert orjson.loads(Artifact.model_validate(sent).to_json()) == sent


@pytest.mark.requirement("A-10", "X10")
@pytest.mark.parametrize("name", ["runbook", "x-acme", "x-", "x--runbook", "Task_Schema", "", "x-acme-runbook\n"])
def test_any_other_type_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        Artifact.model_validate(artifact(name, {}))
