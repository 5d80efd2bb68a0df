"""Replay of the whole log into shadow topics, compared with what the pipeline published (`hmx replay`).

Enters: settings. Leaves: a `ReplayReport`. Raises TopicsError, KafkaException, and TimeoutError if a topic cannot be
read to its end. Nothing is appended to the log. The pipeline may run meanwhile: the comparison covers what it had
processed when the replay began.

    events, as they are ──► sessions ──► shadow episodes, evidence, dead letters      law 4: the same bytes
    evidence, as it is ──► patterns ──► shadow artifacts, knowledge (`again.`)        law 4: the same bytes
    shadow evidence ──► patterns ──► shadow artifacts, knowledge                      law 5: the same memory
"""

import uuid
from contextlib import closing

from hmx_pipeline.audit.replay_comparison import Comparison, ReplayReport
from hmx_pipeline.audit.replay_fold import Progress, ReplayFold
from hmx_pipeline.audit.replay_topics import OF_PATTERNS, OF_SESSIONS, shadow_topics, take_cut
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.runtime.stage_folds import fold_factories
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS, PATTERN_STATE, SESSION_STATE, SHADOWS


def replay(
    settings: Settings, *, compare: bool = True, keep: bool = False, on_progress: Progress = lambda *_: None
) -> ReplayReport:
    """Replays and compares. Shadow topics are deleted at the end, also after an error, unless `keep` is set."""
    partitions = existing_topics(settings, EVENTS, *OF_SESSIONS, *OF_PATTERNS, SESSION_STATE, PATTERN_STATE)
    prefix = f"{settings.topic_prefix}{SHADOWS}{uuid.uuid4().hex[:8]}."
    of_both = {topic: partitions[topic] for topic in (*OF_SESSIONS, *OF_PATTERNS)}
    of_patterns = {topic: partitions[topic] for topic in OF_PATTERNS}
    report = ReplayReport(prefix)
    with closing(Cluster(settings.require_kafka())) as cluster:
        cut = take_cut(cluster, settings.topic_prefix, partitions)
        with shadow_topics(cluster, prefix, of_both, keep=keep) as shadow:
            rebuild = ReplayFold(cluster, fold_factories(settings, cluster), settings.topic_prefix, cut, on_progress)
            made = rebuild.sessions(shadow)
            rebuild.patterns(shadow)
            report.events, report.evidence = rebuild.events, rebuild.evidence
            if compare:
                with shadow_topics(cluster, f"{prefix}again.", of_patterns, keep=keep) as again:
                    moving = rebuild.patterns_again(again)
                    Comparison(rebuild, report, shadow, again).run(made, moving)
    return report
