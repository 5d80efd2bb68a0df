"""What a deployment may set, and the bounds of the laws, in one place."""

from dataclasses import dataclass
from typing import Final

from hmx_pipeline.contracts.limits import WINDOW_MS

EVENTS: Final = "hmx.events.v1"
EVENTS_DLQ: Final = "hmx.events.v1.dlq"
EPISODES: Final = "hmx.episodes.v1"
EVIDENCE: Final = "hmx.evidence.v1"
EVIDENCE_DLQ: Final = "hmx.evidence.v1.dlq"
ARTIFACTS: Final = "hmx.artifacts.v1"
KNOWLEDGE: Final = "hmx.knowledge.v1"
ERASURES: Final = "hmx.erasures.v1"
SESSION_STATE: Final = "hmx.session-state.v1"
PATTERN_STATE: Final = "hmx.pattern-state.v1"
TOPICS: Final = (
    EVENTS, EVENTS_DLQ, EPISODES, EVIDENCE, EVIDENCE_DLQ, ARTIFACTS, KNOWLEDGE, ERASURES, SESSION_STATE,
    PATTERN_STATE,
)  # fmt: skip
STATE: Final = (SESSION_STATE, PATTERN_STATE)
MATERIALISED: Final = (ERASURES, EPISODES, EVIDENCE, ARTIFACTS, KNOWLEDGE)

CONTROLS: Final = (b"tick", b"barrier", b"archive", b"import", b"ruling", b"erasure", b"tenant")
"""Kinds of evidence that are no contribution."""

RELEASED, LATE, DUPLICATE, REROUTED = "released", "released_late", "duplicate", "rerouted"
CONTROL, WAITING, LOST, REJECTED = "control", "waiting", "lost_to_retention", "rejected"


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one deployment."""

    control_key: str
    strict: bool = False
    window_ms: int = WINDOW_MS
