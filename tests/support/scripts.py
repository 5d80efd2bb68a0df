"""Small sessions of named events, and logs of them that print as a table: what a counterexample shrinks to.

A move is one word for one event. A counterexample is read from its table, line by line: when, which session, which
sequence, which move.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import note
from hypothesis import strategies as st

from hmx_pipeline.contracts.event import ARRIVAL, SEQUENCE_MEANS
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.limits import SEGMENT_IDLE_MS, SESSION_FORGOTTEN_MS, WINDOW_MS
from hmx_pipeline.contracts.timestamps import format_ms
from tests.support.inprocess import Crash, Fate, barrier_record, tick_record
from tests.support.records import START_MS, LogRecord, event, log

LONG_AGO = START_MS - 86_400_000
_BUILD = {"tool_name": "build_image", "call_id": "build"}
_APPLY = {"tool_name": "apply_manifest", "call_id": "apply"}
_ERROR = "namespace payments not found"
MOVES: dict[str, tuple[str, dict[str, Any]]] = {
    "wish": ("message", {"role": "user", "text": "Please deploy the payments service to staging"}),
    "other wish": ("message", {"role": "user", "text": "Now roll back the search service in production"}),
    "build": ("tool_call", {**_BUILD, "arguments": {"service": "payments"}}),
    "built": ("tool_result", {**_BUILD, "success": True}),
    "apply": ("tool_call", {**_APPLY, "arguments": {"env": "staging"}}),
    "applied": ("tool_result", {**_APPLY, "success": True}),
    "failed": ("tool_result", {**_APPLY, "success": False, "error": _ERROR}),
    "error": ("error", {"error_type": "NotFound", "message": _ERROR}),
    "thanks": ("feedback", {"signal": "positive"}),
    "blame": ("feedback", {"signal": "negative"}),
}
"""Who blames, blames what the session began with."""
TASK = ("wish", "build", "built", "apply", "failed", "error", "apply", "applied", "thanks")
"""A task with something to learn from."""


MINTED = "^"
"""Variant of an event whose sequence says only in which order events came."""


class Line(NamedTuple):
    """One record of a log. Without a session: a tick, a barrier, or bytes that are no event."""

    at: int
    """Append time in milliseconds after the beginning."""
    move: str
    session: str = ""
    sequence: int = 0
    instant: int = 0
    """The event's own clock, milliseconds."""
    variant: str = ""
    """Tells events apart that are alike in all else."""

    @property
    def event_id(self) -> str:
        return f"{self.session}{self.sequence}{self.variant}"


def spoken(line: Line) -> dict[str, Any]:
    kind, content = MOVES[line.move]
    if line.move == "blame":
        content = {**content, "target_event_id": f"{line.session}0"}
    return event(
        line.session,
        line.sequence,
        event_id=line.event_id,
        event_type=kind,
        content=content,
        timestamp=format_ms(LONG_AGO + line.instant),
        metadata={SEQUENCE_MEANS: ARRIVAL} if line.variant == MINTED else {},
    )


def records(lines: Iterable[Line]) -> list[LogRecord]:
    """One partition's log."""
    return partitioned(lines, 1)[0]


def partitioned(lines: Iterable[Line], partitions: int) -> list[list[LogRecord]]:
    """Every session in its own partition; ticks, barriers and what is no event in all of them."""
    made: list[list[LogRecord]] = [[] for _ in range(partitions)]
    for number, line in enumerate(lines):
        home = partition_of(session_key("acme", line.session), partitions)
        for partition in [home] if line.session else range(partitions):
            made[partition].append(_record(line, number, partition, len(made[partition])))
    return made


def _record(line: Line, number: int, partition: int, offset: int) -> LogRecord:
    if line.move == "tick":
        return tick_record(line.at, partition, offset)
    if line.move == "barrier":
        return barrier_record(line.at, partition, offset, barrier_id=str(number))
    (made,) = log([(line.at, spoken(line) if line.session else line.move.encode())], partition)
    return replace(made, offset=offset)


def show(title: str, lines: Iterable[Line]) -> None:
    """Printed where an example fails, and only there."""
    rows = [f"{n:>3} {x.at:>9} ms  {x.session:<3}{x.sequence:>3}{x.variant:<2} {x.move}" for n, x in enumerate(lines)]
    note("\n".join([f"{title}: offset, append time, session, sequence, move", *rows]))


def show_fates(fates: Sequence[Fate]) -> None:
    note("batches: " + (", ".join(f"{n} records, {crash.value}" for n, crash in fates) or "one"))


SMALL = {
    "WAITING_EVENTS": 3, "RECENT_IDS": 4, "SEGMENT_EVENTS": 4, "SESSION_SEGMENTS": 1, "LATE_FEEDBACK": 1,
    "PATTERN_CONTRIBUTIONS": 3, "TENANT_CONTRIBUTIONS": 5, "ARTIFACT_VERSIONS": 1, "PART_STEPS": 2,
    "BLOCK_BYTES": 256, "PARTITION_SESSION_BYTES": 6_000, "PARTITION_CONTRIBUTION_BYTES": 6_000,
}  # fmt: skip


@contextmanager
def bounds(*, small: bool) -> Iterator[None]:
    """So small, wherever they are looked up, that a short log reaches them all."""
    with pytest.MonkeyPatch.context() as patch:
        patched = set()
        for name, module in list(sys.modules.items()) if small else ():
            for bound in SMALL.keys() & vars(module).keys() if name.startswith("hmx_pipeline.") else ():
                patch.setattr(module, bound, SMALL[bound])
                patched.add(bound)
        assert patched == (SMALL.keys() if small else set()), "each bound is looked up somewhere"
        yield


STEPS = st.sampled_from(
    [0, 0, 0, 1, 1_000, WINDOW_MS - 1, WINDOW_MS, -3_000, SEGMENT_IDLE_MS, SESSION_FORGOTTEN_MS]
)  # fmt: skip
FATES = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(list(Crash))), max_size=8)
"""Batches, and where the worker dies."""


@st.composite
def logs(draw: st.DrawFn) -> list[Line]:
    """Anything: whole tasks, gaps, ties, duplicates, ids used twice, late events, minted sequences, what is no event,
    ticks, barriers, silence.
    """
    often = ["event"] * 6 + ["late"] * 2 + ["task"] * 2
    kinds = st.sampled_from([*often, "minted", "again", "tick", "barrier", "no event"])
    made: list[Line] = []
    at, told = 0, {"a": 0, "b": 0}
    for kind in draw(st.lists(kinds, max_size=20)):
        at += draw(STEPS)
        session = draw(st.sampled_from("ab"))
        if kind == "task":
            made += [_line(at, move, session, n) for n, move in enumerate(TASK, told[session])]
            told[session] += len(TASK)
        elif kind == "event":
            sequence = told[session] + draw(st.sampled_from([0, 0, 0, 0, 1, 2]))
            told[session] = sequence + 1
            made.append(_line(at, draw(st.sampled_from([TASK[sequence % len(TASK)], *MOVES])), session, sequence))
        elif kind == "late":
            sequence = max(0, told[session] - draw(st.integers(1, 5)))
            variant = draw(st.sampled_from(["~", "~", ""]))
            made.append(_line(at, draw(st.sampled_from(list(MOVES))), session, sequence)._replace(variant=variant))
        elif kind == "minted":
            instant = 1_000 * told[session] + draw(st.sampled_from([0, 1, -2 * WINDOW_MS, 10 * WINDOW_MS]))
            sequence = draw(st.integers(0, 2**53 - 1))
            made.append(Line(at, draw(st.sampled_from(list(MOVES))), session, sequence, instant, MINTED))
        elif kind == "again":
            sent = [line for line in made if line.session]
            made += [draw(st.sampled_from(sent))._replace(at=at)] if sent else []
        else:
            made.append(Line(at, kind))
    return made


def _line(at: int, move: str, session: str, sequence: int) -> Line:
    return Line(at, move, session, sequence, 1_000 * sequence)
