"""run: what one segment did, whole. Of all runs of a tenant its tasks are learnt, and of each task's runs its
artifacts.

All runs stand under one key, for what a run is about is learnt beside the others. A task is called after the first of
its runs: that one stays the first as others come. Nothing fails.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from pipeline.compiler import task_schema
from pipeline.compiler.model import Extracted, Kind
from pipeline.compiler.tasks import own_values
from pipeline.compiler.tasks.likeness import known, tasks
from pipeline.compiler.tasks.run import body, run_of
from pipeline.compiler.tasks.slots import SESSIONS
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Contribution, Pattern, Segment, SegmentOutcome, segment_rank
from pipeline.contracts.keys import join_key
from pipeline.segments.intent import goal_messages, goal_title
from pipeline.segments.masking import shorten
from pipeline.segments.pairing import Action

NAME: Final = task_schema.MADE_OF
KEY: Final = "1"
"""The form of the body, for contributions of another form would have another key."""
_STATES: Final = 4


def extract(segment: Segment, outcome: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    run = body(segment, actions)
    if run is None:
        return []
    goal = goal_messages(segment.steps)
    states = (step.text for step in segment.steps if step.role is Role.STATE and step.text)
    done = [action.events[0] for action in actions if action.verb]
    heard = [step.event_id for step in segment.steps if step.role is Role.FEEDBACK]
    return [
        Extracted(
            key=KEY,
            source_events=list(dict.fromkeys([*(m.event_id for m in goal), *done[: len(run["acts"])], *heard[-1:]])),
            outcome=outcome,
            tags=[],
            body={
                **run,
                "goal": goal_title(goal),
                "actions": len(actions),
                "states": list(dict.fromkeys(shorten(text, 60) for text in states))[-_STATES:],
            },
        )
    ]


def group(contributions: Sequence[Contribution]) -> dict[Pattern, list[Contribution]]:
    """The patterns of a tenant's tasks, each with the runs that it is learnt from, in event-time order."""
    by_name = {join_key(c.session_id, c.segment_id): c for c in _with_common_values(contributions)}
    runs = [
        known(name, segment_rank(c.session_id, c.segment_id), c.body["said"], c.body["done"])
        for name, c in by_name.items()
    ]
    found = {}
    for names in tasks(runs):
        own = sorted((by_name[name] for name in names), key=lambda c: (c.first_at, c.contribution_id))
        task = _task(own[0])
        found[Pattern(task_schema.NAME, task)] = found[Pattern(own_values.NAME, task)] = own
    return found


def _with_common_values(contributions: Sequence[Contribution]) -> Iterator[Contribution]:
    """Each with those of its values that are no single person's: two sessions have used them, and two subjects."""
    values = [run_of(c).values for c in contributions]
    used: dict[str, set[str]] = defaultdict(set)
    for c, own in zip(contributions, values, strict=True):
        for value in own:
            used[value].add(c.body["subject"] or c.session_id)
    for c, own in zip(contributions, values, strict=True):
        common = sorted(value for value in own if len(used[value]) >= SESSIONS)
        yield c.saying(common=common) if common else c


def _task(first: Contribution) -> str:
    name = join_key(first.session_id, first.segment_id)
    return f"{KEY}:{hashlib.sha256(name.encode()).hexdigest()[:16]}"


KIND: Final = Kind(NAME, extract, None, group=group)
