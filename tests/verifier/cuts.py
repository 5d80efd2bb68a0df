"""What leaves a tenant's memory by age, class and count: the documented rules, spelled here once more.

A cut is the moment in milliseconds before which nothing of a class stays. It only rises: at once where an operator says
so, and by age at each midnight, UTC, of a partition's clock. Enters: what operators set, and clocks. Leaves: cuts, and
the policy that takes something. Nothing fails.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.knowledge.endings import ENDING
from hmx_pipeline.compiler.registry import is_knowledge

RETENTION: Final = "retention"
"""Of the settings of a tenant, and of the marks that follow from it."""
_DAY: Final = 86_400_000
Json = Mapping[str, Any]
Moments = Mapping[str, int]


class Policies(NamedTuple):
    """What a tenant keeps, as one partition has it."""

    days: Moments
    sessions: int | None
    moments: Moments

    def after(self, given: Json) -> "Policies":
        """All policies are set at once; an event that only applies the count names none."""
        days, sessions = self[:2] if given.get("days") is None else (given["days"], given.get("sessions"))
        return Policies(days, sessions, latest([self.moments, given["cuts"]]))

    def by(self, clock: int) -> "Policies":
        aged = {name: max(0, clock // _DAY - days) * _DAY for name, days in self.days.items()}
        return self._replace(moments=latest([self.moments, aged]))

    def midnight(self, clock: int) -> int | None:
        """When more leaves; None: nothing has an age."""
        return clock - clock % _DAY + _DAY if self.days else None

    @property
    def text(self) -> str:
        told = [f"{name}:{days}d" for name, days in sorted(self.days.items())]
        return ",".join(told + [f"sessions:{self.sessions}"] * bool(self.sessions))


def latest(told: Iterable[Moments]) -> dict[str, int]:
    """Of each class."""
    return reduce(lambda a, b: {name: max(a.get(name, 0), b.get(name, 0)) for name in sorted({*a, *b})}, told, {})


def taken(moments: Moments, at: int, *classes: str) -> str:
    """The policy that takes what happened at this moment; empty: it stays."""
    for policy, names in (("age", ("all",)), ("class", classes), ("count", ("sessions",))):
        if any(at < moments.get(name, 0) for name in names):
            return policy
    return ""


def takes_contribution(moments: Moments, fields: Json) -> str:
    """By the last event that it rests on."""
    kind = fields["pattern_type"]
    return taken(moments, fields["last_at"], "knowledge" if is_knowledge(kind) or kind == ENDING else "artifacts")
