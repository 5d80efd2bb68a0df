"""The JSON Schemas on disk are those of the models, and say what the specifications print."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.canonical import content_hash
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.schemas import documents, text, write
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.events import OPTIONAL, REQUIRED, encoded, full_event

FOLDER = Path(__file__).parents[3] / "schemas" / "hmx-1.0"
ARTIFACT_REQUIRED = [
    "hmx_version", "artifact_id", "artifact_type", "title", "summary", "content", "confidence", "status",
    "source_events", "source_memory_ids", "version", "created_at", "content_hash", "metadata",
]  # fmt: skip
ARTIFACT_OPTIONAL = [
    "tenant_id", "agent_id", "superseded_by", "supersedes", "validity_scope", "tags", "observed_count", "success_rate",
    "updated_at",
]  # fmt: skip


def test_the_files_are_up_to_date(tmp_path: Path) -> None:
    """After a change of a model: `python -m hmx_pipeline.contracts.schemas`."""
    write(tmp_path)
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == made


@pytest.mark.parametrize("name", documents())
def test_each_is_a_valid_schema_with_an_id_of_its_own(name: str) -> None:
    document = documents()[name]
    Draft202012Validator.check_schema(document)
    assert document["$id"] == f"https://hippocortex.dev/schemas/hmx-1.0/{name}"
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["title"].startswith("HMX ")


@pytest.mark.parametrize(
    ("name", "required", "optional"),
    [("event", [*REQUIRED], [*OPTIONAL]), ("artifact", ARTIFACT_REQUIRED, ARTIFACT_OPTIONAL)],
)
def test_fields_are_those_that_the_specification_prints(name: str, required: list[str], optional: list[str]) -> None:
    document = documents()[f"{name}.json"]
    assert document["required"] == required
    assert list(document["properties"]) == [*required, *optional]
    assert document["additionalProperties"] is False


@pytest.mark.parametrize("name", documents())
def test_no_field_admits_null_but_where_the_specification_prints_one(name: str) -> None:
    """HMX-C §5: a query without a time reference."""
    assert text(documents()[name]).count('"null"') == (name == "context-pack.json")


@given(
    st.sampled_from([*REQUIRED, *OPTIONAL]),
    st.none()
    | st.integers(-2, 2)
    | st.floats(-2, 2)
    | st.booleans()
    | st.text(max_size=2)
    | st.lists(st.integers(-9, 9) | st.text(), max_size=2)
    | st.just({}),
)
def test_the_events_schema_and_decode_agree(name: str, value: Any) -> None:
    """But for the forms of versions and timestamps, which decode knows better than a pattern."""
    sent = full_event(**{name: value})
    by_schema = Draft202012Validator(documents()["event.json"]).is_valid(sent)
    if name not in ("hmx_version", "timestamp"):
        assert isinstance(decode(encoded(sent)), Accepted) is by_schema


def test_what_an_artifact_publishes_keeps_its_schema() -> None:
    artifact = Artifact(
        artifact_id="a", artifact_type="task_schema", title="t", summary="", content={"steps": []}, confidence=0.5,
        status=Status.ACTIVE, source_events=["e"], source_memory_ids=[], version=1,
        created_at="2026-03-14T03:00:00.000Z", content_hash=content_hash({"steps": []}), metadata={},
    )  # fmt: skip
    Draft202012Validator(documents()["artifact.json"]).validate(json.loads(artifact.to_json()))
