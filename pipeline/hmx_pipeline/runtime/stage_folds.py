"""Fold factories of both stages, from the settings and the topics' partition counts.

Enters: settings and a `Cluster`. Leaves: for each stage's name a function that makes its fold. Raises what reading
Kafka raises. Worker and replay share them, so that both fold alike.
"""

from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.executor import FoldFactory
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.sessions import SessionsFold
from hmx_pipeline.topology import EVENTS, EVIDENCE, PATTERNS, SESSIONS


def fold_factories(settings: Settings, cluster: Cluster) -> dict[str, FoldFactory]:
    """Returns stage name → factory of its fold."""
    partitions = cluster.topic(settings.topic_prefix + EVENTS).partitions
    evidence_partitions = cluster.topic(settings.topic_prefix + EVIDENCE).partitions

    def sessions() -> SessionsFold:
        return SessionsFold(
            partitions=partitions,
            evidence_partitions=evidence_partitions,
            control_key=settings.require_control_key(),
            window_ms=settings.window_ms,
            strict=settings.ordering == "strict",
        )

    return {SESSIONS.name: sessions, PATTERNS.name: PatternsFold}
