"""Content schemas of the five artifact types (HMX-A §4). Lists may be missing, and further fields are allowed.

Input: an artifact type and a content. Output: what is wrong with it and where, as a text; empty if it is valid or the
type is not standard (`why_not`). The compiler makes contents of this form, so only imported ones are validated.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from hmx_pipeline.contracts.compiled_structs import compiled


class SchemaSlot(msgspec.Struct):
    """Where the value of a slot comes from, and what it looks like."""

    source: str
    like: list[str]
    value: str = ""
    told: str | None = None
    """What is said of its source, if that is otherwise."""
    open: bool = False
    """True if `like` are some of many."""


class SchemaStep(msgspec.Struct):
    order: int
    description: str
    tools_used: list[str] = []
    optional: bool = False
    command: str = ""
    tool_name: str = ""
    arguments: dict[str, str] = {}


class SchemaRecovery(msgspec.Struct):
    step: str
    error: str
    run: list[str]
    worked: int
    sessions: int


class TaskSchema(msgspec.Struct):
    """§4.1."""

    steps: list[SchemaStep]
    preconditions: list[str] = []
    postconditions: list[str] = []
    tools_used: list[str] = []
    estimated_complexity: Literal["low", "medium", "high"] = "medium"
    goals: list[str] = []
    slots: dict[str, SchemaSlot] = {}
    recovery: list[SchemaRecovery] = []


class FailurePlaybook(msgspec.Struct):
    """§4.2."""

    failure_pattern: str
    trigger_conditions: list[str] = []
    symptoms: list[str] = []
    recovery_steps: list[str] = []
    recovery_actions: list[str] = []
    recovery_slots: dict[str, SchemaSlot] = {}
    prevention_strategies: list[str] = []
    severity: Literal["low", "medium", "high", "critical"] = "medium"


class Alternative(msgspec.Struct):
    description: str
    outcome: str = ""
    chosen_count: int = 0
    success_rate: float = 0.0


class DecisionOutcome(msgspec.Struct):
    decision: str
    outcome: str
    positive: bool
    source_memory_id: str = ""


class DecisionPolicy(msgspec.Struct):
    """§4.3."""

    condition: str
    recommendation: str
    alternatives: list[Alternative] = []
    outcomes: list[DecisionOutcome] = []
    scope: list[str] = []


class CausalPattern(msgspec.Struct):
    """§4.4."""

    cause: str
    effect: str
    direction: Literal["forward", "bidirectional"]
    strength: float
    conditions: list[str] = []
    counterexamples: list[str] = []


class Phase(msgspec.Struct):
    order: int
    name: str
    description: str = ""
    tools_used: list[str] = []
    success_criteria: list[str] = []


class StrategyTemplate(msgspec.Struct):
    """§4.5."""

    goal: str
    phases: list[Phase]
    applicability_conditions: list[str] = []
    estimated_complexity: Literal["low", "medium", "high"] = "medium"


CONTENTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "task_schema": compiled(TaskSchema),
    "failure_playbook": compiled(FailurePlaybook),
    "decision_policy": compiled(DecisionPolicy),
    "causal_pattern": compiled(CausalPattern),
    "strategy_template": compiled(StrategyTemplate),
}


def why_not(artifact_type: str, content: dict[str, Any]) -> str:
    """Return what is wrong with a content, and where; empty if valid. Contents of custom types are not checked."""
    form = CONTENTS.get(artifact_type)
    if form is None:
        return ""
    try:
        msgspec.convert(content, form)
    except msgspec.ValidationError as error:
        return str(error)
    return ""
