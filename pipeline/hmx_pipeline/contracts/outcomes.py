"""Outcome codes: what became of a record of the events topic. Every record has exactly one."""

from hmx_pipeline.contracts.codes import ExplainedCode


class Outcome(ExplainedCode):
    """A stable code with its meaning."""

    RELEASED = "released", "on the episodes topic, in order"
    RELEASED_LATE = "released_late", "on the episodes topic, after something that should have followed it"
    DUPLICATE = "duplicate", "the same event was accepted before"
    REJECTED = "rejected", "on the dead letter topic with a reason"
    REROUTED = (
        "rerouted",
        "in another session's partition; a copy with an outcome of its own was appended to the right one",
    )
    CONTROL = "control", "a tick, a barrier or an operator's decision, written by the pipeline itself"
    WAITING = "waiting", "in a session's window, behind a gap"
    LOST_TO_RETENTION = "lost_to_retention", "deleted by the topic's retention before it was read"
