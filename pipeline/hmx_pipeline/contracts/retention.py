"""A tenant's retention: what leaves memory by age, by class and by count.

Input: a text such as `all:90d,sessions:500`; or days by class, and now. Output: a `Retention` (`told`, raises
ValueError); or the moments before which nothing stays, in milliseconds (`cuts_of`). How old something is, its own time
says; the clock that passes is the log's. Up to when each policy has taken what it covers is a cut, which only rises:
what has left stays away. Whatever memory is made from, and the cuts, decide alike on a fill, on a refill and on a
replay.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Self

import msgspec
from pydantic import Field

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.event import Name

DAY_MS: Final = 86_400_000
RETENTION: Final = "retention"
"""Id of the marks that a policy makes, and the setting's name."""
ALL: Final = "all"
SESSIONS: Final = "sessions"
"""The policy by count: the sessions that stay, those with the latest event."""
EPISODES: Final = "episodes"
ARTIFACTS: Final = "artifacts"
KNOWLEDGE: Final = "knowledge"
CLASSES: Final = (ALL, EPISODES, ARTIFACTS, KNOWLEDGE)
"""What has an age besides event types. Of artifacts and knowledge, what they are made from."""
MOST_DAYS: Final = 36_500
MOST_SESSIONS: Final = 10_000_000
MOST_POLICIES: Final = 64
_POLICY: Final = re.compile(r"(?P<class>[A-Za-z0-9_.-]+):(?P<number>[1-9][0-9]{0,7})(?P<days>d?)")

Cuts = dict[str, int]
"""Class, or `sessions` → the moment in milliseconds before which nothing of it stays."""


class Retention(Model):
    """What an operator set. Of the policies the last counts as a whole; None leaves them as they were."""

    tenant_id: Name
    days: Annotated[dict[str, Annotated[int, Field(ge=1, le=MOST_DAYS)]], Field(max_length=MOST_POLICIES)] | None = None
    """Class or event type → days that it stays."""
    sessions: Annotated[int, Field(ge=1, le=MOST_SESSIONS)] | None = None
    cuts: Cuts = Field(default_factory=dict)
    """What leaves at once: the moments before which it does."""

    @classmethod
    def told(cls, tenant_id: str, text: str) -> Self:
        """Read `CLASS:DAYSd,…,sessions:COUNT`; an empty text keeps everything. Raises ValueError."""
        days: dict[str, int] = {}
        sessions = None
        for part in text.split(",") if text else ():
            found = _POLICY.fullmatch(part)
            if found is None or (found["class"] == SESSIONS) == bool(found["days"]):
                raise ValueError(f"{part!r} is no policy")
            if found["class"] in days or (found["class"] == SESSIONS and sessions is not None):
                raise ValueError(f"{found['class']} twice")
            if found["class"] == SESSIONS:
                sessions = int(found["number"])
            else:
                days[found["class"]] = int(found["number"])
        return cls(tenant_id=tenant_id, days=days, sessions=sessions)

    def __str__(self) -> str:
        count = [f"{SESSIONS}:{self.sessions}"] if self.sessions else []
        return ",".join([*(f"{name}:{days}d" for name, days in sorted((self.days or {}).items())), *count])


class RetainedPast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tenant's retention, and what it has taken so far."""

    tenant_id: str
    deadline: int | None
    """The next midnight, if anything has an age."""
    days: dict[str, int] = {}
    sessions: int | None = None
    cuts: Cuts = {}


def cuts_of(days: Mapping[str, int], now_ms: int) -> Cuts:
    """Return the cuts of a day: they move at midnight, UTC."""
    today = now_ms // DAY_MS
    return {name: max(0, today - lasts) * DAY_MS for name, lasts in days.items()}


def risen(known: Cuts, told: Cuts) -> Cuts:
    """Return the later of the two for each class."""
    return {name: max(known.get(name, 0), told.get(name, 0)) for name in sorted({*known, *told})}


def policy_of(cuts: Cuts, at: int, *classes: str) -> str:
    """Return which policy takes what is of this time and of these classes: `age`, `class` or `count`; empty if none
    does."""
    if not cuts:
        return ""
    if at < cuts.get(ALL, 0):
        return "age"
    if any(at < cuts.get(name, 0) for name in classes):
        return "class"
    return "count" if at < cuts.get(SESSIONS, 0) else ""
