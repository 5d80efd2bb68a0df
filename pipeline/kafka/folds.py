"""How the folds of an installation are made: from its settings and the partition counts of its topics.

Enters: settings and a cluster that has the topics. Leaves: a factory per stage. Fails as reading Kafka does. The worker
folds with them, and so does a replay: they must be the same.
"""

from pipeline.kafka.clients import Cluster
from pipeline.settings import Settings
from pipeline.stages.executor import FoldFactory
from pipeline.stages.patterns import PatternsFold
from pipeline.stages.sessions import SessionsFold
from pipeline.topology import EVENTS, EVIDENCE, PATTERNS, SESSIONS


def fold_factories(settings: Settings, cluster: Cluster) -> dict[str, FoldFactory]:
    """Stage name → how to make a fold for one of its partitions."""
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
