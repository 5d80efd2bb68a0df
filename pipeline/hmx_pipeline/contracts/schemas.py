"""JSON Schema generator for the models on topics and over HTTP (HMX-E §5, HMX-A §9).

Input: the models. Output: file name → JSON Schema. Run as a program, it writes the files of `schemas/hmx-1.0`. The
schemas describe published values: an optional field is absent, never null, and a field with a fixed default is present.
Raises OSError if the folder cannot be written.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticUndefined
from pydantic_core.core_schema import DataclassField, ModelField, NullableSchema, TypedDictField, WithDefaultSchema

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.episode import Episode
from hmx_pipeline.contracts.erasure import ErasureMark
from hmx_pipeline.contracts.event import Event
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.fingerprint import Fingerprint
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.pack import ContextPack

BASE: Final = "https://hippocortex.dev/schemas/hmx-1.0/"
FOLDER: Final = Path("schemas/hmx-1.0")
_MODELS: Final[Mapping[str, tuple[type[BaseModel], str]]] = {
    "event": (Event, "HMX Event"),
    "artifact": (Artifact, "HMX Artifact"),
    "fingerprint": (Fingerprint, "HMX Fingerprint"),
    "context-pack": (ContextPack, "HMX Context Pack"),
    "episode": (Episode, "HMX Episode"),
    "contribution": (Contribution, "HMX Contribution"),
    "knowledge": (KnowledgeRecord, "HMX Knowledge Record"),
    "erasure": (ErasureMark, "HMX Erasure Mark"),
}


class _SchemaGenerator(GenerateJsonSchema):
    """pydantic's generator, with None meaning absent."""

    def nullable_schema(self, schema: NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_is_required(self, field: ModelField | DataclassField | TypedDictField, total: bool) -> bool:
        """A field is required if it is always present: it is neither None nor left out."""
        inner = field["schema"]
        if "serialization_exclude_if" in field:
            return False
        if inner["type"] == "default":
            return inner.get("default", PydanticUndefined) is not None
        return bool(inner["type"] != "nullable")

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def documents() -> dict[str, dict[str, Any]]:
    """Return file name → JSON Schema."""
    return {f"{name}.json": _document(name, model, title) for name, (model, title) in _MODELS.items()}


def _document(name: str, model: type[BaseModel], title: str) -> dict[str, Any]:
    head = {"$schema": GenerateJsonSchema.schema_dialect, "$id": f"{BASE}{name}.json", "title": title}
    return head | {
        key: value
        for key, value in model.model_json_schema(schema_generator=_SchemaGenerator).items()
        if key not in head
    }


def text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path = FOLDER) -> None:
    """Update the files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents().items():
        (folder / name).write_text(text(document), encoding="utf-8")


if __name__ == "__main__":
    write()
