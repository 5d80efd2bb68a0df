"""Session timeline: a session's events as a page shows them, its segments, and what rests on these.

Enters: episodes of the session in order, and memory. Leaves: bounded views. Raises StoreUnavailableError.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, Literal

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.episode import RESERVED, Episode, Origin
from hmx_pipeline.contracts.evidence import SegmentOutcome
from hmx_pipeline.contracts.options import HOLDS, Status
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.retrieval.searchable import episode_step, shortened
from hmx_pipeline.store.fetch import Store

TEXT: Final = 300
"""Characters shown of an event."""
EXAMINED: Final = 2_000
"""Artifacts, and knowledge records, that are searched for what rests on a session."""
READ: Final = 200

Json = dict[str, Any]


class EventView(Model):
    event_id: str
    event_type: str
    agent_id: str
    timestamp: str
    at: int
    """Event time in milliseconds, at most 5 minutes after its append."""
    sequence: int
    index: int
    """Position in the session's released order."""
    run: int
    """How often the sequence has started over."""
    late: bool
    again: int
    """How often an event with this id came again: duplicates, which are dropped, or rejected ones."""
    redacted: bool
    """True if a secret was removed."""
    role: str
    actor: str
    text: str
    ok: bool | None
    """Whether it went well; None if it does not say."""


class LearntView(Model):
    kind: Literal["artifact", "knowledge"]
    id: str
    type: str
    text: str
    status: str


class SegmentView(Model):
    """Consecutive events about one goal, from the first that its contributions rest on."""

    segment_id: str
    outcome: SegmentOutcome
    first_at: str
    last_at: str
    contributions: dict[str, int]
    """Kind of pattern → number of contributions."""
    learnt: list[LearntView]


class SessionTimeline(Model):
    session_id: str
    events: list[EventView]
    next: int | None = None
    """Value of `begin` for the following events; absent at the end."""
    segments: list[SegmentView]
    """Those that begin among these events and contributed to a pattern."""
    complete: bool
    """False if memory holds more than was searched for what rests on the segments."""


def episode_origin(episode: Json) -> Origin:
    return Origin(**episode["metadata"][RESERVED]["origin"])


def _view(episode: Json, again: int) -> EventView:
    step, found = episode_step(episode), Episode.model_validate(episode)
    return EventView(
        event_id=found.id,
        event_type=found.event_type,
        agent_id=found.agent_id,
        timestamp=found.timestamp,
        at=step.at,
        sequence=found.sequence,
        index=found.release.index,
        run=found.release.run,
        late=found.release.late,
        again=again,
        redacted=bool(episode["metadata"][RESERVED].get("redacted")),
        role=step.role,
        actor=shortened(step.actor or step.name, TEXT),
        text=shortened(step.text, TEXT),
        ok=step.ok,
    )


def timeline(
    store: Store, tenant: str, episodes: Sequence[Json], more: int | None, again: Mapping[str, int]
) -> SessionTimeline:
    """Returns the timeline of a session's episodes, at least one. `more`: where the next ones begin. `again`: how often
    an event came besides."""
    events = [_view(each, again.get(each["id"], 0)) for each in episodes]
    session_id = str(episodes[0]["sessionId"])
    found = store.session_contributions(tenant, session_id, [event.event_id for event in events])
    of = {each["contribution_id"]: each["segment_id"] for each in found}
    resting, complete = _resting(store, tenant, of)
    segments = []
    for segment_id in dict.fromkeys(of.values()):
        own = [each for each in found if each["segment_id"] == segment_id]
        told = {SegmentOutcome(each["outcome"]) for each in own} - {SegmentOutcome.UNKNOWN}
        kinds = sorted(each["pattern_type"] for each in own)
        segments.append(
            SegmentView(
                segment_id=segment_id,
                outcome=told.pop() if len(told) == 1 else SegmentOutcome.UNKNOWN,
                first_at=format_ms(min(each["first_at"] for each in own)),
                last_at=format_ms(max(each["last_at"] for each in own)),
                contributions={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
                learnt=resting.get(segment_id, []),
            )
        )
    return SessionTimeline(session_id=session_id, events=events, next=more, segments=segments, complete=complete)


def _resting(store: Store, tenant: str, of: dict[str, str]) -> tuple[dict[str, list[LearntView]], bool]:
    """Returns what rests on each segment, and whether all of memory was searched."""
    if not of:
        return {}, True
    by_status = (store.all_artifacts(tenant, status=status) for status in (Status.ACTIVE, Status.DRAFT))
    artifacts = list(islice(chain.from_iterable(by_status), EXAMINED))
    known = sorted(store.knowledge_ids(tenant, HOLDS))
    records = (
        record
        for start in range(0, min(len(known), EXAMINED), READ)
        for record in store.knowledge_records(tenant, known[start : start + READ])
    )
    found: dict[str, list[LearntView]] = {}
    for record in chain(artifacts, records):
        for segment in dict.fromkeys(of[name] for name in record["source_memory_ids"] if name in of):
            found.setdefault(segment, []).append(_learnt(record))
    return found, len(artifacts) < EXAMINED and len(known) <= EXAMINED


def _learnt(record: Json) -> LearntView:
    if "artifact_id" in record:
        kind, title = record["artifact_type"], record["title"]
        return LearntView(kind="artifact", id=record["artifact_id"], type=kind, text=title, status=record["status"])
    kind, text = record["kind"], shortened(record["text"], TEXT)
    return LearntView(kind="knowledge", id=record["record_id"], type=kind, text=text, status=record["status"])
