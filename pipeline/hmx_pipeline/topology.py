"""Topology: the topics, the two stages, and the data flow between them, on one page.

    hmx.events.v1 ──► sessions ──► hmx.episodes.v1, hmx.evidence.v1, hmx.erasures.v1 (dead letters: hmx.events.v1.dlq)
    hmx.evidence.v1 ──► patterns ──► hmx.artifacts.v1, hmx.knowledge.v1 (dead letters: hmx.evidence.v1.dlq)
    erasures, episodes, evidence, artifacts, knowledge ──► materialiser ──► Redis ──► service

Topic configuration is in `topics/`, record keys are in `contracts/keys.py`.
"""

from dataclasses import dataclass
from typing import Final

EVENTS: Final = "hmx.events.v1"
EVENTS_DLQ: Final = "hmx.events.v1.dlq"
EPISODES: Final = "hmx.episodes.v1"
EVIDENCE: Final = "hmx.evidence.v1"
ERASURES: Final = "hmx.erasures.v1"
EVIDENCE_DLQ: Final = "hmx.evidence.v1.dlq"
ARTIFACTS: Final = "hmx.artifacts.v1"
KNOWLEDGE: Final = "hmx.knowledge.v1"
SESSION_STATE: Final = "hmx.session-state.v1"
PATTERN_STATE: Final = "hmx.pattern-state.v1"


@dataclass(frozen=True, slots=True)
class Stage:
    """The topics of one fold. Source, state and dead letter topic have the same number of partitions."""

    name: str
    source: str
    state: str
    dead_letters: str
    outputs: tuple[str, ...]

    def transactional_id(self, prefix: str, partition: int | str) -> str:
        """Whoever fences last with it owns the partition."""
        return f"{prefix}hmx-{self.name}-{partition}"


SESSIONS: Final = Stage("sessions", EVENTS, SESSION_STATE, EVENTS_DLQ, (EPISODES, EVIDENCE, ERASURES))
PATTERNS: Final = Stage("patterns", EVIDENCE, PATTERN_STATE, EVIDENCE_DLQ, (ARTIFACTS, KNOWLEDGE))
STAGES: Final = (SESSIONS, PATTERNS)

MATERIALISED: Final = (ERASURES, EPISODES, EVIDENCE, ARTIFACTS, KNOWLEDGE)
"""Topics that the materialiser writes into Redis."""
FOLLOWED: Final = (EPISODES, ARTIFACTS)
"""What the service's streams pass on."""
GROUP: Final = "hmx"
"""The consumer group, behind the installation's prefix: workers join it; the other readers only name it, as the client
wants a name also where partitions are assigned by hand."""
LETTERS_ID: Final = "hmx-dlq-replay"
"""The transactional id of whoever sends dead letters back, behind the prefix."""
RESTORE_ID: Final = "hmx-restore"
"""The one of whoever restores a backup."""
GROW_ID: Final = "hmx-grow"
"""The one of whoever copies the log into a generation with more partitions, and the group that notes how far."""
OURS: Final = "hmx."
"""How every topic's name begins, behind the prefix."""
SHADOWS: Final = "replay-"
"""How the prefix of a replay's own topics begins, behind the installation's."""
