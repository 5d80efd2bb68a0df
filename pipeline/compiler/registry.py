"""The artifact types there are. One more type is one more module and one more entry here."""

from collections.abc import Mapping
from typing import Final

from pipeline.compiler import failure_playbook, task_schema
from pipeline.compiler.model import ArtifactType

ARTIFACT_TYPES: Final[Mapping[str, ArtifactType]] = {
    kind.name: kind for kind in (task_schema.TYPE, failure_playbook.TYPE)
}
