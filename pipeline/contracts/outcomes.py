"""The outcome of a record of the events topic. Every record has exactly one."""

from enum import StrEnum


class Outcome(StrEnum):
    RELEASED = "released"
    """On the episodes topic, in order."""
    RELEASED_LATE = "released_late"
    """On the episodes topic, after something that should have followed it."""
    DUPLICATE = "duplicate"
    """The same event was accepted before."""
    REJECTED = "rejected"
    """On the dead letter topic with a reason."""
    CONTROL = "control"
    """A tick or a barrier of our own."""
    WAITING = "waiting"
    """In a session's window, behind a gap."""
    LOST_TO_RETENTION = "lost_to_retention"
    """Deleted by the topic's retention before it was read."""
