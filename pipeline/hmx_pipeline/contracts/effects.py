"""Effect codes: what the stages count besides record outcomes (`hmx_stage_effects`; totals in position records)."""

from hmx_pipeline.contracts.codes import ExplainedCode
from hmx_pipeline.contracts.limits import (
    ARTIFACT_VERSIONS,
    CONTRIBUTION_BYTES,
    KB,
    MB,
    OWNERS_KEPT,
    PARTITION_CONTRIBUTION_BYTES,
    PARTITION_SESSION_BYTES,
    PATTERN_CONTRIBUTIONS,
    PATTERN_RULINGS,
    RECORD_BYTES,
    SESSION_SEGMENTS,
    SESSIONS_LIVE,
    TENANT_CONTRIBUTIONS,
    TENANT_DECISIONS,
    WITHDRAWN_RECORDS,
)


class Effect(ExplainedCode):
    """A stable code with its meaning."""

    CONTRIBUTED = "contributed", "a segment has said something about a pattern: sent by sessions, taken by patterns"
    WITHDRAWN = "withdrawn", "a segment no longer says something about a pattern"
    ARTIFACT_DRAFT = "artifact_draft", "an artifact was published: too little evidence yet"
    ARTIFACT_ACTIVE = "artifact_active", "an artifact was published that packs show"
    ARTIFACT_SUPERSEDED = "artifact_superseded", "an artifact was replaced by its next version"
    ARTIFACT_DEPRECATED = (
        "artifact_deprecated",
        "an artifact has lost its evidence, or recent evidence speaks against it",
    )
    ARTIFACT_ARCHIVED = "artifact_archived", "an operator has taken an artifact out of use"
    ARCHIVED_INACTIVE = (
        "archived_inactive",
        "an operator archived a pattern without an active artifact: nothing of it is published from now on",
    )
    IMPORTED = "imported", "an artifact learnt elsewhere was imported for a tenant, or for one of its agents"
    ERASED_SESSION = "erased_session", "an operator has erased a session that the stage still held"
    ERASED_CONTRIBUTION = "erased_contribution", "a contribution of an erased session was removed"
    FORGOTTEN_BY_AGE = (
        "forgotten_by_age",
        "a contribution, or a ruling that came, was older than its tenant keeps anything",
    )
    FORGOTTEN_BY_CLASS = (
        "forgotten_by_class",
        "a contribution, or a ruling that came, was older than its tenant keeps what it is for",
    )
    FORGOTTEN_BY_COUNT = (
        "forgotten_by_count",
        "a contribution, or a ruling that came, was of before the sessions that its tenant keeps",
    )
    CONTRIBUTION_CLAIMED = (
        "contribution_claimed",
        "a session said it while nobody was named in it: it comes again as its subject's",
    )
    CONTRIBUTION_OF_SOMEBODY = (
        "contribution_of_somebody",
        "it names nobody, and its session is somebody's: it was left out",
    )
    RULING_ON_ERASED = (
        "ruling_on_erased",
        "a ruling came after what it decides on was erased: it was not taken, or of a correction only what it ends",
    )
    RULED = "ruled", "an operator has confirmed, corrected or retracted a knowledge record"
    ARTIFACT_ERASED = "artifact_erased", f"an old version was erased: of each pattern the last {ARTIFACT_VERSIONS} stay"
    KNOWLEDGE_ACTIVE = "knowledge_active", "a knowledge record was published that holds"
    KNOWLEDGE_SUPERSEDED = "knowledge_superseded", "a knowledge record was ended by a later one"
    KNOWLEDGE_UNRESOLVED = "knowledge_unresolved", "a conflict was published: statements differ, and none settles it"
    KNOWLEDGE_RESOLVED = "knowledge_resolved", "a later statement has settled a conflict"
    KNOWLEDGE_WITHDRAWN = "knowledge_withdrawn", "a knowledge record has lost its evidence"
    KNOWLEDGE_ERASED = (
        "knowledge_erased",
        f"a withdrawn record was erased: of each pattern the last {WITHDRAWN_RECORDS} stay",
    )
    SESSION_FORGOTTEN = "session_forgotten", "24 h without an event: what comes now is another session"
    SESSION_FORGOTTEN_EARLY = (
        "session_forgotten_early",
        f"a partition had over {SESSIONS_LIVE:,} sessions: the tenant with the most lost its longest silent one",
    )
    SESSION_FORGOTTEN_HEAVY = (
        "session_forgotten_heavy",
        f"over {PARTITION_SESSION_BYTES // MB:,} MB of traces: the tenant with the most lost the longest silent one",
    )
    SESSION_OWNER_LOST = (
        "session_owner_lost",
        f"over {OWNERS_KEPT:,} forgotten sessions of subjects: what comes without a name there is seen by nobody else",
    )
    WINDOW_FULL = "window_full", "too much waited behind gaps: the first event was released before its time"
    SEGMENT_OUT_OF_REACH = (
        "segment_out_of_reach",
        f"feedback for a segment that is gone: {SESSION_SEGMENTS} closed ones stay, none above {RECORD_BYTES // MB} MB",
    )
    FEEDBACK_REPLACED = (
        "feedback_replaced",
        "a full segment takes 16 late feedbacks; each further one replaces the last",
    )
    CONTRIBUTION_TOO_LARGE = (
        "contribution_too_large",
        f"a contribution of more than {CONTRIBUTION_BYTES // KB} KB was left out",
    )
    CONTRIBUTION_OUT_OF_SAMPLE = (
        "contribution_out_of_sample",
        f"a pattern keeps an even sample of {PATTERN_CONTRIBUTIONS:,} contributions; its artifact says `sampled`",
    )
    CONTRIBUTION_OUT_OF_TENANT_SAMPLE = (
        "contribution_out_of_tenant_sample",
        f"a tenant's patterns together keep an even sample of {TENANT_CONTRIBUTIONS:,} contributions",
    )
    CONTRIBUTION_OUT_OF_PARTITION = (
        "contribution_out_of_partition",
        f"over {PARTITION_CONTRIBUTION_BYTES // MB:,} MB of contributions: the tenant with the most lost one",
    )
    DECISION_OUT_OF_ROOM = (
        "decision_out_of_room",
        f"operators decided on {TENANT_DECISIONS:,} patterns of the tenant, or {PATTERN_RULINGS} records of a pattern",
    )
    OUTPUT_LEFT_OUT = (
        "output_left_out",
        "Kafka refused a contribution, an artifact or knowledge as too large for its topic; it was left out",
    )
    PATTERN_FORGOTTEN = (
        "pattern_forgotten",
        "nothing of a pattern is left in the tenant's sample: its artifacts were erased",
    )
    STEP_NOT_MINED = "step_not_mined", "mining failed for an event; it was released all the same"
    SEGMENT_NOT_MINED = "segment_not_mined", "mining failed for a segment; it contributes nothing new"
    PATTERN_NOT_COMPILED = "pattern_not_compiled", "a pattern could not be compiled; its last artifact stands"
    BARRIER_FORGOTTEN = "barrier_forgotten", "a barrier was forgotten, an hour after it passed"
    BARRIER_LOST = "barrier_lost", "a barrier was forgotten that came from some partitions of the log and not from all"
